from __future__ import annotations

import asyncio
import errno
import gzip
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang import Rollout, Trajectory
from strands_sglang.errors import RecordError, RecordFormatError
from strands_sglang.records import RecordWriter, read_records
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Turn

from .trees import examples, trajectories


def episode(number: int, *, length: int = 3) -> Trajectory:
    trajectory = Trajectory(id=f"e{number}", reward=float(number))
    trajectory.add(
        Turn(
            index=0,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [1, 2]),
            sampled=Segment.of(SegmentKind.SAMPLED, range(length), [-0.5] * length),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )
    return trajectory


def written(path: Path, count: int = 3) -> bytes:
    """Write some episodes; return the file."""
    with RecordWriter(path) as writer:
        for number in range(count):
            writer.write(episode(number))
    return path.read_bytes()


@examples(20)
@given(st.lists(trajectories(most=3), max_size=3))
def test_what_is_written_is_read_in_order(tmp_path: Path, episodes: list[Trajectory]) -> None:
    path = tmp_path / "episodes.jsonl"
    path.unlink(missing_ok=True)
    with RecordWriter(path) as writer:
        for trajectory in episodes:
            writer.write(trajectory)

    assert list(read_records(path)) == episodes


def test_a_second_writer_goes_on_at_the_end(tmp_path: Path) -> None:
    written(tmp_path / "e.jsonl", 2)
    with RecordWriter(tmp_path / "e.jsonl", fsync=True) as writer:
        writer.write(episode(2))

    assert list(read_records(tmp_path / "e.jsonl")) == [episode(0), episode(1), episode(2)]


def test_a_file_that_was_cut_anywhere_is_readable_and_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the moment at which its writer was killed."""
    path, aside = tmp_path / "e.jsonl", tmp_path / "e.jsonl.cut"
    whole = written(path)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for size in [*range(0, len(whole), 7), *ends, *(end - 1 for end in ends)]:
        path.write_bytes(whole[:size])
        aside.unlink(missing_ok=True)
        # A record that lacks nothing but its newline is whole.
        good = [episode(number) for number, end in enumerate(ends) if end - 1 <= size]
        cut = whole[max((end for end in ends if end <= size), default=0) : size]
        caplog.clear()

        if good or not cut:
            assert list(read_records(path, strict=False)) == good
        with RecordWriter(path) as writer:
            writer.write(episode(9))

        assert list(read_records(path)) == [*good, episode(9)]
        if cut and size + 1 not in ends:
            assert aside.read_bytes() == cut + b"\n"
            assert "cut off" in caplog.text
        else:
            assert not aside.exists()


KILLED = """
import sys
import time
from pathlib import Path
from strands_sglang.records import RecordWriter
from strands_sglang.trajectory import Trajectory
with RecordWriter(sys.argv[1]) as writer:
    for number in range(50):
        writer.write(Trajectory(id=str(number), metadata={"text": "x" * 3_000_000}))
    time.sleep(600)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_killed_writer_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    grown = 0
    for wait in (0.0, 0.003, 0.011):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
        while process.poll() is None and (not path.exists() or path.stat().st_size <= grown + 3_100_000):
            time.sleep(0.001)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()

        RecordWriter(path).close()
        ids = [trajectory.id for trajectory in read_records(path)]
        grown = path.stat().st_size

    assert ids.count("0") == 3
    # Each writer counts from 0 on, without gaps.
    assert all(int(after) in (int(before) + 1, 0) for before, after in pairwise(ids))


def test_threads_and_tasks_share_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"

    async def main(writer: RecordWriter) -> None:
        await asyncio.gather(*(writer.awrite(episode(number)) for number in range(100, 120)))

    with RecordWriter(path) as writer, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(writer.write, episode(number, length=2000)) for number in range(40)]
        asyncio.run(main(writer))
        for done in waiting:
            done.result()

    read = sorted(int(trajectory.id[1:]) for trajectory in read_records(path))
    assert read == [*range(40), *range(100, 120)]


def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with RecordWriter(tmp_path / "e.jsonl"), pytest.raises(RecordError, match=r"another writer has .*e\.jsonl open"):
        RecordWriter(tmp_path / "e.jsonl")
    RecordWriter(tmp_path / "e.jsonl").close()


def test_a_write_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "e.jsonl"
    with RecordWriter(path, fsync=True) as writer:
        writer.write(episode(0))

        def full(number: int) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="no space left"):
                writer.write(episode(1))
        writer.write(episode(2))

    assert list(read_records(path)) == [episode(0), episode(2)]


def test_a_record_that_json_cannot_hold_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    before = written(path)

    with RecordWriter(path) as writer, pytest.raises(RecordError, match=r"metadata\.x"):
        writer.write(Trajectory(metadata={"x": object()}))

    assert path.read_bytes() == before


def test_a_closed_writer_writes_nothing(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "e.jsonl")
    writer.close()
    writer.close()

    with pytest.raises(RecordError, match="is closed"):
        writer.write(episode(0))
    assert repr(writer).startswith("RecordWriter(")


def test_a_damaged_line_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"[1,2]", b"[1,null]"), lines[2]]))
    records = read_records(path)

    assert next(records) == episode(0)
    with pytest.raises(
        RecordFormatError, match=r"e\.jsonl, line 2: damaged trajectory: turns\[0\].prompt.ids"
    ) as caught:
        next(records)
    assert (caught.value.line, caught.value.path) == (2, str(path))
    assert caught.value.place == "turns[0].prompt.ids[1]"


@pytest.mark.parametrize("damage", [b"{", b"\x00" * 50, b"\xff\xfe", b"3", b'{"format":"other"}', b"[" * 9999, b'"x'])
def test_good_lines_around_damage_still_load(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "e.jsonl"
    lines = written(path).splitlines(keepends=True)
    for at in range(3):
        path.write_bytes(b"".join([*lines[:at], damage + b"\n", b"\n", *lines[at + 1 :]]))
        with pytest.raises(RecordFormatError, match=f"line {at + 1}"):
            list(read_records(path))
        caplog.clear()

        records = read_records(path, strict=False)

        assert list(records) == [episode(number) for number in range(3) if number != at]
        assert [error.line for error in records.damaged] == [at + 1]
        assert f"line {at + 1}" in caplog.text


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_is_an_error_never_another_value(tmp_path: Path, bit: int) -> None:
    path = tmp_path / "e.jsonl"
    whole = written(path)
    episodes = [episode(number) for number in range(3)]
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        records = read_records(path, strict=False)
        read = list(records)

        assert all(record in episodes for record in read)
        assert len(read) == 3 or (len(read) in (1, 2) and records.damaged)


def test_a_digit_that_was_changed_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(written(path).replace(b'"reward":1.0', b'"reward":7.0'))

    with pytest.raises(RecordFormatError, match=r"line 2: damaged trajectory: .* checksum is wrong") as caught:
        list(read_records(path))
    assert caught.value.line == 2
    assert [record.id for record in read_records(path, strict=False)] == ["e0", "e2"]


@pytest.mark.parametrize("tool", ["jq -c .", "jq -cS .", "jq -ca ."])
def test_a_file_that_jq_filtered_is_read(tmp_path: Path, tool: str) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    path = tmp_path / "e.jsonl"
    written(path)

    path.write_bytes(subprocess.run(tool.split(), input=path.read_bytes(), capture_output=True, check=True).stdout)

    assert list(read_records(path)) == [episode(0), episode(1), episode(2)]


@pytest.mark.parametrize("strict", [True, False])
def test_records_whose_newline_was_lost_are_all_read(tmp_path: Path, strict: bool) -> None:
    path = tmp_path / "e.jsonl"
    for end in (b"", b"\n"):
        path.write_bytes(written(tmp_path / f"whole{len(end)}").replace(b"\n", b"") + end)
        records = read_records(path, strict=strict)

        assert list(records) == [episode(0), episode(1), episode(2)]
        assert records.damaged == []

    with RecordWriter(path) as writer:
        writer.write(episode(3))
    assert list(read_records(path)) == [episode(number) for number in range(4)]


def test_of_records_in_one_line_the_good_ones_load(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(written(path).replace(b"\n", b"").replace(b'"reward":1.0', b'"reward":7.0') + b"\n")

    records = read_records(path, strict=False)

    assert list(records) == [episode(0), episode(2)]
    assert [(error.line, "no end" in str(error)) for error in records.damaged] == [(1, False)]


def test_an_episode_within_a_damaged_one_is_no_episode(tmp_path: Path) -> None:
    """What metadata holds was never an episode of the file."""
    path = tmp_path / "e.jsonl"
    inner = json.loads(episode(0).to_json())
    text = Trajectory(metadata={"one": inner, "text": '}{"format":"strands-sglang/trajectory",'}).to_json()
    path.write_text(f"{text}\n")
    assert [record.metadata["one"] for record in read_records(path)] == [inner]

    for size in range(0, len(text), 3):
        path.write_text(f"{text[:size]}\n{episode(1).to_json()}\n")
        assert list(read_records(path, strict=False)) == [episode(1)]


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + written(path, 2))

    with RecordWriter(path) as writer:
        writer.write(episode(2))

    assert list(read_records(path)) == [episode(0), episode(1), episode(2)]


def test_a_record_that_was_changed_on_purpose_is_read_without_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    saved = json.loads(written(path, 1))
    saved["reward"] = 7.0
    del saved["crc32"]
    path.write_text(json.dumps(saved, separators=(",", ":")) + "\n")

    assert [record.reward for record in read_records(path)] == [7.0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(b"{}", mtime=0), "compressed with gzip"),
        (b"PAR1\x00\x00", "a Parquet file; use read_parquet"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"PK\x03\x04", "ZIP"),
        (b"\x89PNG\r\n\x1a\n", "no readable record in 2 lines"),
        (b'{"a": 1}\n{"a": 2}\n', "no readable record in 2 lines"),
        (b"prompt,reward\n", "no readable record"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(RecordFormatError, match=words):
        list(read_records(path, strict=False))
    with pytest.raises(RecordFormatError):
        list(read_records(path))
    with pytest.raises(RecordFormatError):
        RecordWriter(path)
    assert path.read_bytes() == content


def test_rollouts_are_written_and_read_too(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    branch = episode(0).branches[0]
    with RecordWriter(path) as writer:
        writer.write(branch)

    assert list(read_records(path, kind=Rollout)) == [branch]
    with pytest.raises(RecordFormatError, match="the record is a Rollout, not a Trajectory: read it with kind=Rollout"):
        list(read_records(path))


def test_a_file_that_another_tool_wrote_again_is_readable_and_goes_on(tmp_path: Path) -> None:
    """Spaces, and numbers without a fraction, as jq writes them."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(written(path, 1).replace(b":", b": ").replace(b"0.0", b"0"))
    with RecordWriter(path) as writer:
        writer.write(episode(1))

    assert list(read_records(path)) == [episode(0), episode(1)]


def test_a_file_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_records(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        RecordWriter(tmp_path / "none" / "e.jsonl")


def test_an_empty_file_holds_no_records(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").touch()

    assert list(read_records(tmp_path / "e.jsonl")) == []


def test_a_file_that_cannot_be_locked_is_written_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(number: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("strands_sglang.records.writer._flock", unsupported)
    with caplog.at_level(logging.WARNING):
        written(tmp_path / "e.jsonl")

    assert "cannot be locked" in caplog.text

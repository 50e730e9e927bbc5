from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang import Trajectory
from strands_sglang.errors import RecordError, RecordFormatError, SGLangConfigError
from strands_sglang.records import read_parquet, write_parquet

from .test_record_files import episode
from .test_saved_trajectory import whole
from .trees import examples, trajectories

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(path: Path, episodes: list[Trajectory]) -> Any:
    """Write a file; return its table."""
    write_parquet(episodes, path)
    return parquet.read_table(path)


@examples(20)
@given(st.lists(trajectories(most=4), max_size=3))
def test_saving_and_loading_gives_equal_episodes(tmp_path: Path, episodes: list[Trajectory]) -> None:
    write_parquet(episodes, tmp_path / "e.parquet")

    loaded = list(read_parquet(tmp_path / "e.parquet"))

    assert [trajectory.to_json() for trajectory in loaded] == [trajectory.to_json() for trajectory in episodes]


def test_episodes_of_the_same_id_are_kept_apart(tmp_path: Path) -> None:
    write_parquet([whole(), whole(), Trajectory(id="e1")], tmp_path / "e.parquet")

    assert list(read_parquet(tmp_path / "e.parquet")) == [whole(), whole(), Trajectory(id="e1")]


def test_a_long_file_is_read_in_pieces(tmp_path: Path) -> None:
    write_parquet((episode(number) for number in range(1000)), tmp_path / "e.parquet")

    assert [trajectory.id for trajectory in read_parquet(tmp_path / "e.parquet")] == [f"e{n}" for n in range(1000)]
    assert parquet.ParquetFile(tmp_path / "e.parquet").num_row_groups > 1


def test_ids_logprobs_and_mask_are_list_columns_of_one_length(tmp_path: Path) -> None:
    rows = table(tmp_path / "e.parquet", [whole()]).to_pylist()

    assert rows[0]["token_ids"] == [1, 2, 3, 4]
    assert rows[0]["loss_mask"] == [0, 0, 1, 1]
    assert rows[0]["logprobs"] == [None, -0.25, -0.1, None]
    assert [row["turn"] for row in rows] == [0, 1]
    assert [row["fate"] for row in rows] == ["kept", "discarded"]


def test_a_failed_writer_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    write_parquet([whole()], path)
    for bad in (Trajectory(metadata={"x": object()}), Trajectory(id="\ud800"), Trajectory(group_index=2**70)):
        with pytest.raises(RecordError):
            write_parquet([episode(0), bad], path)

        assert list(read_parquet(path)) == [whole()]
        assert [file.name for file in tmp_path.iterdir()] == ["e.parquet"]


def test_two_threads_that_write_one_path_leave_the_file_of_one(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    started = threading.Barrier(2)

    def episodes(name: str) -> Iterator[Trajectory]:
        for number in range(3):
            yield Trajectory(id=f"{name}{number}")
            started.wait(timeout=30)  # both have begun, and neither is done

    threads = [threading.Thread(target=write_parquet, args=(episodes(name), path)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    names = [trajectory.id for trajectory in read_parquet(path)]
    assert names in (["a0", "a1", "a2"], ["b0", "b1", "b2"])
    assert [file.name for file in tmp_path.iterdir()] == ["e.parquet"]


def test_a_table_is_readable_for_whom_a_new_file_is(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_parquet([whole()], tmp_path / "e.parquet")
    finally:
        os.umask(before)

    assert (tmp_path / "e.parquet").stat().st_mode & 0o777 == 0o640


def test_a_table_without_some_rows_is_no_shorter_episode(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    written = table(path, [whole(), Trajectory(id="none"), whole()])
    assert written.column("turns").to_pylist() == [2, 2, 0, 2, 2]
    for left in ([0], [1], [0, 2, 3, 4], [0, 1, 2, 3], [0, 1, 1, 2], [0, 1, 2, 2], [0, 3, 1, 4], [0, 3]):
        parquet.write_table(written.take(left), path)

        with pytest.raises(RecordFormatError, match="damaged table"):
            list(read_parquet(path))


def test_a_table_of_some_whole_episodes_is_one(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    written = table(path, [whole(), Trajectory(id="none"), whole()])
    parquet.write_table(written.take([2, 3, 4]), path)

    assert list(read_parquet(path)) == [Trajectory(id="none"), whole()]


def test_a_cut_or_changed_file_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    write_parquet([episode(number, length=50) for number in range(20)], path)
    content = path.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(RecordFormatError, match=r"e\.parquet"):
            list(read_parquet(path))
    found = 0
    for place in range(4, len(content) // 2, 97):
        changed = bytearray(content)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            assert len(list(read_parquet(path))) == 20  # a byte that means nothing
        except RecordFormatError:
            found += 1
    assert found > 10


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    parquet.write_table(arrow.table({"a": [1]}), path)
    with pytest.raises(RecordFormatError, match="not one of episodes of this library"):
        read_parquet(path)
    path.write_text("{}")
    with pytest.raises(RecordFormatError, match="not a Parquet file"):
        read_parquet(path)
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none")


def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    written = table(path, [whole()])
    header = written.schema.metadata[b"strands-sglang"].replace(b'"version": 1', b'"version": 2')
    parquet.write_table(written.replace_schema_metadata({b"strands-sglang": header}), path)

    with pytest.raises(RecordFormatError, match="turn-table version 2 is unknown; this release reads 1"):
        read_parquet(path)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("fate", "lost", r"rows from 1: damaged trajectory: turns\[0\].fate"),
        ("lineage", None, r"turns\[0\].lineage is null"),
        ("parent", 7, r"turns\[0\].parent is 7"),
        ("turn", 1, r"turns\[0\] is not where it should be"),
        ("token_ids", None, r"turns\[0\] is not where it should be"),
        ("prompt_length", 9, r"turns\[0\] is not where it should be"),
        ("loss_mask", [1, 1, 1, 1], r"turns\[0\] has columns that do not agree"),
        ("logprobs", [0.0], r"turns\[0\] has columns that do not agree"),
        ("sampled_weight_spans", [None], r"sampled.weight_spans\[0\] is null, not a list"),
        ("images", [None], r"turns\[0\].images\[0\] is null, not a string"),
        ("sampled_facts", "[]", r"turns\[0\].sampled.facts is a list, not an object"),
        ("sampled_facts", '{"a":1,"a":2}', r"turns\[0\].sampled.facts is not JSON"),
        ("sampled_facts", "{", r"turns\[0\].sampled.facts is not JSON"),
        ("metadata", None, "rows of one episode disagree"),
        ("termination_reason", "boredom", "rows of one episode disagree"),
        ("turns", 1, "rows of one episode disagree"),
        ("turn", None, "1 of the 2 rows of an episode are there"),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path: Path, column: str, value: Any, words: str) -> None:
    path = tmp_path / "e.parquet"
    written = table(path, [whole()])
    rows = written.to_pylist(maps_as_pydicts="strict")
    rows[0][column] = value
    parquet.write_table(arrow.Table.from_pylist(rows, schema=written.schema), path)

    with pytest.raises(RecordFormatError, match=words):
        list(read_parquet(path))


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    written = table(path, [whole()])
    parquet.write_table(written.drop_columns(["fate"]), path)

    with pytest.raises(RecordFormatError, match="columns are not those of its version"):
        read_parquet(path)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(SGLangConfigError, match="need pyarrow") as caught:
        write_parquet([], tmp_path / "e.parquet")
    assert caught.value.hint == 'pip install "strands-sglang[parquet]"'

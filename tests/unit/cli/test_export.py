from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strands_sglang.cli import main
from strands_sglang.cli.export import without_repeated
from strands_sglang.exporters import get_exporter
from strands_sglang.records import RecordWriter, write_parquet
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory
from tests.unit.exporters.trees import branching, linear


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A file of two episodes; the second has two samples."""
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as writer:
        writer.write(linear(([1, 2], [1000, 1001]), ([3], [1002]), id="1"))
        writer.write(branching(id="2"))
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_rows_are_those_of_the_exporter(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["export", str(records), "--to", "slime", "-o", str(tmp_path / "rows.jsonl")])

    episodes = [linear(([1, 2], [1000, 1001]), ([3], [1002]), id="1"), branching(id="2")]
    shown = capsys.readouterr()
    assert code == 0
    assert lines(tmp_path / "rows.jsonl") == list(get_exporter("slime").export(episodes).rows)
    assert "3 rows for slime" in shown.err
    assert "not in the rows: response: 3 rows" in shown.err
    assert shown.out == ""
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_options_reach_the_exporter(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["-O", "several=last", "-O", 'extra-credit=["score"]']

    assert main(["export", str(records), "--to", "verl", "-o", "-", *arguments]) == 0

    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["response_ids"][-1] for row in shown] == [1002, 1005]
    assert shown[0]["extra_fields"]["score"] == [None, None]


@pytest.mark.parametrize(("text", "given"), [("False", False), ("false", False), ("true", True)])
def test_a_switch_is_read_as_one(records: Path, text: str, given: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(records), "--to", "tinker", "-o", "-", "-O", f"mask={text}"]) == 0

    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert ("mask" in first["loss_fn_inputs"]) is given


def test_numbers_that_json_has_no_form_for_are_text(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(records), "--to", "art", "-o", "-"]) == 0

    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["tokenized_histories"][0]["logprobs"][0] == "NaN"


def test_a_tokenizer_gives_the_text(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from strands_sglang.engine import TINY_MODEL

    episode = linear(([1, 2], [10, 11]), id="1")
    with RecordWriter(records.with_name("small.jsonl")) as writer:
        writer.write(episode)

    path = str(records.with_name("small.jsonl"))
    assert main(["export", path, "--to", "slime", "-o", "-", "--tokenizer", str(TINY_MODEL)]) == 0

    shown = capsys.readouterr()
    assert json.loads(shown.out)["response"]
    assert "response:" not in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "slimy", "-o", "-"], "unknown exporter 'slimy', did you mean 'slime'"),
        (["--to", "verl", "-o", "-"], "has 2 samples, but verl takes one per episode"),
        (["--to", "verl", "-o", "-", "-O", "several"], "--option 'several' is not NAME=VALUE"),
        (["--to", "verl", "-o", "-", "-O", "many=last"], "has no option 'many'"),
        (["--to", "tinker", "-o", "-", "--tokenizer", "x"], "has no option 'decode'"),
        (["--to", "parquet", "-o", "-"], "a table cannot be printed"),
        (["--to", "jsonl", "-o", "no/such/folder/rows.jsonl"], "--output no/such/folder/rows.jsonl"),
        (["--to", "jsonl", "-o", "."], "--output . is no file"),
        (["--to", "jsonl", "-o", os.devnull], f"--output {os.devnull} is no file"),
        (["--to", "areal", "-o", "-", "-O", "turn_ids=no"], "areal: turn_ids='no'; it can be true or false"),
        (
            ["--to", "areal", "-o", "-", "-O", "unknown_version=zero"],
            "unknown_version='zero'; it can be an integer, none",
        ),
        (["--to", "tinker", "-o", "-", "-O", "missing_credit=nan"], "it can be a finite number, none"),
        (["--to", "verl", "-o", "-", "-O", "several=first"], "several='first'; it can be 'raise', 'last'"),
        (["--to", "verl", "-o", "-", "-O", "extra-credit={}"], "extra_credit='{}'; it can be a list of names"),
        (["--to", "slime", "-o", "-", "-O", "decode=3"], "decode is no option of the command line"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    records: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(records), *arguments]) == 2

    assert words in capsys.readouterr().err


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "missing.jsonl", "--to", "jsonl", "-o", "-"]) == 2

    assert "missing.jsonl: No such file" in capsys.readouterr().err


def test_a_damaged_line_is_refused_or_left_out(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with records.open("a") as file:
        file.write("{damaged\n")

    assert main(["export", str(records), "--to", "jsonl", "-o", "-"]) == 2
    assert "line 3" in capsys.readouterr().err
    assert main(["export", str(records), "--to", "jsonl", "-o", "-", "--skip-damaged"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_table(records: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    assert main(["export", str(records), "--to", "parquet", "-o", str(tmp_path / "rows.parquet")]) == 0

    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["rollout_id"] for row in rows] == ["1", "2", "2"]


def test_a_table_of_records_is_known_by_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    write_parquet([branching(id="2")], tmp_path / "records.jsonl")

    assert main(["export", str(tmp_path / "records.jsonl"), "--to", "jsonl", "-o", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("other", ["records.jsonl", "link.jsonl", "others.jsonl"])
def test_records_are_never_written_over(
    records: Path, tmp_path: Path, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link.jsonl").symlink_to(records)
    (tmp_path / "others.jsonl").write_text("{cut\n" + branching(id="3").to_json() + "\n")
    before = (tmp_path / other).read_bytes()

    assert main(["export", str(records), "--to", "jsonl", "-o", str(tmp_path / other)]) == 2

    assert "records" in capsys.readouterr().err
    assert (tmp_path / other).read_bytes() == before


def test_a_table_of_records_is_never_written_over(records: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table, rows = tmp_path / "records.parquet", tmp_path / "rows.parquet"
    write_parquet([branching(id="2")], table)
    before = table.read_bytes()

    assert main(["export", str(records), "--to", "parquet", "-o", str(table)]) == 2
    assert table.read_bytes() == before
    assert [main(["export", str(records), "--to", "parquet", "-o", str(rows)]) for _ in range(2)] == [0, 0]


def newer_layout(table: bytes) -> bytes:
    """A table as a later release may write it."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    read = parquet.read_table(io.BytesIO(table))
    header = read.schema.metadata[b"strands-sglang"].replace(b'"version": 1', b'"version": 2')
    sink = arrow.BufferOutputStream()
    parquet.write_table(read.replace_schema_metadata({b"strands-sglang": header}), sink)
    return bytes(sink.getvalue())


def rewritten(table: bytes) -> bytes:
    """A table as a tool writes it that keeps columns only."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    sink = arrow.BufferOutputStream()
    parquet.write_table(parquet.read_table(io.BytesIO(table)).replace_schema_metadata(None), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("table", newer_layout),
        ("table", rewritten),
        ("table", lambda table: table[: len(table) // 2]),
        ("table", lambda table: table[:-1]),
        ("table", gzip.compress),
        ("lines", gzip.compress),
        ("lines", lambda lines: lines[:12]),
        ("lines", lambda lines: lines[:100]),
        ("lines", lambda lines: b"\xef\xbb\xbf" + lines),
        ("lines", lambda lines: b"\n \n" + lines),
        ("lines", lambda lines: b"[" + lines.replace(b"\n", b",\n") + b"{}]"),
        ("lines", lambda lines: json.dumps(json.loads(lines.splitlines()[0]), indent=1, sort_keys=True).encode()),
        ("lines", lambda lines: json.dumps(json.loads(lines.splitlines()[0]), sort_keys=True).encode()),
        ("lines", lambda lines: lines.replace(b"strands-sglang/", b"strands-sglang\\/")),
        ("lines", lambda lines: lines.replace(b"/trajectory", b"/a-later-kind")),
        ("lines", lambda lines: lines.decode().encode("utf-16")),
        ("lines", lambda lines: b"\x00" * len(lines)),
        ("lines", lambda _: b"my notes\n"),
    ],
)
def test_what_may_be_records_is_never_written_over(
    records: Path, tmp_path: Path, name: str, damage: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    table, target = tmp_path / "table", tmp_path / "target"
    write_parquet([branching(id="2")], table)
    target.write_bytes(damage((table if name == "table" else records).read_bytes()))
    before = target.read_bytes()

    for exporter in ("jsonl", "parquet"):
        assert main(["export", str(records), "--to", exporter, "-o", str(target)]) == 2
        assert "records" in (shown := capsys.readouterr().err)
        assert "give another name, or move it away" in shown
    assert target.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\n \n", b'{"a": 1}\n'])
def test_what_holds_no_records_is_written_over(records: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows").write_bytes(content)

    for exporter in ("slime", "parquet", "jsonl", "verl"):
        assert main(["export", str(records), "--to", exporter, "-o", str(tmp_path / "rows"), *LAST[exporter]]) == 0


LAST = {"slime": [], "parquet": [], "jsonl": [], "verl": ["-O", "several=last"]}


def test_rows_are_readable_for_whom_a_new_file_is(records: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for exporter in ("jsonl", "parquet"):
            assert main(["export", str(records), "--to", exporter, "-o", str(tmp_path / exporter)]) == 0
    finally:
        os.umask(before)

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("jsonl", "parquet")] == [0o640, 0o640]


@pytest.mark.parametrize("content", [b"", b"\n \n", None], ids=["empty", "blank", "table"])
def test_a_file_without_an_episode_is_an_error_as_for_verify(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none"
    if content is None:
        pytest.importorskip("pyarrow")
        write_parquet([], path)
    else:
        path.write_bytes(content)

    for arguments in (
        ["export", str(path), "--to", "jsonl", "-o", str(tmp_path / "rows")],
        ["export", str(path), "--to", "jsonl", "-o", str(tmp_path / "rows"), "--skip-damaged"],
        ["verify", str(path), "--base-url", "http://localhost:9"],
    ):
        assert main(arguments) == 2
        assert f"{path} holds no records" in capsys.readouterr().err
    assert not (tmp_path / "rows").exists()


def test_rows_are_written_over(records: Path, tmp_path: Path) -> None:
    arguments = ["export", str(records), "--to", "jsonl", "-o", str(tmp_path / "rows.jsonl")]

    assert [main(arguments), main(arguments)] == [0, 0]


def attempt(name: str, reason: TerminationReason, *, key: str | None = "k", partial: bool = False) -> Trajectory:
    """An episode as a run saves it."""
    episode = linear(([1, 2], [1000]), id=name, group_id="g", group_index=0, termination=Termination(reason=reason))
    episode.metadata["episode"] = {"key": key, "group_index": 0, "partial": partial}
    return episode


DONE, LATE = TerminationReason.TASK_COMPLETE, TerminationReason.TIMEOUT


@pytest.mark.parametrize(
    ("episodes", "kept"),
    [
        ([attempt("a", LATE), attempt("b", DONE)], ["b"]),
        ([attempt("a", DONE, partial=True), attempt("b", DONE)], ["b"]),
        ([attempt("a", LATE), attempt("b", LATE), attempt("c", LATE, key="other")], ["b", "c"]),
        ([attempt("a", DONE), attempt("b", LATE)], ["a"]),
        ([attempt("a", DONE), attempt("b", DONE)], ["a", "b"]),
        ([attempt("a", LATE, key=None), attempt("b", LATE, key=None)], ["a", "b"]),
        ([linear(([1], [1000]), id="a"), linear(([1], [1000]), id="b")], ["a", "b"]),
    ],
)
def test_what_was_played_again_is_left_out(episodes: list[Trajectory], kept: list[str]) -> None:
    assert [episode.id for episode in without_repeated(episodes)] == kept


def test_a_resumed_file_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as writer:
        writer.write(attempt("a", LATE))
        writer.write(attempt("b", DONE))

    assert main(["export", str(path), "--to", "skyrl", "-o", "-"]) == 0
    assert "1 episode not finished, and played again later" in capsys.readouterr().err
    assert main(["export", str(path), "--to", "skyrl", "-o", "-", "--include-repeated"]) == 2
    assert "as in the file of a run that was resumed" in capsys.readouterr().err

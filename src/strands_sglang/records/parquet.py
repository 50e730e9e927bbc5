"""Episodes as a Parquet table: one row a turn, exactly what `Trajectory.to_json` holds.

Ids, logprobs and loss mask of a turn are list columns, the prompt's part first; what has no fixed shape (facts,
metadata) is JSON text. The layout has a version of its own, and rows are read through `Trajectory.from_dict`, so that
damage is refused with its row; an episode knows how many it has. A file appears whole or not at all; pages carry
checksums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from types import ModuleType
from typing import Any

from strands_sglang.errors import RecordError, RecordFormatError, SGLangConfigError
from strands_sglang.rollout.saved import Format
from strands_sglang.trajectory import Trajectory
from strands_sglang.whole_file import whole_file

LAYOUT = Format(name="strands-sglang/turn-table", version=1)

_KEY = b"strands-sglang"
_TELLING = {"token_ids", "prompt_length", "sampled_facts"}  # columns of no other table
_ROWS_AT_ONCE = 256
_EPISODE = (
    *("id", "reward", "group_id", "group_index", "metadata"),
    *("termination_reason", "termination_detail", "turns"),
)


def write_parquet(trajectories: Iterable[Trajectory], path: str | os.PathLike[str]) -> None:
    """Write episodes to a Parquet file, replacing it if it is there.

    Args:
        trajectories: The episodes; they are taken one by one, so a generator is fine.
        path: The file. Its folder must be there.

    Raises:
        RecordError: If an episode cannot be written. The file is left as it was.
        SGLangConfigError: If pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    schema = _schema(arrow)
    with (
        whole_file(path) as beside,
        parquet.ParquetWriter(beside, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for rows in _in_groups(trajectories):
            writer.write_table(_table(arrow, rows, schema))


def read_parquet(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """Read the episodes that `write_parquet` wrote, in order.

    Args:
        path: The file.

    Raises:
        RecordFormatError: If the file is of another kind or version, or (while iterating) damaged.
        SGLangConfigError: If pyarrow is not installed.
    """
    _, parquet = _pyarrow()
    with _typed(path):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
    try:
        version = _check_layout(file, path)
    except BaseException:
        file.close()
        raise
    return _read(file, version, path)


def is_turn_table(path: str | os.PathLike[str]) -> bool:
    """Whether a Parquet file holds episodes, of any layout, also one that a tool wrote anew without saying so.

    Raises:
        RecordFormatError: If it cannot be read.
        SGLangConfigError: If pyarrow is not installed.
    """
    _, parquet = _pyarrow()
    with _typed(path):
        schema = parquet.read_schema(path)
    return _KEY in (schema.metadata or {}) or set(schema.names) >= _TELLING


def _read(file: Any, version: int, path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    with file:
        numbered = enumerate(_rows(file, path), 1)
        for _, rows in groupby(numbered, key=lambda row: row[1]["episode"]):
            turns = list(rows)
            try:
                yield Trajectory.from_dict(_episode([row for _, row in turns], version))
            except RecordFormatError as error:
                line = turns[0][0]
                raise RecordFormatError(
                    f"{path}, rows from {line}: {error}", place=error.place, path=str(path), line=line
                ) from error


def _rows(file: Any, path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows, read a few at a time, and count them: a damaged page may look like one without rows."""
    batches = file.iter_batches(batch_size=_ROWS_AT_ONCE)
    left = file.metadata.num_rows
    while True:
        with _typed(path):
            batch = next(batches, None)
            rows = batch.to_pylist(maps_as_pydicts="strict") if batch is not None else None
        if rows is None:
            break
        left -= len(rows)
        yield from rows
    if left:
        raise RecordFormatError(f"{path} is damaged: {left} rows are missing", path=str(path))


def _in_groups(trajectories: Iterable[Trajectory]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows, a bounded number at a time and never less than an episode."""
    waiting: list[dict[str, Any]] = []
    for number, trajectory in enumerate(trajectories):
        waiting += _rows_of(trajectory, number)
        if len(waiting) >= _ROWS_AT_ONCE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _table(arrow: ModuleType, rows: list[dict[str, Any]], schema: Any) -> Any:
    try:
        return arrow.Table.from_pylist(rows, schema=schema)
    except (arrow.ArrowException, OverflowError, UnicodeError) as error:
        raise RecordError(f"an episode holds what a Parquet table cannot hold: {error}") from error


def _rows_of(trajectory: Trajectory, number: int) -> list[dict[str, Any]]:
    """Return an episode's rows: one a turn, and one without a turn for an episode that has none."""
    saved = trajectory.to_dict()
    termination = saved.pop("termination") or {}
    turns = saved.pop("turns")
    shared = {
        **{key: saved[key] for key in ("id", "reward", "group_id", "group_index")},
        "episode": number,
        "metadata": _text(saved["metadata"]),
        "termination_reason": termination.get("reason"),
        "termination_detail": termination.get("detail"),
        "turns": len(turns),  # a table that another tool cut is no shorter episode
    }
    if not turns:
        return [shared]
    return [{**shared, "turn": at, **_turn_row(turn)} for at, turn in enumerate(turns)]


def _turn_row(turn: Mapping[str, Any]) -> dict[str, Any]:
    prompt, sampled = turn["prompt"], turn["sampled"]
    parts = {f"{side}_{key}": part.get(key) for side, part in _sides(turn) for key in ("replaces", "message_index")}
    spans = {
        f"{side}_weight_spans": [dict(zip(("version", "start", "end"), span, strict=True)) for span in found]
        for side, part in _sides(turn)
        if (found := part.get("weight_spans"))
    }
    facts = {f"{side}_facts": _text(part["facts"]) for side, part in _sides(turn) if "facts" in part}
    logprobs = [part.get("logprobs") or [None] * len(part["ids"]) for _, part in _sides(turn)]
    return {
        **{key: turn[key] for key in ("parent", "conversation", "lineage", "fate")},
        "token_ids": prompt["ids"] + sampled["ids"],
        "loss_mask": [0] * len(prompt["ids"]) + [1] * len(sampled["ids"]),
        "logprobs": logprobs[0] + logprobs[1],
        "prompt_length": len(prompt["ids"]),
        "prompt_measured": "logprobs" in prompt,
        "sampled_measured": "logprobs" in sampled,
        "images": turn.get("images"),
        "credit": turn.get("credit"),
        **parts,
        **spans,
        **facts,
    }


def _sides(turn: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [("prompt", turn["prompt"]), ("sampled", turn["sampled"])]


def _episode(rows: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """Return the saved form of an episode."""
    first = rows[0]
    if any(row[key] != first[key] for row in rows for key in _EPISODE):
        raise RecordFormatError("damaged table: the rows of one episode disagree about it")
    count, found = first["turns"], [row for row in rows if row["turn"] is not None]
    if len(found) != count or (count == 0 and len(rows) != 1):
        raise RecordFormatError(f"damaged table: {len(found)} of the {count} rows of an episode are there")
    turns = [_turn(row, at) for at, row in enumerate(found)]
    reason = first["termination_reason"]
    return {
        "format": "strands-sglang/trajectory",
        "version": version,
        **{key: first[key] for key in ("id", "reward", "group_id", "group_index")},
        "metadata": _json(first["metadata"], "metadata"),
        "termination": None if reason is None else {"reason": reason, "detail": first["termination_detail"]},
        "turns": turns,
    }


def _turn(row: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return the saved form of a turn."""
    length, ids = row["prompt_length"], row["token_ids"]
    if row["turn"] != at or ids is None or length is None or not 0 <= length <= len(ids):
        raise RecordFormatError(f"damaged table: turns[{at}] is not where it should be, or has no tokens")
    if row["loss_mask"] != [0] * length + [1] * (len(ids) - length) or len(row["logprobs"] or ()) != len(ids):
        raise RecordFormatError(f"damaged table: turns[{at}] has columns that do not agree with each other")
    turn = {key: row[key] for key in ("parent", "conversation", "lineage", "fate")}
    turn |= {key: row[key] for key in ("images", "credit") if row[key] is not None}
    for side, part in (("prompt", slice(0, length)), ("sampled", slice(length, None))):
        segment = {"kind": side, "ids": ids[part]}
        if row[f"{side}_measured"]:
            segment["logprobs"] = row["logprobs"][part]
        for key in ("replaces", "message_index"):
            if row[f"{side}_{key}"] is not None:
                segment[key] = row[f"{side}_{key}"]
        if row[f"{side}_weight_spans"] is not None:
            segment["weight_spans"] = [span and list(span.values()) for span in row[f"{side}_weight_spans"]]
        if row[f"{side}_facts"] is not None:
            segment["facts"] = _json(row[f"{side}_facts"], f"turns[{at}].{side}.facts")
        turn[side] = segment
    return turn


def _schema(arrow: ModuleType) -> Any:
    text, whole, real = arrow.string(), arrow.int64(), arrow.float64()
    spans = arrow.list_(arrow.struct({"version": text, "start": whole, "end": whole}))
    sides = {"replaces": whole, "message_index": whole, "measured": arrow.bool_(), "weight_spans": spans, "facts": text}
    fields = {
        **{"episode": whole, "id": text, "reward": real, "group_id": text, "group_index": whole, "metadata": text},
        **{"termination_reason": text, "termination_detail": text, "turns": whole},
        **{"turn": whole, "parent": whole, "conversation": whole, "lineage": text, "fate": text},
        **{"token_ids": arrow.list_(arrow.int32()), "loss_mask": arrow.list_(arrow.int8())},
        **{"logprobs": arrow.list_(real), "prompt_length": whole},
        **{"images": arrow.list_(text), "credit": arrow.map_(text, real)},
        **{f"{side}_{key}": kind for side in ("prompt", "sampled") for key, kind in sides.items()},
    }
    header = {**LAYOUT.header(), "trajectory_version": Trajectory().to_dict()["version"]}
    return arrow.schema(list(fields.items()), metadata={_KEY: json.dumps(header)})


def _check_layout(file: Any, path: str | os.PathLike[str]) -> int:
    """Return the version of the episodes within, and refuse a table of another layout."""
    arrow, _ = _pyarrow()
    header = (file.schema_arrow.metadata or {}).get(_KEY)
    if header is None:
        raise RecordFormatError(f"{path} is a Parquet file, but not one of episodes of this library", path=str(path))
    try:
        fields = LAYOUT.open(LAYOUT.loads(header))
        version: int = fields.take("trajectory_version", int)
        fields.close()
    except RecordFormatError as error:
        raise RecordFormatError(f"{path}: {error}", path=str(path)) from error
    if not file.schema_arrow.equals(_schema(arrow)):
        raise RecordFormatError(f"{path}: damaged table: its columns are not those of its version", path=str(path))
    return version


@contextmanager
def _typed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into `RecordFormatError`."""
    arrow, _ = _pyarrow()
    try:
        yield
    except (arrow.ArrowException, ValueError, KeyError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file itself: not there, not readable
        raise RecordFormatError(f"{path} is not a Parquet file, or damaged: {error}", path=str(path)) from error


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _json(text: str | None, place: str) -> Any:
    try:
        return LAYOUT.loads(text if text is not None else "")
    except RecordFormatError as error:
        raise RecordFormatError(f"damaged table: {place} is not JSON", place=place) from error


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SGLangConfigError(
            f"Parquet files need pyarrow, which cannot be imported: {error}",
            hint='pip install "strands-sglang[parquet]"',
        ) from error
    return pyarrow, pyarrow.parquet

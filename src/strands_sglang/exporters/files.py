"""Rows as files: JSON lines for every exporter, a Parquet table for `parquet`.

In JSON an array is a list, bytes are `{"base64": ...}`, and a number that is not finite is the text "NaN", "Infinity"
or "-Infinity". A file is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterable
from typing import Any

from strands_sglang.errors import ExportError, SGLangConfigError
from strands_sglang.whole_file import whole_file

from .generic import ParquetExporter


def write_jsonl(rows: Iterable[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write rows as JSON lines.

    Args:
        rows: `Exported.rows` of any exporter.
        path: Where the file goes; one that is there is replaced.

    Raises:
        ExportError: If a row holds what JSON has no form for.
        OSError: If it cannot be written.
    """
    with whole_file(path) as beside, beside.open("wb") as file:
        for row in rows:
            file.write(json_line(row).encode() + b"\n")


def write_parquet(rows: Iterable[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write rows of the `parquet` exporter as a table.

    Args:
        rows: Its `Exported.rows`.
        path: Where the file goes; one that is there is replaced.

    Raises:
        ExportError: If a row holds what the table's columns cannot hold.
        SGLangConfigError: If pyarrow is not installed.
        OSError: If it cannot be written.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise SGLangConfigError(
            f"Parquet files need pyarrow, which cannot be imported: {error}",
            hint='pip install "strands-sglang[parquet]"',
        ) from error
    try:
        table = pa.Table.from_pylist(list(rows), schema=ParquetExporter.schema())
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ExportError(f"a row holds what the table cannot hold: {error}") from error
    with whole_file(path) as beside:
        pq.write_table(table, beside)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as one line of JSON.

    Raises:
        ExportError: If it holds what JSON has no form for.
    """
    try:
        try:
            return json.dumps(row, separators=(",", ":"), allow_nan=False, default=_plain)
        except ValueError:
            return json.dumps(_finite(row), separators=(",", ":"), allow_nan=False, default=_plain)
    except (RecursionError, TypeError, ValueError) as error:
        raise ExportError(f"a row cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    """Return what JSON has no form for as what it has."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    raise TypeError(f"a {type(value).__name__} in a row is neither a plain value, nor an array, nor bytes")


def _finite(value: Any) -> Any:
    """Return a value with the numbers that are not finite as text."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

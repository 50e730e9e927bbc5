"""What a file is, told from how it begins."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import BinaryIO

from strands_sglang.errors import RecordFormatError

# A file that a writer may append to begins with what a writer wrote; other tools may have put spaces in.
_FIRST_RECORD = re.compile(rb'\s*\{\s*"format"\s*:\s*"strands-sglang/(trajectory|rollout)"')
# Some tools escape the slash; a later release may write further kinds.
_RECORD = re.compile(rb'"format"\s*:\s*"strands-sglang(?:\\?/|\\u002[fF])')
_FIRST_WRITTEN = (b'{"format":"strands-sglang/trajectory"', b'{"format":"strands-sglang/rollout"')
_LONGEST = 256
_PARQUET = b"PAR1"
_OTHERS = {
    _PARQUET: "a Parquet file; use read_parquet",
    b"\x1f\x8b": "compressed with gzip; decompress it first",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard; decompress it first",
    b"PK\x03\x04": "a ZIP archive",
}


def refuse_other_kinds(file: BinaryIO, path: Path) -> None:
    """Refuse a file that is known not to hold lines; the position is left where it was."""
    at = file.tell()
    start = file.read(8)
    file.seek(at)
    for magic, words in _OTHERS.items():
        if start.startswith(magic):
            raise RecordFormatError(f"{path} holds no lines of records: it is {words}", path=str(path))


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file, whatever its name ends with.

    Raises:
        OSError: If it cannot be read.
    """
    with open(path, "rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def why_kept(path: Path) -> str | None:
    """Say why a file must not be replaced: it holds records, or nobody can tell; None where it is known to hold none.

    Known are a file without content, lines of JSON objects that are no records, and a Parquet table of something else.

    Raises:
        OSError: If it cannot be read.
        SGLangConfigError: If it is a Parquet file and pyarrow is not installed, so that nobody can tell.
    """
    from .parquet import is_turn_table

    if is_parquet(path):
        try:
            return "holds records, which rows would replace" if is_turn_table(path) else None
        except RecordFormatError:
            return "is a Parquet file that cannot be read, and may hold records"
    with open(path, "rb") as file:
        try:
            refuse_other_kinds(file, path)
        except RecordFormatError as error:
            return f"may hold records: {error}"
        if file.read(1) and begins_with_a_record(file):
            return "holds records, which rows would replace"
        file.seek(0)
        return next(filter(None, map(_why_line_kept, file)), None)


def _why_line_kept(line: bytes) -> str | None:
    if _RECORD.search(line):
        return "holds records, which rows would replace"
    return None if line.isspace() or line.startswith(b"{") else "holds something else than rows, which may be records"


def begins_with_a_record(file: BinaryIO) -> bool:
    """Whether the file begins with a record, or with the cut beginning of one."""
    file.seek(0)
    start = file.read(_LONGEST).removeprefix(codecs.BOM_UTF8)
    return bool(_FIRST_RECORD.match(start)) or any(whole.startswith(start) for whole in _FIRST_WRITTEN)

"""What a file is, told from how it begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from strands_sglang.errors import RecordFormatError

# A file that a writer may append to begins with what a writer wrote; other tools may have put spaces in.
_FIRST_RECORD = re.compile(rb'\s*\{\s*"format"\s*:\s*"strands-sglang/(trajectory|rollout)"')
_FIRST_WRITTEN = (b'{"format":"strands-sglang/trajectory"', b'{"format":"strands-sglang/rollout"')
_LONGEST = 256
_OTHERS = {
    b"PAR1": "a Parquet file; use read_parquet",
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


def begins_with_a_record(file: BinaryIO) -> bool:
    """Whether the file begins with a record, or with the cut beginning of one."""
    file.seek(0)
    start = file.read(_LONGEST)
    return bool(_FIRST_RECORD.match(start)) or any(whole.startswith(start) for whole in _FIRST_WRITTEN)

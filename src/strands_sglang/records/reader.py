"""`read_records`: read a file of records, one a line.

Each line gives the record that was written, or an error that names the file and the line. With `strict=False` damaged
lines are left out, logged and listed; a file without a single good line is an error also then. Two records whose
newline was lost are still two. The file is read line by line and never changed.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from strands_sglang.errors import RecordFormatError
from strands_sglang.rollout import Rollout
from strands_sglang.rollout.saved import Format
from strands_sglang.trajectory import Trajectory

from .kinds import refuse_other_kinds

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Trajectory | Rollout)

_KINDS: dict[str, type[Trajectory] | type[Rollout]] = {
    "strands-sglang/trajectory": Trajectory,
    "strands-sglang/rollout": Rollout,
}
# Within a record a brace cannot follow another like this: not among its values, and in text a quote is escaped.
_BETWEEN = re.compile(rb'(?<=\})(?=\{"format":"strands-sglang/(?:trajectory|rollout)")')
_LINE = Format(name="strands-sglang/record", version=1)


class RecordReader(Generic[T]):
    """The records of a file, in order; iterate over it.

    Attributes:
        path: The file.
        damaged: The errors of the lines that were left out so far, each with its `line`.
    """

    def __init__(self, path: str | os.PathLike[str], kind: type[T], *, strict: bool) -> None:
        """Look at the file; see `read_records`."""
        self.path = Path(path)
        self.damaged: list[RecordFormatError] = []
        self._kind = kind
        self._strict = strict
        with open(self.path, "rb") as file:
            refuse_other_kinds(file, self.path)
        self._records = self._read()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return next(self._records)

    def _read(self) -> Iterator[T]:
        good = False
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.isspace():
                    continue
                for record in self._records_of(line, number):
                    good = True
                    yield record
        if self.damaged and not good:
            raise RecordFormatError(
                f"{self.path} has no readable record in {len(self.damaged)} lines; the first: {self.damaged[0]}",
                path=str(self.path),
            )

    def _records_of(self, line: bytes, number: int) -> Iterator[T]:
        """Yield the record of a line, or those of one in which newlines were lost."""
        try:
            record = self._record(line)
        except RecordFormatError as error:
            parts = split_line(line)
            if len(parts) == 1:
                self._leave_out(error, number, whole=line.endswith(b"\n"))
            for part in parts if len(parts) > 1 else ():
                yield from self._records_of(part, number)
            return
        yield record

    def _record(self, line: bytes) -> T:
        record = parse_line(line)
        if not isinstance(record, self._kind):
            found = type(record).__name__
            raise RecordFormatError(f"the record is a {found}, not a {self._kind.__name__}: read it with kind={found}")
        return record

    def _leave_out(self, error: RecordFormatError, number: int, *, whole: bool) -> None:
        """Raise the error with its line, or list it."""
        cut = "" if whole else " (the last line has no end: its writer was killed, or is still writing)"
        placed = RecordFormatError(
            f"{self.path}, line {number}: {error}{cut}", place=error.place, path=str(self.path), line=number
        )
        if self._strict:
            raise placed from error
        logger.warning("left out: %s", placed)
        self.damaged.append(placed)


@overload
def read_records(path: str | os.PathLike[str], *, strict: bool = True) -> RecordReader[Trajectory]: ...


@overload
def read_records(path: str | os.PathLike[str], *, strict: bool = True, kind: type[T]) -> RecordReader[T]: ...


def read_records(path: str | os.PathLike[str], *, strict: bool = True, kind: Any = Trajectory) -> RecordReader[Any]:
    """Read a file of records, such as `RecordWriter` writes.

    Args:
        path: The file.
        strict: Raise at the first damaged line. False: leave damaged lines out, log each, and list them in `damaged`.
        kind: What the lines hold, `Trajectory` or `Rollout`.

    Returns:
        An iterator over the records.

    Raises:
        RecordFormatError: If the file is of another kind, or (while iterating) a line is damaged.
    """
    return RecordReader(path, kind, strict=strict)


def split_line(line: bytes) -> list[bytes]:
    """Return the parts of a line that may be records, where it has no newline between them; else the line itself."""
    parts = _BETWEEN.split(line)
    return [part + b"\n" for part in parts[:-1]] + parts[-1:]


def parse_line(line: bytes) -> Trajectory | Rollout:
    """Read one line.

    Raises:
        RecordFormatError: If it is not a record.
    """
    saved = _LINE.loads(line)
    name = saved.get("format") if isinstance(saved, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RecordFormatError(f"not a record of this library: expected a format of {', '.join(_KINDS)}")
    return kind.from_dict(saved)

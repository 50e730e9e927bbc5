"""`RecordWriter`: append episodes to a file, one a line.

A record and its newline are one write at the end of the file, so a writer that is killed at any moment leaves whole
lines and at most one cut line, the last. The next writer of the file puts a cut line aside and goes on after the last
whole one. A write that fails (a full disk) is taken back. One writer has a file at a time. Nothing that another program
wrote is ever changed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from strands_sglang.errors import RecordError, RecordFormatError
from strands_sglang.rollout import Rollout
from strands_sglang.trajectory import Trajectory

from .kinds import begins_with_a_record, refuse_other_kinds
from .reader import parse_line, split_line

_flock: Callable[[int, int], None] | None
try:
    from fcntl import LOCK_EX, LOCK_NB
    from fcntl import flock as _flock
except ImportError:  # not on Windows
    _flock = None

logger = logging.getLogger(__name__)

_BLOCK = 1 << 16


class RecordWriter:
    """Appends records to a file, one line of JSON each; safe to use from several threads.

    Example:
        >>> import tempfile
        >>> from strands_sglang import Trajectory, read_records
        >>> path = Path(tempfile.mkdtemp(), "episodes.jsonl")
        >>> with RecordWriter(path) as writer:
        ...     writer.write(Trajectory(id="e1", reward=1.0))
        >>> [trajectory.reward for trajectory in read_records(path)]
        [1.0]
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        """Open the file for appending; it is created if it is not there, its folder is not.

        Args:
            path: The file.
            fsync: Wait after each record until the disk has it, so that it also survives a power cut. Without, a
                record survives the death of this process, but not of the machine.

        Raises:
            RecordFormatError: If the file is of another kind.
            RecordError: If another writer has it open.
        """
        self.path = Path(path)
        self._fsync = fsync
        self._lock = threading.Lock()
        self._file: Any = open(self.path, "a+b", buffering=0)  # noqa: SIM115  # closed by `close`
        try:
            self._claim()
            self._repair()
        except BaseException:
            self.close()
            raise

    def write(self, record: Trajectory | Rollout) -> None:
        """Append a record; when this returns, the operating system has it.

        Raises:
            RecordError: If the record cannot be written as JSON, or the writer is closed.
        """
        line = record.to_json().encode("utf-8") + b"\n"
        with self._lock:
            self._append(line)

    async def awrite(self, record: Trajectory | Rollout) -> None:
        """Append a record without blocking the event loop. The record must not change meanwhile."""
        await asyncio.to_thread(self.write, record)

    def close(self) -> None:
        """Close the file. Closing twice does nothing."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RecordWriter({str(self.path)!r})"

    def _append(self, line: bytes) -> None:
        if self._file.closed:
            raise RecordError(f"the writer of {self.path} is closed")
        end = self._file.seek(0, os.SEEK_END)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            if self._fsync:
                os.fsync(self._file.fileno())
        except BaseException:
            self._file.truncate(end)
            raise

    def _claim(self) -> None:
        """Make sure that no other writer is in the middle of a line."""
        if _flock is None:
            return
        try:
            _flock(self._file.fileno(), LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise RecordError(
                f"another writer has {self.path} open; give each process a file of its own, or share one writer"
            ) from None
        except OSError as error:
            logger.warning("%s cannot be locked (%s): make sure that it has one writer only", self.path, error)

    def _repair(self) -> None:
        """Refuse a file of another kind, and put aside the line that a killed writer left unfinished."""
        self._file.seek(0)
        refuse_other_kinds(self._file, self.path)
        size = self._file.seek(0, os.SEEK_END)
        if not size:
            return
        if not begins_with_a_record(self._file):
            raise RecordFormatError(
                f"{self.path} does not begin with a record of this library, so nothing is appended to it",
                path=str(self.path),
                line=1,
            )
        start = self._start_of_last_line(size)
        if start == size:
            return
        self._file.seek(start)
        cut = self._file.read()
        try:
            for part in split_line(cut):
                parse_line(part)
        except RecordFormatError:
            self._put_aside(cut, start)
        else:
            self._append(b"\n")  # whole records; only its newline was cut off

    def _start_of_last_line(self, size: int) -> int:
        """Return the position after the last newline."""
        end = size
        while end:
            start = max(0, end - _BLOCK)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + int(found) + 1
            end = start
        return 0

    def _put_aside(self, cut: bytes, start: int) -> None:
        aside = self.path.with_name(self.path.name + ".cut")
        with open(aside, "ab") as file:
            file.write(cut + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._file.truncate(start)
        logger.warning(
            "%s ended with a line that was cut off after %d bytes: a writer was killed. The line was moved to %s",
            self.path,
            len(cut),
            aside,
        )

"""The file of a run: each episode as soon as it ended, and what an earlier run of the same prompts had finished.

Written is every episode, also one that was stopped or failed, marked as such; repeated in a later run is every one that
did not finish. Killed at any moment, a run loses no more than the episodes that were running.
"""

from __future__ import annotations

import os
from pathlib import Path

from strands_sglang.errors import RecordFormatError, SGLangConfigError
from strands_sglang.records import RecordWriter, read_records

from .episode import Episode


class Ledger:
    """Saves episodes and knows which were finished before.

    Attributes:
        finished: Key and index of every finished episode in the file.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        """Open the file, and read it where the run is resumed.

        Args:
            path: The file; it is created if it is not there.
            resume: Go on from what it holds. Without, the file must be new or empty.

        Raises:
            SGLangConfigError: If it holds records and the run is not to be resumed, or cannot be opened.
            RecordError: If another writer has it open, or it is no file of records.
        """
        self.path = Path(path)
        self.finished: set[tuple[str, int]] = set()
        try:
            self._writer = RecordWriter(self.path)  # first: it mends a line that was cut
            size = self.path.stat().st_size
        except OSError as error:
            raise SGLangConfigError(f"cannot open the output {self.path}: {error.strerror or error}") from error
        try:
            if size:
                self._read(resume=resume)
        except BaseException:
            self.close()
            raise

    def _read(self, *, resume: bool) -> None:
        if not resume:
            raise SGLangConfigError(
                f"the output {self.path} already holds records",
                hint="resume=True goes on from them; or name a new file",
            )
        for trajectory in read_records(self.path, strict=False):
            try:
                episode = Episode.of_record(trajectory)
            except RecordFormatError:
                continue  # a record that someone else put there
            if episode.finished:
                self.finished.add((episode.key, episode.group_index))

    async def write(self, episode: Episode) -> None:
        """Append an episode; when this returns, it survives the death of the process.

        Raises:
            RecordError: If it cannot be written as JSON.
            OSError: If the file system refuses it.
        """
        await self._writer.awrite(episode.record())

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

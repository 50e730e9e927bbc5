"""How far the groups of a run are: which episodes are still wanted, and when there are enough.

A group is the episodes of one prompt. It is whole when as many of them finished as are asked of it. Kept is only what
has begun and is not yet done. What earlier runs finished counts once the run's own prompts are known to hold it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .episode import Episode, EpisodeContext


@dataclass(slots=True)
class _Group:
    """The episodes of one prompt: finished ones, and those that neither ended nor were skipped."""

    finished: int = 0
    open: int = 0


class Groups:
    """Counts what finished."""

    def __init__(
        self,
        *,
        size: int,
        per_group: int | None,
        finished: int | None,
        groups: int | None,
        before: Collection[tuple[str, int]],
    ) -> None:
        """Begin to count.

        Args:
            size: Episodes begun of each prompt.
            per_group: Finished episodes that make a group whole; None: all of them.
            finished: Finished episodes that are enough for the run; None: no number is.
            groups: Whole groups that are enough for the run; None: no number is.
            before: Key and index of the finished episodes of earlier runs, also over other prompts.
        """
        self._size = size
        self._per_group = per_group or size
        self._finished, self._groups = finished, groups
        self._before = before
        self._open: dict[str, _Group] = {}
        self._all_known = False
        self.finished = 0
        self.whole = 0

    def know(self, keys: Iterable[str]) -> None:
        """Count now what earlier runs finished of the prompts of this one, where all of them are known.

        Args:
            keys: The keys of all prompts.
        """
        for key in keys:
            self._count_before(key)
        self._all_known = True

    @property
    def enough(self) -> bool:
        """Whether the run has what was asked of it."""
        return (self._finished is not None and self.finished >= self._finished) or (
            self._groups is not None and self.whole >= self._groups
        )

    def wants(self, key: str) -> bool:
        """Whether a group still needs episodes."""
        return self._of(key).finished < self._per_group

    def wants_more(self, key: str) -> bool:
        """Whether what runs of a group is still needed; also where none of it is left to run."""
        return key not in self._open or self.wants(key)

    def leave_out(self, context: EpisodeContext) -> None:
        """Note that an episode is not begun."""
        self._done(context.key)

    def ended(self, episode: Episode) -> None:
        """Note how an episode ended."""
        if episode.finished:
            group = self._of(episode.key)
            group.finished += 1
            self.finished += 1
            self.whole += group.finished == self._per_group
        self._done(episode.key)

    def _of(self, key: str) -> _Group:
        if key not in self._open:
            self._open[key] = _Group(finished=self._finished_before(key), open=self._size)
            if not self._all_known:
                self._count_before(key)
        return self._open[key]

    def _count_before(self, key: str) -> None:
        finished = self._finished_before(key)
        self.finished += finished
        self.whole += finished >= self._per_group

    def _finished_before(self, key: str) -> int:
        return sum((key, index) in self._before for index in range(self._size)) if self._before else 0

    def _done(self, key: str) -> None:
        group = self._of(key)
        group.open -= 1
        if not group.open:
            del self._open[key]

"""What holds for a run as a whole, checked before anything is begun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from strands_sglang.errors import SGLangConfigError

from .options import positive, whole

ProgressKind = Literal["auto", "rich", "plain"] | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What holds for a run as a whole.

    Attributes:
        concurrency: Episodes at once at most.
        group_size: Episodes begun of each prompt.
        deadline: Seconds for the whole run; None for no limit.
        min_finished: Finished episodes that are enough: the rest is ended then, and saved as partial.
        min_groups: Whole groups that are enough.
        min_per_group: Finished episodes that make a group whole; the rest of it is ended then. None: all of them.
        output: File of JSON lines to which every episode is appended as soon as it ended.
        resume: Skip what `output` holds as finished; without, `output` must be new.
        yield_partial: Give out also episodes that were stopped from outside.
        progress: "auto" (a display on a terminal, lines elsewhere), "rich", "plain", or False for none.
        stop_on_sigint: Whether Ctrl-C ends the run in order.
        stop_grace: Seconds that running episodes have to end after the first Ctrl-C.
    """

    concurrency: int = 64
    group_size: int = 1
    deadline: float | None = None
    min_finished: int | None = None
    min_groups: int | None = None
    min_per_group: int | None = None
    output: str | os.PathLike[str] | None = None
    resume: bool = True
    yield_partial: bool = False
    progress: ProgressKind = False
    stop_on_sigint: bool = True
    stop_grace: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("concurrency", "group_size"):
            if getattr(self, name) is None:
                raise SGLangConfigError(f"{name} must be a whole number of at least 1, got None")
        for name in ("concurrency", "group_size", "min_finished", "min_groups", "min_per_group"):
            whole(name, getattr(self, name), least=1)
        if self.min_per_group is not None and self.min_per_group > self.group_size:
            raise SGLangConfigError(
                f"min_per_group={self.min_per_group} is more than group_size={self.group_size}: no group would be whole"
            )
        positive("deadline", self.deadline)
        positive("stop_grace", self.stop_grace)
        if self.progress not in (False, True, "auto", "rich", "plain"):
            raise SGLangConfigError(f"progress must be 'auto', 'rich', 'plain' or False, got {self.progress!r}")

"""`Fork`: why a turn does not go on from the newest one of its conversation.

The session knows the reason when it prepares the turn; it is kept as the fact "fork" of the turn's prompt segment, and
read from there. Where it was not kept, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from strands_sglang.rollout import Segment

FACT = "fork"


class ForkReason(StrEnum):
    """What the host did to its history, as far as the next call shows."""

    RETRY = "retry"
    """It asked the same question again, without the answer that it had been given."""
    EDITED_ANSWER = "edited_answer"
    """Another text stands in the place of an answer."""
    EDITED_HISTORY = "edited_history"
    """An earlier message was changed, added or taken out; the newest answer still stands."""
    COMPACTION = "compaction"
    """The newest answer still stands, on fewer messages than before: a window slid, or a summary replaced them."""
    REWIND = "rewind"
    """It went back to an earlier point, or to nothing, and went on from there with something else."""
    RENDERING = "rendering"
    """System prompt, tools or options of the chat template were changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where and why a history left the recorded one.

    Attributes:
        reason: What was done to it.
        after: Index of the turn that would have been continued.
        message_index: Index of the first message that differs, None where system prompt, tools or options do.
        change: What changed, in words.
    """

    reason: ForkReason
    after: int
    message_index: int | None
    change: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fork as the fact of a prompt segment."""
        return {**asdict(self), "reason": self.reason.value}

    @classmethod
    def of(cls, prompt: Segment) -> Fork | None:
        """Return the fork that a prompt segment tells of, None where it tells of none that can be read."""
        fact = prompt.facts.get(FACT)
        if not isinstance(fact, Mapping) or fact.keys() != {"reason", "after", "message_index", "change"}:
            return None
        reason, after, index, change = (fact[name] for name in ("reason", "after", "message_index", "change"))
        if not isinstance(reason, str) or reason not in set(ForkReason):
            return None
        if type(after) is not int or not isinstance(index, int | None) or not isinstance(change, str):
            return None
        return cls(reason=ForkReason(reason), after=after, message_index=index, change=change)

"""`Turn`: one call of the engine, and where it stands in the tree of its episode.

Turns are only added and marked (fate, lineage, credit), never changed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from strands_sglang.rollout import Rollout, Segment


class Lineage(StrEnum):
    """Whose turns a conversation's turns are."""

    MAIN = "main"
    """The agent's own loop: the first agent that used the provider since its last reset."""
    AGENT = "agent"
    """The loop of another agent that shares the provider, such as a sub-agent or a judge."""
    SIDE_CALL = "side_call"
    """A call outside any agent's loop, such as a summary or legacy structured output."""


class TurnFate(StrEnum):
    """What the host did with an answer, as far as its later calls show."""

    KEPT = "kept"
    """The host went on from it, or nothing came after it. A context that was cut down later, with newer answers left in
    it, changes nothing about that."""
    EDITED = "edited"
    """The host went on from a changed text of it."""
    DISCARDED = "discarded"
    """The host went on as if it had never been given: it asked the same question again, or went back to a point before
    the answer and dropped all that came after."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Turn:
    """One call of the engine.

    Attributes:
        index: Position among all turns of the trajectory, in order of commit.
        parent: The turn after whose tokens this one's prompt stands; None for a root.
        prompt: What the engine read beyond the parent's tokens. Loss mask 0.
        sampled: What it sampled.
        conversation: Number of the conversation within the trajectory.
        lineage: Whose turn it is.
        fate: What the host did with the answer.
        images: Images that belong to this turn's prompt, as data URLs.
        credit: Numbers given to this turn by whoever judges the episode, by name: `{"reward": 1.0, "advantage": 0.3}`.
            `Sample.credit` spreads them over the turn's sampled tokens.
    """

    index: int
    parent: Turn | None
    prompt: Segment
    sampled: Segment
    conversation: int
    lineage: Lineage
    fate: TurnFate = TurnFate.KEPT
    images: tuple[str, ...] = ()
    credit: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        # Short, and without the turns before it: those of a long episode would be shown again for each turn.
        parent = None if self.parent is None else self.parent.index
        tokens = f"prompt={len(self.prompt)} tokens, sampled={len(self.sampled)} tokens"
        return f"Turn(index={self.index}, parent={parent}, lineage={self.lineage}, fate={self.fate}, {tokens})"

    def path(self) -> list[Turn]:
        """Return the turns from the root to this one."""
        turns: list[Turn] = []
        turn: Turn | None = self
        while turn is not None:
            turns.append(turn)
            turn = turn.parent
        return turns[::-1]

    def rollout(self) -> Rollout:
        """Return the branch that ends with this turn, every sampled token with mask 1."""
        path = self.path()
        segments = (segment for turn in path for segment in (turn.prompt, turn.sampled))
        return Rollout(segments, image_data=(image for turn in path for image in turn.images))

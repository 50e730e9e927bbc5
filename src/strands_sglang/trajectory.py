"""The record of one episode: the tree of its turns, and the samples cut from it.

Each turn is a prompt segment and a sampled segment after a parent turn. A branch is a path from a root to a leaf;
its segments, end to end, are exactly what the engine read and sampled for its last turn. Over all samples each sampled
token is trainable in exactly one (guarantee G10): the first branch, in order of its leaf's creation, that holds it.
Turns are only added and marked, never changed or removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from .rollout import Rollout, Segment
from .termination import Termination


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


@dataclass(slots=True, kw_only=True, eq=False)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One branch as a training sample.

    Attributes:
        rollout_id: The trajectory's id; samples of one episode share it.
        rollout: The branch's tokens, masks of sampled tokens not yet corrected for other samples.
        loss_mask: 1 where a token is trainable in this sample; length `len(rollout)`.
        lineage: Whose branch it is.
        weight: 1 / number of samples of the episode, for trainers that average over samples.
        turns: The branch's turns, from its root to its leaf; `rollout` is their segments end to end.
        index: Position among the samples of the episode that were cut together.
    """

    rollout_id: str
    rollout: Rollout
    loss_mask: list[int]
    lineage: Lineage
    weight: float
    turns: tuple[Turn, ...] = ()
    index: int = 0

    def credit(self, name: str) -> list[float | None]:
        """Spread a per-turn number over tokens.

        Args:
            name: Key of `Turn.credit`.

        Returns:
            One entry per token, length `len(rollout)`: the turn's number where `loss_mask` is 1, None elsewhere and
            where the turn has no such number.
        """
        values: list[float | None] = []
        for turn, after in zip_longest(self.turns, self.turns[1:]):
            length = len(turn.prompt) + len(turn.sampled) - (after.prompt.replaces if after else 0)
            values.extend([turn.credit.get(name)] * length)
        return [value if mask else None for value, mask in zip(values, self.loss_mask, strict=True)]


@dataclass(slots=True, kw_only=True, eq=False)
class Trajectory:
    """All turns of one episode, in every conversation and branch.

    Attributes:
        id: Identity shared by all samples of the episode.
        turns: Every committed turn, in order of commit.
        termination: Why the episode ended; None until someone says so (the runner does).
        reward: What the whole episode is worth; None until someone says so.
        group_id: Identity shared by the episodes of one prompt, None outside a group.
        group_index: Position within the group.
        metadata: Whatever else belongs to the episode, as JSON values.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    turns: list[Turn] = field(default_factory=list)
    termination: Termination | None = None
    reward: float | None = None
    group_id: str | None = None
    group_index: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, turn: Turn) -> None:
        """Append a committed turn."""
        self.turns.append(turn)

    @property
    def leaves(self) -> list[Turn]:
        """The turns that no other turn follows, in order of commit."""
        followed = {id(turn.parent) for turn in self.turns if turn.parent is not None}
        return [turn for turn in self.turns if id(turn) not in followed]

    @property
    def branches(self) -> list[Rollout]:
        """Every branch, also discarded ones and side calls, in order of its last turn."""
        return [leaf.rollout() for leaf in self.leaves]

    def samples(self, *, include_side_calls: bool = False, include_discarded: bool = False) -> list[Sample]:
        """Cut the episode into samples, each sampled token trainable in exactly one of them.

        Args:
            include_side_calls: Also the branches of side calls and of other agents' loops.
            include_discarded: Also answers that the host threw away.

        Returns:
            One sample per branch that has a trainable token.
        """
        chosen = {
            id(turn)
            for turn in self.turns
            if (include_side_calls or turn.lineage is Lineage.MAIN)
            and (include_discarded or turn.fate is not TurnFate.DISCARDED)
        }
        rows: list[tuple[Turn, list[int]]] = []
        trained: set[int] = set()
        for leaf in self._sample_leaves(chosen):
            mask = list(self._mask(leaf, chosen, trained))
            if any(mask):
                rows.append((leaf, mask))
        return [
            Sample(
                rollout_id=self.id,
                rollout=leaf.rollout(),
                loss_mask=mask,
                lineage=leaf.lineage,
                weight=1 / len(rows),
                turns=tuple(leaf.path()),
                index=index,
            )
            for index, (leaf, mask) in enumerate(rows)
        ]

    def _sample_leaves(self, chosen: set[int]) -> Iterator[Turn]:
        """Yield the last chosen turns of each branch: those without a chosen follower."""
        followed: set[int] = set()
        for turn in self.turns:
            if id(turn) in chosen and turn.parent is not None:
                followed.update(id(earlier) for earlier in turn.parent.path())
        yield from (turn for turn in self.turns if id(turn) in chosen and id(turn) not in followed)

    @staticmethod
    def _mask(leaf: Turn, chosen: set[int], trained: set[int]) -> Iterator[int]:
        """Yield the mask of a branch, marking its turns as trained; turns trained elsewhere count as context."""
        path = leaf.path()
        for turn, after in zip_longest(path, path[1:]):
            yield from [0] * len(turn.prompt)
            trainable = id(turn) in chosen and id(turn) not in trained
            trained.add(id(turn))
            yield from [int(trainable)] * (len(turn.sampled) - (after.prompt.replaces if after else 0))

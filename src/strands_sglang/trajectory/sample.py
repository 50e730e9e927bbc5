"""`Sample`: one branch of an episode, as a trainer takes it.

`len(loss_mask) == len(rollout)`, and of all samples cut together each sampled token is trainable in exactly one
(guarantee G10).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from strands_sglang.rollout import Rollout

from .turn import Lineage, Turn


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

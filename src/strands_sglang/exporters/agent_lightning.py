"""Agent-Lightning: the triplets of each episode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from strands_sglang.trajectory import Trajectory, Turn

from .base import Alignment, Exporter
from .calls import Call, calls_of, whole_pieces
from .held import Held
from .record import KEY, OF_EPISODE, note_taken, of_episode
from .result import LossBook
from .row import Row


@dataclass(frozen=True, kw_only=True)
class AgentLightningExporter(Exporter):
    """Agent-Lightning's `Triplet`s and final reward (`agentlightning/types`), one row per episode.

    Alignment: per turn; a triplet for each trained call with the whole prompt that it read. Its `log_probs` are None
    where they were left out (`missing_logprob="omit"`); else a trainable token without logprob is refused, or masked,
    which leaves out its whole turn. The trainer merges triplets again where each extends the one before.

    `reward` of a triplet is the per-turn credit of that name, None where a turn has none; `final_reward` is the
    episode's. Triplets of all samples of an episode stand in one list. `metadata` is the episode's, and beside it under
    `strands_sglang` ids and ending as the record has them. Cannot hold: weight versions, routing, images, temperature,
    whose sample a triplet is, and tokens after which nothing is trained.

    Attributes:
        reward: Name of the per-turn number that is a triplet's reward.
    """

    name: ClassVar[str] = "agent_lightning"
    alignment: ClassVar[Alignment] = Alignment.TURN
    held: ClassVar[frozenset[Held]] = OF_EPISODE | {Held.LOGPROBS, Held.REWARD, Held.METADATA, Held.WEIGHT}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Exporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    reward: str = "reward"

    def _holds_credit(self, name: str) -> bool:
        return name == self.reward

    def _credited(self, row: Row) -> Iterable[Turn]:
        return (piece.turn for piece in whole_pieces(row))

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        note_taken(episode, {KEY}, losses)

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for _, group in groupby(rows, key=lambda row: id(row.episode)):
            of_one = list(group)
            episode = of_one[0].episode
            yield {
                "rollout_id": episode.id,
                "final_reward": episode.reward,
                "triplets": [self._triplet(call) for row in of_one for call in calls_of(row, losses)],
                "metadata": {**of_one[0].metadata, KEY: of_episode(episode)},
            }

    def _triplet(self, call: Call) -> dict[str, Any]:
        return {
            "prompt": {"token_ids": call.prompt_ids},
            "response": {"token_ids": call.ids, "log_probs": None if self.omits_logprobs else call.logprobs},
            "reward": call.turn.credit.get(self.reward),
            "metadata": {"turn": call.turn.index},
        }

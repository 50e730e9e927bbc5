"""rLLM: an `Episode` with a trajectory of steps for each sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from strands_sglang.trajectory import Turn

from .base import Alignment, Exporter
from .calls import Call, calls_of, whole_pieces
from .held import Held
from .record import OF_SAMPLE, of_episode
from .result import LossBook
from .row import Row, integers_of, told


@dataclass(frozen=True, kw_only=True)
class RLLMExporter(Exporter):
    """rLLM's `Episode` (`rllm/types.py`), one per episode with a trajectory per sample.

    Alignment: per turn; a step for each trained call, with the whole prompt that it read. `logprobs` has the response's
    length, or is empty where they were left out (`missing_logprob="omit"`). rLLM reads missing ones as probability 1,
    so otherwise a trainable token without logprob is refused, or masked, which leaves out its whole turn.

    `advantage` is the per-turn credit of that name, one number a step; None where a turn has none. A step's `reward` is
    0.0 but for the last one of a trajectory, which has the episode's: it is required where there is a step.
    `weight_version` is the oldest of a step's tokens where all are told and integers, else None. `artifacts` has ids
    and ending as the record has them. Cannot hold: routing, images, temperature, which token of a step has which weight
    version, and tokens after which nothing is trained.

    Attributes:
        advantage: Name of the per-turn number that is a step's advantage.
    """

    name: ClassVar[str] = "rllm"
    alignment: ClassVar[Alignment] = Alignment.TURN
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA, Held.WEIGHT_VERSIONS}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Exporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    advantage: str = "advantage"

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _credited(self, row: Row) -> Iterable[Turn]:
        return (piece.turn for piece in whole_pieces(row))

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for _, group in groupby(rows, key=lambda row: id(row.episode)):
            of_one = list(group)
            episode = of_one[0].episode
            yield {
                "id": episode.id,
                "task": of_one[0].metadata,
                "trajectories": [self._trajectory(row, losses) for row in of_one],
                "artifacts": of_episode(episode),
                "metrics": {},
            }

    def _trajectory(self, row: Row, losses: LossBook) -> dict[str, Any]:
        steps = [self._step(call, losses) for call in calls_of(row, losses)]
        if steps:
            steps[-1] |= {"done": True, "reward": row.reward()}
        return {
            "uid": f"{row.episode.id}/{row.sample.index}",
            "name": row.sample.lineage.value,
            "steps": steps,
            "reward": row.episode.reward,
        }

    def _step(self, call: Call, losses: LossBook) -> dict[str, Any]:
        return {
            "id": str(call.turn.index),
            "prompt_ids": call.prompt_ids,
            "response_ids": call.ids,
            "logprobs": [] if self.omits_logprobs else call.logprobs or [],
            "reward": 0.0,
            "done": False,
            "advantage": call.turn.credit.get(self.advantage),
            "weight_version": _version(call, losses),
        }


def _version(call: Call, losses: LossBook) -> int | None:
    numbers = integers_of(call.versions)
    if not numbers:
        why = "rLLM takes integers only, for all tokens of a step"
        losses.note(Held.WEIGHT_VERSIONS, told(call.versions), "tokens", why)
    elif len(set(numbers)) > 1:
        losses.note(Held.WEIGHT_VERSIONS, len(numbers), "tokens", "only the oldest of a step is held")
    return min(numbers, default=None)

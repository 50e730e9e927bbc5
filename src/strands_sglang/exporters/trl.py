"""TRL: what a `rollout_func` of `GRPOTrainer` returns, and the `RolloutSample` of its asynchronous trainer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from strands_sglang.errors import ExportError
from strands_sglang.trajectory import Trajectory

from .arrays import CHOICES, Arrays, column
from .base import Alignment, Exporter, OneRowExporter
from .ending import ending_of
from .held import Held
from .record import OF_SAMPLE, of_sample
from .result import LossBook
from .row import Row, integer_of, number_of


@dataclass(frozen=True, kw_only=True)
class TRLExporter(OneRowExporter):
    """What TRL's `rollout_func(prompts, trainer)` returns (`trl/trainer/grpo_trainer.py`): one dict for all episodes.

    The episodes have to be given in the order of the prompts, `num_generations` of each prompt one after another.
    TRL takes one completion per episode: several samples are refused unless `several=` says otherwise.

    Alignment: `prompt_ids` and `completion_ids` apart; `logprobs` and `env_mask` (1 for trainable tokens) run over the
    completion. A token with mask 0 has logprob None, which TRL reads as not a number and leaves out. A trainable one
    without logprob is refused or masked; `missing_logprob="keep"` leaves it None: TRL then trains it as if trainer and
    engine agreed on it (ratio 1).

    All other keys go to the reward functions, a list each: `episode_reward`, `episode_ending`, `episode_id`,
    `episode_metadata`, and `episode_record` with ids, ending, lineage and weight as the record has them.
    Cannot hold: per-turn credit, weight versions, routing, images, temperature.
    """

    name: ClassVar[str] = "trl"
    alignment: ClassVar[Alignment] = Alignment.RESPONSE
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **OneRowExporter.choices,
        "missing_logprob": ("raise", "mask", "keep"),
    }

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        yield {
            "prompt_ids": [row.token_ids[: row.prompt_length] for row in rows],
            "completion_ids": [row.response(row.token_ids) for row in rows],
            "logprobs": [row.response(_measured(row)) for row in rows],
            "env_mask": [row.response(row.mask) for row in rows],
            "episode_reward": [row.episode.reward for row in rows],
            "episode_ending": [ending_of(row).value for row in rows],
            "episode_id": [row.episode.id for row in rows],
            "episode_metadata": [row.metadata for row in rows],
            "episode_record": [of_sample(row) for row in rows],
        }


@dataclass(frozen=True, kw_only=True)
class TRLAsyncExporter(Exporter):
    """TRL's `RolloutSample` (`trl/experimental/async_grpo/async_rollout_worker.py`), one per sample of the record.

    Alignment: full. `completion_mask` is 1 at trainable tokens; `old_log_probs` is 0.0 where it is 0, as TRL's own
    worker writes it. A trainable token without logprob is refused or masked.

    `advantage` is one number a sample: the per-turn credit of that name, which all trained turns have to share; it is
    required where something is trained. `model_version` is the oldest version of the trained tokens. `group_id` is the
    group's (or, outside a group, the episode's) id as an integer. `prompt` and `completion` are the messages in
    `Trajectory.metadata` of these names, which TRL only logs. Cannot hold: several advantages or versions in a sample,
    routing, images, temperature, termination, the position in the group, and an id that is no number as it is written.

    Attributes:
        advantage: Name of the per-turn number that is the advantage.
        unknown_version: What a version becomes that is not told or not an integer; None to refuse it.
        arrays: "numpy" for int64 and float32 arrays, "list" for lists.
    """

    name: ClassVar[str] = "trl_async"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS, Held.REWARD, Held.METADATA, Held.WEIGHT_VERSIONS})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {**Exporter.choices, "arrays": CHOICES}

    advantage: str = "advantage"
    unknown_version: int | None = None
    arrays: Arrays = "list"

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterable[dict[str, Any]]:
        for row in rows:
            metadata = row.metadata
            yield {
                "prompt": metadata.get("prompt", []),
                "completion": metadata.get("completion", []),
                "input_ids": column(row.token_ids, "int64", self.arrays),
                "completion_mask": column(row.mask, "int64", self.arrays),
                "old_log_probs": column(row.filled_logprobs(0.0), "float32", self.arrays),
                "advantage": self._advantage(row),
                "model_version": self._version(row, losses),
                "group_id": number_of(row.episode.id if row.episode.group_id is None else row.episode.group_id),
                "metrics": {"reward": row.episode.reward} if row.episode.reward is not None else {},
            }

    def _held_of(self, episode: Trajectory) -> frozenset[Held]:
        # Of an id that is no number only a number made of it is given, from which nobody reads the id.
        given, part = (episode.id, Held.ID) if episode.group_id is None else (episode.group_id, Held.GROUP)
        return self.held | {part} if integer_of(given) is not None else self.held

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        unread = len(episode.metadata.keys() - {"prompt", "completion"})
        losses.note(Held.METADATA, unread, "entries", "only prompt and completion have a place")

    def _advantage(self, row: Row) -> float:
        if not row.trainable:
            return 0.0
        given = {piece.turn.credit.get(self.advantage, math.nan) for piece in row.trained_pieces()}
        value = given.pop()
        if given or math.isnan(value):
            raise ExportError(
                f"{row.name}: TRL takes one advantage a sample, and its turns "
                f"{'have several' if given else 'have none'} under {self.advantage!r}",
                hint="set turn.credit['advantage'] to the same number on every turn of the episode",
            )
        return value

    def _version(self, row: Row, losses: LossBook) -> int:
        numbers = row.trained(row.version_numbers(unknown=self.unknown_version))
        found = [number for number in numbers if number is not None]
        losses.note(Held.WEIGHT_VERSIONS, row.unknown_versions, "tokens", f"they became {self.unknown_version}")
        if len(set(found)) > 1:
            losses.note(Held.WEIGHT_VERSIONS, len(found), "tokens", "only the oldest version of a sample is held")
        return min(found, default=self.unknown_version or 0)


def _measured(row: Row) -> list[float | None]:
    """Return the logprobs of trainable tokens, None elsewhere."""
    return [value if mask else None for value, mask in zip(row.logprobs, row.mask, strict=True)]

"""SkyRL: the `GeneratorOutput` that a generator returns for its batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from strands_sglang.errors import ExportError
from strands_sglang.trajectory import Trajectory, Turn

from .base import Alignment, OneRowExporter, RoutedExporter
from .ending import Ending, ending_of
from .held import Held
from .result import LossBook
from .row import Piece, Row

_STOP_REASONS = {
    Ending.COMPLETED: "stop",
    Ending.TRUNCATED: "length",
    Ending.ABORTED: "abort",
    Ending.FAILED: "error",
}


@dataclass(frozen=True, kw_only=True)
class SkyRLExporter(RoutedExporter, OneRowExporter):
    """SkyRL's `GeneratorOutput` (`skyrl/train/generators/base.py`): one dict for all episodes, in the prompts' order.

    Alignment: `prompt_token_ids` and `response_ids` apart; `loss_masks`, `rollout_logprobs` and per-token `rewards` run
    over the response. A token with mask 0 has logprob 0.0, as SkyRL's own generator writes it; a trainable one without
    logprob is refused, masked, or (`missing_logprob="omit"`) `rollout_logprobs` is None.

    SkyRL takes one row per prompt unless it trains step by step. Several samples of an episode are refused unless
    `several=` says otherwise; `several="all"` gives them all with `is_last_step`, for `step_wise_trajectories`, where
    the last row of an episode has its reward and the earlier ones 0.0 (SkyRL reads no other). `trajectory_ids` are
    `{"instance_id", "repetition_id"}`, group and position in it: make each `TrajectoryID(**entry)`. `stop_reasons` is
    "stop" for endings of the model's own, "length" where a limit cut it, "abort" or "error": SkyRL's
    filter of overlong rows keeps "stop" only.

    Routing: `[tokens, layers, top_k]` nested lists, zeros for the last token. Cannot hold: weight versions, images
    (data URLs), temperature, metadata, why an episode ended (but for the kind of ending), the id of an episode in a
    group, and any credit but the one of `token_rewards`.

    Attributes:
        token_rewards: Name of a per-turn number to give as per-token rewards, at the last trainable token of the turn
            and 0.0 elsewhere, so that they add up to the turns' sum; None gives the episode's reward, one a row.
        missing_credit: What a trained turn gets that has no such number where others do; None to refuse it.
    """

    name: ClassVar[str] = "skyrl"
    alignment: ClassVar[Alignment] = Alignment.RESPONSE
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RoutedExporter.choices,
        **OneRowExporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    token_rewards: str | None = None
    missing_credit: float | None = None

    def _held(self) -> frozenset[Held]:
        held = RoutedExporter._held(self) | ({Held.WEIGHT} if self.several == "all" else set())
        return held if self.token_rewards else held | {Held.REWARD}

    def _held_of(self, episode: Trajectory) -> frozenset[Held]:
        return self._held() | ({Held.ID} if episode.group_id is None else {Held.GROUP, Held.GROUP_INDEX})

    def _holds_credit(self, name: str) -> bool:
        return name == self.token_rewards

    def _credited(self, row: Row) -> Iterable[Turn]:
        return (piece.turn for piece in _rewarded(row))

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        last = [
            row is rows[-1] or row.episode is not after.episode
            for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True)
        ]
        _check_apart(rows)
        output = {
            "prompt_token_ids": [row.token_ids[: row.prompt_length] for row in rows],
            "response_ids": [row.response(row.token_ids) for row in rows],
            "rewards": [self._rewards(row, is_last) for row, is_last in zip(rows, last, strict=True)],
            "loss_masks": [row.response(row.mask) for row in rows],
            "stop_reasons": [_STOP_REASONS[ending_of(row)] for row in rows],
            "rollout_metrics": None,
            "rollout_logprobs": None
            if self.omits_logprobs
            else [row.response(row.filled_logprobs(0.0)) for row in rows],
            "trajectory_ids": [_trajectory_id(row) for row in rows],
            "is_last_step": last if self.several == "all" else None,
        }
        if self._takes_routing:
            output["rollout_expert_indices"] = [
                self._routing(row, lambda found: found.padded_rows(missing=self.missing_routing).tolist())
                for row in rows
            ]
        yield output

    def _rewards(self, row: Row, is_last: bool) -> float | list[float]:
        if self.token_rewards is None:
            return row.reward() if is_last else 0.0
        values = [0.0] * len(row.token_ids)
        credit = row.credit(self.token_rewards, missing=self.missing_credit)
        if credit is None and row.trainable and self.missing_credit is None:
            row.lacks_credit(self.token_rewards)
        for piece in _rewarded(row):
            last = max(position for position in range(piece.start, piece.end) if row.mask[position])
            values[last] = piece.turn.credit.get(self.token_rewards, self.missing_credit or 0.0)
        return row.response(values)


def _rewarded(row: Row) -> list[Piece]:
    """Return the trained turns whose rewards stand in a row.

    A turn whose stop token alone is trained here has its reward in the row that trains the rest.
    """
    return [piece for piece in row.trained_pieces() if row.sample.loss_mask[piece.start]]


def _check_apart(rows: list[Row]) -> None:
    """Refuse two episodes with one trajectory id: SkyRL would take them for one."""
    taken: dict[tuple[str, int], Row] = {}
    for row in rows:
        first = taken.setdefault(tuple(_trajectory_id(row).values()), row)
        if first.episode is not row.episode:
            raise ExportError(
                f"episodes {first.episode.id} and {row.episode.id} are both number {row.episode.group_index or 0} of "
                f"group {row.episode.group_id}",
                hint="set trajectory.group_index to the position within the group; where one of them was not finished "
                "and the other is its repeat, as in the file of a run that was resumed, leave the former out",
            )


def _trajectory_id(row: Row) -> dict[str, Any]:
    episode = row.episode
    if episode.group_id is None:
        return {"instance_id": episode.id, "repetition_id": 0}
    return {"instance_id": episode.group_id, "repetition_id": episode.group_index or 0}

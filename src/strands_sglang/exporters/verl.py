"""verl: the fields of `AgentLoopOutput`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Alignment, OneRowExporter, RoutedExporter
from .held import Held
from .record import KEY, OF_SAMPLE, of_sample
from .result import LossBook
from .row import Row, integers_of, told

_OWN = ("min_global_steps", "max_global_steps", KEY)


@dataclass(frozen=True, kw_only=True)
class VerlExporter(RoutedExporter, OneRowExporter):
    """verl's `AgentLoopOutput` (`verl/experimental/agent_loop/agent_loop.py`), one per episode.

    Alignment: `prompt_ids` and `response_ids` apart; `response_mask` and `response_logprobs` run over the response. A
    token with mask 0 has logprob 0.0, as verl's own loops write it; a trainable one without logprob is refused, masked,
    or (`missing_logprob="omit"`) `response_logprobs` is None for all. Nothing is cut to the configured response
    length: verl asserts it, and cutting is for the caller to decide.

    verl takes one output per episode: several samples are refused unless `several=` says otherwise. `extra_fields`
    holds the lowest and highest weight version as `min_global_steps` and `max_global_steps` where those of all
    trained tokens are told and integers, and under `strands_sglang` ids, ending, lineage, weight and metadata as the
    record has them.

    Routing: a row per token of prompt and response by absolute position, zeros for the last, int16 or int32. Cannot
    hold: per-turn credit (but the names in `extra_credit`, which go to `extra_fields` as a list per turn), images
    (data URLs), temperature, and which token has which weight version.

    Attributes:
        extra_credit: Names of per-turn numbers to put into `extra_fields`, one entry per trained turn, None where a
            turn has none; such as `("turn_scores",)`.
    """

    name: ClassVar[str] = "verl"
    alignment: ClassVar[Alignment] = Alignment.RESPONSE
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RoutedExporter.choices,
        **OneRowExporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    extra_credit: tuple[str, ...] = ()

    def _holds_credit(self, name: str) -> bool:
        return name in self.extra_credit and name not in _OWN

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            yield self._row(row, losses)

    def _row(self, row: Row, losses: LossBook) -> dict[str, Any]:
        pieces = row.pieces()
        routing = self._routing(row, lambda found: found.padded_rows(missing=self.missing_routing))
        if routing is not None:
            routing = routing.astype("int32" if int(routing.max(initial=0)) > 32767 else "int16")
        return {
            "prompt_ids": row.token_ids[: row.prompt_length],
            "response_ids": row.response(row.token_ids),
            "response_mask": row.response(row.mask),
            "response_logprobs": None if self.omits_logprobs else row.response(row.filled_logprobs(0.0)),
            "routed_experts": routing,
            "reward_score": row.episode.reward,
            "num_turns": len(pieces),
            "metrics": {
                "generate_sequences": sum(_seconds(piece.turn.sampled.facts) for piece in pieces if piece.sampled)
            },
            "extra_fields": {
                **self._per_turn(row),
                **self._versions(row, losses),
                KEY: {**of_sample(row), "metadata": row.metadata},
            },
        }

    def _versions(self, row: Row, losses: LossBook) -> dict[str, int]:
        versions = row.trained(row.versions)
        numbers = integers_of(versions)
        if not numbers:
            losses.note("weight_versions", told(versions), "tokens", "extra_fields takes integers only, for all tokens")
            return {}
        if min(numbers) != max(numbers):
            losses.note(
                "weight_versions", len(numbers), "tokens", "only the lowest and highest are held, not which token"
            )
        return {"min_global_steps": min(numbers), "max_global_steps": max(numbers)}

    def _held(self) -> frozenset[Held]:
        # What is lost of the versions is noted row by row.
        return RoutedExporter._held(self) | {Held.WEIGHT_VERSIONS}

    def _per_turn(self, row: Row) -> dict[str, list[float | None]]:
        turns = [piece.turn for piece in row.trained_pieces()]
        return {name: [turn.credit.get(name) for turn in turns] for name in self.extra_credit}


def _seconds(facts: Mapping[str, Any]) -> float:
    value = facts.get("latency")
    return float(value) if isinstance(value, int | float) and abs(value) < 2**63 else 0.0

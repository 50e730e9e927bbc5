"""prime-rl: the fields of `TrainingSample`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from strands_sglang.errors import ExportError
from strands_sglang.trajectory import Trajectory, Turn

from .base import Alignment, RoutedExporter
from .held import Held, is_tempered, temperature_of
from .result import LossBook
from .row import Row

_GREEDY_BELOW = 1e-6  # where SGLang takes the likeliest token, whose logprob is not after that temperature


@dataclass(frozen=True, kw_only=True)
class PrimeRLExporter(RoutedExporter):
    """prime-rl's `TrainingSample` (`src/prime_rl/transports/rollouts/types.py`), one per sample of the record.

    Alignment: full; `token_ids`, `mask`, `logprobs`, `temperatures` and `advantages` have one length. A token with mask
    False has logprob 0.0, temperature 1.0 and advantage 0.0, which prime-rl does not read; a trainable one without
    logprob is refused or masked.

    prime-rl divides its logits by each token's temperature, and compares with `logprobs`: a trained turn without one is
    refused unless `temperature=` says it, and so is one whose logprobs are not after the temperature that sampled it:
    temperature 0, and where the record says "untempered". `temperature=1.0` gives the latter as sampled at 1, which is
    the temperature of their logprobs. `advantages` is the per-turn
    credit of that name; None where no turn has it, which prime-rl's orchestrator then has to fill.

    Routing: `RoutedExperts` as `{"data": bytes, "shape": [tokens, layers, top_k], "dtype"}`, zeros for the last token.
    Cannot hold: the reward (it is in the advantages), weight versions (prime-rl keeps a policy version outside), images
    (data URLs), group, termination, and that several samples are one episode.

    Attributes:
        env_name: Name of the environment; None takes `Trajectory.metadata["env_name"]`.
        advantage: Name of the per-turn number that is the advantage.
        missing_credit: What a trained turn gets that has no such number where others do; None to refuse it.
        temperature: Temperature of turns that tell none, and, where it is 1.0, of those whose logprobs are untempered;
            None to refuse them.
    """

    name: ClassVar[str] = "prime_rl"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS, Held.TEMPERATURE, Held.LOGPROB_KIND, Held.METADATA})

    env_name: str | None = None
    advantage: str = "advantage"
    missing_credit: float | None = None
    temperature: float | None = None

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        named = {"env_name"} if self.env_name in (None, episode.metadata.get("env_name")) else set()
        unread = len(episode.metadata.keys() - named)
        losses.note(Held.METADATA, unread, "entries", "only env_name has a place, and env_name= goes before it")

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            credit = row.credit(self.advantage, missing=self.missing_credit)
            yield {
                "token_ids": row.token_ids,
                "mask": [bool(mask) for mask in row.mask],
                "logprobs": row.filled_logprobs(0.0),
                "temperatures": self._temperatures(row),
                "env_name": self._env_name(row),
                "routed_experts": self._routed(row),
                "advantages": None if credit is None else [value or 0.0 for value in credit],
            }

    def _env_name(self, row: Row) -> str:
        name = self.env_name if self.env_name is not None else row.episode.metadata.get("env_name")
        if not isinstance(name, str):
            raise ExportError(
                f"{row.name} has no environment's name, which prime-rl requires",
                hint="get_exporter('prime_rl', env_name=...) or trajectory.metadata['env_name']",
            )
        return name

    def _temperatures(self, row: Row) -> list[float]:
        values = [1.0] * len(row.token_ids)
        for piece in row.trained_pieces():
            value = self._temperature(row, piece.turn)
            values[piece.start : piece.end] = [value] * (piece.end - piece.start)
        return [value if mask else 1.0 for value, mask in zip(values, row.mask, strict=True)]

    def _temperature(self, row: Row, turn: Turn) -> float:
        """Return the temperature of a turn's logprobs."""
        facts = turn.sampled.facts
        told = temperature_of(facts)
        value = told if told is not None else self.temperature
        if not is_tempered(facts) and 1.0 in (value, self.temperature):
            return 1.0
        if value is not None and value >= _GREEDY_BELOW and is_tempered(facts):
            return value
        sampled = "a temperature that the record does not tell" if value is None else f"temperature {value}"
        raise ExportError(
            f"{row.name}: turn {turn.index} was sampled at {sampled}"
            f"{'' if is_tempered(facts) else ', and its logprobs are those of temperature 1 or may be'}",
            hint="sample at an explicit temperature above 0; temperature= says that of turns that tell none, and "
            "temperature=1.0 takes turns whose logprobs are those of temperature 1 as sampled at it",
        )

    def _routed(self, row: Row) -> dict[str, Any] | None:
        rows = self._routing(row, lambda found: found.padded_rows(missing=self.missing_routing))
        if rows is None:
            return None
        return {"data": rows.tobytes(), "shape": list(rows.shape), "dtype": str(rows.dtype)}

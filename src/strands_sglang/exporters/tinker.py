"""Tinker: the fields of `Datum`, as the cookbook's RL recipes make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Alignment, Exporter
from .held import Held
from .result import LossBook
from .row import Row


@dataclass(frozen=True, kw_only=True)
class TinkerExporter(Exporter):
    """Tinker's `Datum` (`tinker_cookbook/rl/data_processing.py`), one per sample of the record.

    Alignment: shifted. `model_input` is every token but the last and `target_tokens` every token but the first;
    `logprobs`, `advantages` and `mask` (floats) belong to the targets. A target with mask 0.0 has logprob and advantage
    0.0; a trainable one without logprob is refused or masked.

    `advantages` is the per-turn credit of that name; the key is left out where no turn has it, and has to be added
    before training. The loss functions of the service take no `mask`: `mask=False` leaves it out, where an advantage of
    0.0 has the same effect. Make `Datum(model_input=ModelInput.from_ints(row["model_input"]), loss_fn_inputs={name:
    TensorData(data=values, dtype="int64" if name == "target_tokens" else "float32", shape=[len(values)]) ...})`.
    Cannot hold: the reward (it is in the advantages), weight versions, routing, images, temperature, ids,
    termination, metadata, and that several samples are one episode.

    Attributes:
        advantage: Name of the per-turn number that is the advantage.
        missing_credit: What a trained turn gets that has no such number where others do; None to refuse it.
        mask: Whether to give `mask`.
    """

    name: ClassVar[str] = "tinker"
    alignment: ClassVar[Alignment] = Alignment.SHIFTED
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS})

    advantage: str = "advantage"
    missing_credit: float | None = None
    mask: bool = True

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            credit = row.credit(self.advantage, missing=self.missing_credit)
            inputs: dict[str, list[Any]] = {
                "target_tokens": row.token_ids[1:],
                "logprobs": row.filled_logprobs(0.0)[1:],
            }
            if credit is not None:
                inputs["advantages"] = [value or 0.0 for value in credit[1:]]
            if self.mask:
                inputs["mask"] = [float(mask) for mask in row.mask[1:]]
            yield {"model_input": row.token_ids[:-1], "loss_fn_inputs": inputs}

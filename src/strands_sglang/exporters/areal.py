"""AReaL: the dict of `[1, S]` columns that a `RolloutWorkflow` returns for an episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from strands_sglang.errors import ExportError

from .arrays import CHOICES, Arrays, column
from .base import Alignment, Exporter
from .held import Held
from .result import LossBook
from .row import Row


@dataclass(frozen=True, kw_only=True)
class ARealExporter(Exporter):
    """AReaL's tensors of one trajectory (`areal/workflow/multi_turn.py`), one dict per sample of the record.

    Alignment: full, each column `[1, S]`. A token with mask 0 has logprob 0.0 and version -1, as AReaL's own workflows
    write it; a trainable one without logprob is refused or masked. `rewards` is `[1]`, and required. Columns are lists
    or NumPy arrays; `{name: torch.tensor(values) for name, values in row.items()}` makes the tensors of either.

    AReaL is the one trainer that takes a weight version per token, as an integer: a trainable token with another kind
    of version (SGLang begins with "default"), or none, is refused unless `unknown_version` says what it gets. Several
    samples of an episode go together with `concat_padded_tensors`. Cannot hold: per-turn credit (apply AReaL's turn
    discount to the reward), routing, images, temperature, group, termination.

    Attributes:
        unknown_version: What a version becomes that is not told or not an integer; None to refuse it.
        turn_ids: Also give `turn_ids`: the number of the turn within the sample, -1 at tokens with mask 0.
        arrays: "numpy" for int32, float32 and bool arrays, "list" for nested lists.
    """

    name: ClassVar[str] = "areal"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS, Held.REWARD, Held.WEIGHT_VERSIONS})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {**Exporter.choices, "arrays": CHOICES}

    unknown_version: int | None = None
    turn_ids: bool = False
    arrays: Arrays = "list"

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            numbers = row.version_numbers(unknown=self.unknown_version)
            if self.unknown_version is not None:
                why = f"they became {self.unknown_version}"
                losses.note(Held.WEIGHT_VERSIONS, row.unknown_versions, "tokens", why)
            if self.arrays == "numpy":
                _check_int32(row, numbers)
            columns: dict[str, tuple[list[Any], str]] = {
                "input_ids": (row.token_ids, "int32"),
                "logprobs": (row.filled_logprobs(0.0), "float32"),
                "loss_mask": (row.mask, "int32"),
                "versions": ([-1 if number is None else number for number in numbers], "int32"),
                "attention_mask": ([True] * len(row.token_ids), "bool"),
            }
            if self.turn_ids:
                columns["turn_ids"] = (_turn_ids(row), "int32")
            exported = {name: column([values], dtype, self.arrays) for name, (values, dtype) in columns.items()}
            yield {**exported, "rewards": column([row.reward()], "float32", self.arrays)}


def _check_int32(row: Row, numbers: list[int | None]) -> None:
    """Refuse a version that AReaL's own type does not hold, such as a time in milliseconds."""
    for number in numbers:
        if number is not None and not -(2**31) <= number < 2**31:
            raise ExportError(
                f"{row.name}: the weight version {number} does not fit AReaL's int32",
                hint="count versions from 0, or give lists (arrays='list')",
            )


def _turn_ids(row: Row) -> list[int]:
    """Return the number of each trainable token's turn within the sample, -1 elsewhere."""
    numbers = [-1] * len(row.token_ids)
    sampled = [piece for piece in row.pieces() if piece.sampled]
    for number, piece in enumerate(sampled):
        numbers[piece.start : piece.end] = [number] * (piece.end - piece.start)
    return [number if mask else -1 for number, mask in zip(numbers, row.mask, strict=True)]

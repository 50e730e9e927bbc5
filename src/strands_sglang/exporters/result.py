"""What an export gives: rows, and what of the record did not fit into them.

Owns `Loss`, `Exported` and the book in which exporters note losses. A loss is never an error: an error is what would
make a row untrue. Equal losses are added up, so that a batch of a thousand episodes reports a handful of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strands_sglang.errors import ExportError


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something of the record that the rows do not hold.

    Attributes:
        field: What it is, in the record's own words: "weight_versions", "images", "credit.progress" ...
        count: How much of it.
        unit: What is counted: "tokens", "turns", "rows", "episodes" ...
        why: Why it is not in the rows, and what to do about it.
    """

    field: str
    count: int
    unit: str
    why: str

    def __str__(self) -> str:
        unit = self.unit if self.count != 1 else "entry" if self.unit == "entries" else self.unit.removesuffix("s")
        return f"{self.field}: {self.count} {unit}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The outcome of one export.

    Attributes:
        rows: What the trainer takes, as plain values: a row per sample, or one for all where the exporter says so.
        losses: What was in the record and is not in the rows; empty where all of it is.
    """

    rows: tuple[dict[str, Any], ...]
    losses: tuple[Loss, ...] = ()

    @property
    def row(self) -> dict[str, Any]:
        """The only row.

        Raises:
            ExportError: If there are none or several.
        """
        if len(self.rows) != 1:
            raise ExportError(f"there are {len(self.rows)} rows, not one; take them from rows")
        return self.rows[0]


class LossBook:
    """Adds up losses during an export."""

    def __init__(self) -> None:
        """Create an empty book."""
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def note(self, field: str, count: int, unit: str, why: str) -> None:
        """Add to a loss; a count of 0 is none."""
        if count:
            self._counts[field, unit, why] += count

    def __iter__(self) -> Iterator[Loss]:
        for (field, unit, why), count in self._counts.items():
            yield Loss(field=field, count=count, unit=unit, why=why)

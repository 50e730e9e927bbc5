"""Atropos: a `ScoredDataGroup` for each group of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Alignment, OneRowExporter
from .held import Held
from .result import LossBook
from .row import Row

_IGNORED = -100
_NO_LOGPROB = 1.0


@dataclass(frozen=True, kw_only=True)
class AtroposExporter(OneRowExporter):
    """Atropos' `ScoredDataGroup` (`atroposlib/envs/base.py`), one per group of episodes.

    Episodes with one `group_id` make a group, in the order given; one without is a group of its own. Atropos scores
    each sequence for itself: several samples of an episode are refused unless `several=` says otherwise.

    Alignment: full. `masks` is the token id at trainable tokens and -100 elsewhere. `inference_logprobs` is 1.0 where
    `masks` is -100, as Atropos writes it; a trainable token without logprob is refused, masked, or
    (`missing_logprob="omit"`) the key is left out. `scores` is the episodes' rewards, which are required. `advantages`
    is the per-turn credit of that name per token, 0.0 where not trainable; the key is left out where no turn of the
    group has it. Cannot hold: weight versions, routing, images, temperature, termination, metadata, and the names of
    groups and episodes.

    Attributes:
        advantage: Name of the per-turn number that is the advantage.
        missing_credit: What a trained turn gets that has no such number where others do; None to refuse it.
    """

    name: ClassVar[str] = "atropos"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = frozenset({Held.LOGPROBS, Held.REWARD})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **OneRowExporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    advantage: str = "advantage"
    missing_credit: float | None = None

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            episode = row.episode
            key = ("group", episode.group_id) if episode.group_id is not None else ("episode", episode.id)
            groups.setdefault(key, []).append(row)
        for group in groups.values():
            yield self._group(group)

    def _group(self, rows: list[Row]) -> dict[str, Any]:
        group: dict[str, Any] = {
            "tokens": [row.token_ids for row in rows],
            "masks": [
                [token if mask else _IGNORED for token, mask in zip(row.token_ids, row.mask, strict=True)]
                for row in rows
            ],
            "scores": [row.reward() for row in rows],
        }
        if not self.omits_logprobs:
            group["inference_logprobs"] = [row.filled_logprobs(_NO_LOGPROB) for row in rows]
        credits = [row.credit(self.advantage, missing=self.missing_credit) for row in rows]
        if any(credit is not None for credit in credits):
            group["advantages"] = [self._advantages(row, credit) for row, credit in zip(rows, credits, strict=True)]
        return group

    def _advantages(self, row: Row, credit: list[float | None] | None) -> list[float]:
        if credit is None:
            fill = self.missing_credit
            if fill is None and row.trainable:
                row.lacks_credit(self.advantage)
            return [(fill or 0.0) if mask else 0.0 for mask in row.mask]
        return [value or 0.0 for value in credit]

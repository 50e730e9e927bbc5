"""Rows for no trainer in particular: one JSON object, or one row of a table, per sample.

Everything the record knows of a sample is in them, under the record's own names; a missing value is null.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from strands_sglang.trajectory import Turn

from .base import Alignment, Exporter
from .held import Held
from .result import LossBook
from .row import Row, Span

if TYPE_CHECKING:
    import pyarrow

_JSON_COLUMNS = ("termination", "credit", "turns", "metadata")


@dataclass(frozen=True, kw_only=True)
class JSONLExporter(Exporter):
    """One JSON object per sample, for a line of its own.

    Alignment: full; `token_ids`, `loss_mask`, `logprobs`, `weight_versions` and each list of `credit` have one length,
    null where a value is missing, also for a trainable token (`missing_logprob` is "keep" by default). `turns` has each
    turn of the branch, one that sampled nothing too: where its prompt (`prompt_start`) and what it sampled (`start` to
    `end`) stand, its parent, conversation, lineage and fate, its own credit, how many of `image_data` are its own, and
    the facts of both: sampling parameters, finish reason, calls, forks, routing rows as the server gave them. Holds
    everything but turns and sampled tokens that are in no sample, which the losses count.
    """

    name: ClassVar[str] = "jsonl"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = frozenset(Held)
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Exporter.choices,
        "missing_logprob": ("keep", "raise", "mask"),
    }

    missing_logprob: Literal["raise", "mask", "omit", "keep"] = "keep"

    def _holds_credit(self, name: str) -> bool:
        return True

    def _credited(self, row: Row) -> Iterable[Turn]:
        return row.sample.turns

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            yield _row(row)


@dataclass(frozen=True, kw_only=True)
class ParquetExporter(JSONLExporter):
    """One row of a table per sample: the columns of `jsonl`, those without a fixed shape as JSON text.

    Alignment and missing values are those of `jsonl`. `termination`, `credit`, `turns` and `metadata` are JSON text, so
    that every file has the one schema of `schema()`; the extra `parquet` (pyarrow) is needed to write a file.
    """

    name: ClassVar[str] = "parquet"

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            found = _row(row)
            yield {
                name: json.dumps(value) if name in _JSON_COLUMNS and value is not None else value
                for name, value in found.items()
            }

    @staticmethod
    def schema() -> pyarrow.Schema:
        """Return the table's schema."""
        import pyarrow as pa

        numbers = {"sample": pa.int32(), "samples": pa.int32(), "prompt_length": pa.int32(), "group_index": pa.int64()}
        columns = {
            "weight": pa.float64(),
            "reward": pa.float64(),
            "token_ids": pa.list_(pa.int32()),
            "loss_mask": pa.list_(pa.int8()),
            "logprobs": pa.list_(pa.float64()),
            "weight_versions": pa.list_(pa.string()),
            "image_data": pa.list_(pa.string()),
        }
        order = ("rollout_id", "sample", "samples", "lineage", "weight", "prompt_length", "token_ids", "loss_mask")
        rest = ("logprobs", "weight_versions", "reward", "group_id", "group_index", "image_data", *_JSON_COLUMNS)
        return pa.schema([(name, {**numbers, **columns}.get(name, pa.string())) for name in (*order, *rest)])


def _row(row: Row) -> dict[str, Any]:
    """Return everything that is known of a sample."""
    episode, sample, ending = row.episode, row.sample, row.episode.termination
    names = sorted({name for turn in sample.turns for name in turn.credit})
    return {
        "rollout_id": episode.id,
        "sample": sample.index,
        "samples": row.siblings,
        "lineage": sample.lineage.value,
        "weight": sample.weight,
        "prompt_length": row.prompt_length,
        "token_ids": row.token_ids,
        "loss_mask": row.mask,
        "logprobs": row.logprobs,
        "weight_versions": row.versions,
        "reward": episode.reward,
        "group_id": episode.group_id,
        "group_index": episode.group_index,
        "image_data": list(sample.rollout.image_data),
        "termination": None
        if ending is None
        else {"reason": ending.reason.value, "detail": ending.detail, "trainable": ending.trainable},
        "credit": {name: row.spread(name) for name in names},
        "turns": [_turn(span) for span in row.spans()],
        "metadata": row.metadata,
    }


def _turn(span: Span) -> dict[str, Any]:
    """Return everything that is known of a turn."""
    turn = span.turn
    return {
        "index": turn.index,
        "parent": None if turn.parent is None else turn.parent.index,
        "conversation": turn.conversation,
        "lineage": turn.lineage.value,
        "fate": turn.fate.value,
        "prompt_start": span.prompt_start,
        "start": span.start,
        "end": span.end,
        "images": len(turn.images),
        "message_index": turn.sampled.message_index,
        "credit": dict(turn.credit),
        "facts": copy.deepcopy(dict(turn.sampled.facts)),
        "prompt_facts": copy.deepcopy(dict(turn.prompt.facts)),
    }

"""verifiers: the message nodes of each sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from strands_sglang.trajectory import Trajectory

from .base import Alignment, Exporter
from .held import Held
from .record import KEY, OF_SAMPLE, note_taken, of_sample
from .result import LossBook
from .row import Decode, Piece, Row


@dataclass(frozen=True, kw_only=True)
class VerifiersExporter(Exporter):
    """verifiers' `MessageNode`s (`verifiers/v1/graph.py`), a chain of them per sample of the record.

    Alignment: per message, as a node's own tokens: `token_ids` and `mask` end to end are the sample, `logprobs` and
    `advantages` have an entry for each True of `mask`. A segment of the record is a node: "assistant" where the engine
    sampled it, "user" everywhere else, tool results too. A trainable token without logprob is refused or masked.

    `parent` counts within the chain: add the number of nodes that stand before it in a trace. `advantages` is the
    per-turn credit of that name, None where the turn has none. `info` is `Trajectory.metadata`, and beside it under
    `strands_sglang` ids, ending, lineage and weight as the record has them. Cannot hold: weight versions, routing
    (uint8 arrays), images, temperature.

    Attributes:
        advantage: Name of the per-turn number that is the advantage.
        decode: Gives the messages' text; without it they are empty, which the losses count.
    """

    name: ClassVar[str] = "verifiers"
    alignment: ClassVar[Alignment] = Alignment.TURN
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA}

    advantage: str = "advantage"
    decode: Decode | None = None

    def _holds_credit(self, name: str) -> bool:
        return name == self.advantage

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        note_taken(episode, {KEY}, losses)

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            if self.decode is None:
                losses.note("content", 1, "rows", "the text of its messages is empty: give decode=tokenizer.decode")
            yield {
                "nodes": [self._node(row, number, piece) for number, piece in enumerate(row.pieces())],
                "rewards": {} if row.episode.reward is None else {"reward": row.episode.reward},
                "info": {**row.metadata, KEY: of_sample(row)},
            }

    def _node(self, row: Row, number: int, piece: Piece) -> dict[str, Any]:
        ids, mask = row.token_ids[piece.start : piece.end], row.mask[piece.start : piece.end]
        logprobs = row.logprobs[piece.start : piece.end]
        credit = piece.turn.credit.get(self.advantage)
        return {
            "parent": number - 1 if number else None,
            "message": {
                "role": "assistant" if piece.sampled else "user",
                "content": self.decode(ids) if self.decode is not None else "",
            },
            "sampled": piece.sampled,
            "token_ids": ids,
            "mask": [bool(trainable) for trainable in mask],
            "logprobs": [value for value, trainable in zip(logprobs, mask, strict=True) if trainable],
            "advantages": [credit] * sum(mask) if credit is not None and any(mask) else None,
        }

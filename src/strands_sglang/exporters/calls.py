"""A row as the calls it consists of, for trainers that take each turn on its own.

Owns `Call`. A turn is a call where all its sampled tokens in the row are trainable. A turn with a token that is not,
for want of a logprob or because another row trains it, cannot be given without it: it is left out whole, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strands_sglang.trajectory import Turn

from .result import LossBook
from .row import Piece, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the engine whose sampled tokens are trained.

    Attributes:
        turn: The turn of the record.
        prompt_ids: Everything the engine read for it.
        ids: What it sampled, without a stop token that the template replaced afterwards.
        logprobs: One for each of `ids`; None for all where some are not measured.
        versions: The weight version of each of `ids`, None where it is not told.
    """

    turn: Turn
    prompt_ids: list[int]
    ids: list[int]
    logprobs: list[float] | None
    versions: list[str | None]


def whole_pieces(row: Row) -> list[Piece]:
    """Return the turns of a row of which every token is trainable in it."""
    return [piece for piece in row.trained_pieces() if all(row.mask[piece.start : piece.end])]


def calls_of(row: Row, losses: LossBook) -> Iterator[Call]:
    """Yield the trained calls of a row, in order."""
    whole = whole_pieces(row)
    broken = row.trainable - sum(piece.end - piece.start for piece in whole)
    losses.note("loss_mask", broken, "tokens", "another token of their turn is masked, and turns are whole")
    after = row.mask[whole[-1].end if whole else 0 :].count(0)
    losses.note("context", after, "tokens", "nothing is trained after them, and a prompt is given with what came of it")
    for piece in whole:
        start, end = piece.start, piece.end
        measured = [value for value in row.logprobs[start:end] if value is not None]
        yield Call(
            turn=piece.turn,
            prompt_ids=row.token_ids[:start],
            ids=row.token_ids[start:end],
            logprobs=measured if len(measured) == end - start else None,
            versions=row.versions[start:end],
        )

"""Rows that a server sends for each token that was fed to the model, and whose they are.

A row belongs to a position: that of the token that was fed. It is wanted as it was when the token was fed first, by the
weights that sampled the next one. A generation that was retracted, or carried on without the rows of the part before,
is prefilled again, and the rows that come are those of that prefill. Where its weights are other ones, or cannot be
told, those positions are *refed*: stretches `(start, end)` whose rows are not the ones wanted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from itertools import takewhile

from strands_sglang.errors import SGLangDecodingError

from .columns import WeightSpan, row_bytes

Stretches = tuple[tuple[int, int], ...]
"""Positions, each `(start, end)`."""


def refed_rows(
    spans: Sequence[WeightSpan], retractions: int | None, *, start: int, prompt: int, sampled: int
) -> Stretches:
    """Return the refed positions of one reply.

    Args:
        spans: Which weights sampled it.
        retractions: How many times it was put back and prefilled again; None where the server does not say.
        start: Position of its first row.
        prompt: Tokens of its prompt.
        sampled: Its sampled tokens.
    """
    if not retractions:
        return ()
    if not _are_exact(spans, sampled):
        return _stretch(start, prompt + sampled - 1)
    of_the_last = list(takewhile(lambda span: span.version == spans[-1].version, reversed(spans)))
    begun = of_the_last[-1].start
    # The token before the first one that these weights sampled was fed to them.
    return _stretch(start, prompt + begun - 1) if begun else ()


def refed_by_resumption(
    first: Sequence[WeightSpan], second: Sequence[WeightSpan], *, start: int, seam: int, sampled: int
) -> Stretches:
    """Return the positions before `seam` whose rows come from a continuation's prefill, where its weights are others.

    Args:
        first: Which weights sampled the part before the seam.
        second: Which weights sampled the continuation.
        start: Position of its first row.
        seam: Position of the last token of the part before.
        sampled: Tokens of the part before.
    """
    told = {span.version for span in first} | {span.version for span in second[:1]}
    exact = _are_exact(first, sampled) and bool(second) and not second[0].widened
    return () if exact and len(told) == 1 else _stretch(start, seam)


def joined_rows(head: str, tail: str, *, head_rows: int, tail_rows: int, skipped: int, url: str, rid: str) -> str:
    """Return the rows of two parts as one payload.

    Args:
        head: Rows of the first part, base64 of int32.
        tail: Rows of the second part.
        head_rows: How many rows the first part has.
        tail_rows: How many the second has.
        skipped: How many of those were the first part's tokens.
        url: The server, for errors.
        rid: The request, for errors.

    Raises:
        SGLangDecodingError: The parts do not fit each other.
    """
    widths = {row_bytes(head, head_rows), row_bytes(tail, tail_rows)} - {0}
    if None in widths or len(widths) > 1:
        raise SGLangDecodingError(
            f"the rows of the continuation do not go on from those of the part before it: {len(tail)} characters for "
            f"{tail_rows} rows after {len(head)} characters for {head_rows}",
            url=url,
            rid=rid,
            hint="do all servers behind this address run the same model?",
        )
    try:
        before, after = (base64.b64decode(rows, validate=True) for rows in (head, tail))
    except (binascii.Error, ValueError) as error:
        raise SGLangDecodingError(f"the rows are not base64: {error}", url=url, rid=rid) from error
    return base64.b64encode(before + after[skipped * (widths.pop() or 0) if widths else 0 :]).decode()


def _are_exact(spans: Sequence[WeightSpan], sampled: int) -> bool:
    """Whether spans tell the weights of each of so many tokens."""
    if not spans or any(span.widened for span in spans):
        return False
    return spans[0].start == 0 and spans[-1].end == sampled


def _stretch(start: int, end: int) -> Stretches:
    return ((start, end),) if end > start else ()

"""`SamplingSupport`: what top-k, top-p and min-p left to choose from, for each sampled token.

The logprobs of a segment are those of the whole vocabulary; a policy that was sampled under truncation chose among
these ids only, with the renormalised `logprobs`. Kept in columns, and in the record as base64 of them: a row can have
thousands of ids. `sum(lengths) == len(ids)`, and no row is empty.
"""

from __future__ import annotations

import binascii
import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from strands_sglang.errors import RecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSupport:
    """The support of each sampled token.

    Attributes:
        lengths: How many ids were left, one number a sampled token.
        ids: The ids, end to end.
        logprobs: Of each sampled token, its log-probability among them; NaN where it is not known.
    """

    lengths: array[int]
    ids: array[int]
    logprobs: array[float]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], logprobs: Sequence[float | None] | None = None) -> SamplingSupport:
        """Build it from one list of ids a sampled token, and the logprobs of those.

        Raises:
            RecordError: If the lengths differ, a row is empty, or an id does not fit 32 bits.
        """
        given: Sequence[float | None] = [None] * len(rows) if logprobs is None else logprobs
        try:
            ids = array("i", (token for row in rows for token in row))
        except (OverflowError, TypeError) as error:
            raise RecordError(f"a sampling mask holds ids, integers below 2**31: {error}") from error
        values = array("d", (math.nan if value is None else value for value in given))
        return cls(lengths=array("i", map(len, rows)), ids=ids, logprobs=values)._checked(len(rows))

    @property
    def offsets(self) -> list[int]:
        """Where each token's ids begin in `ids`, and after the last where they end: one more than there are tokens."""
        return [0, *accumulate(self.lengths)]

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the ids of each token's support."""
        for start, end in pairwise(self.offsets):
            yield self.ids[start:end].tolist()

    def logprob_list(self) -> list[float | None]:
        """Return one renormalised log-probability or None per sampled token."""
        return [None if math.isnan(value) else value for value in self.logprobs]

    def to_fact(self) -> dict[str, str]:
        """Return it as the fact "sampling_mask" of a sampled segment."""
        return {"lengths": _encoded(self.lengths), "ids": _encoded(self.ids), "logprobs": _encoded(self.logprobs)}

    @classmethod
    def from_fact(cls, fact: object, count: int) -> SamplingSupport:
        """Read what `to_fact` wrote for `count` sampled tokens.

        Raises:
            RecordError: If it is damaged.
        """
        if not isinstance(fact, Mapping) or fact.keys() != {"lengths", "ids", "logprobs"}:
            raise RecordError("a sampling mask is an object of lengths, ids and logprobs")
        try:
            columns = {name: _decoded(fact[name], "d" if name == "logprobs" else "i") for name in fact}
        except (TypeError, ValueError) as error:
            raise RecordError(f"damaged sampling mask: {error}") from error
        return cls(**columns)._checked(count)

    def _checked(self, count: int) -> SamplingSupport:
        if not len(self.lengths) == len(self.logprobs) == count:
            raise RecordError(
                f"a sampling mask of {len(self.lengths)} rows and {len(self.logprobs)} logprobs for {count} tokens"
            )
        if sum(self.lengths) != len(self.ids) or (self.lengths and min(self.lengths) < 1):
            raise RecordError(f"the rows of a sampling mask do not divide its {len(self.ids)} ids, or one is empty")
        return self


def _encoded(column: array[Any]) -> str:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return b64encode(column.tobytes()).decode("ascii")


def _decoded(text: Any, typecode: str) -> array[Any]:
    column = array(typecode)
    try:
        column.frombytes(b64decode(text, validate=True))
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    if sys.byteorder == "big":
        column.byteswap()
    return column

"""The ids of a prompt together with their JSON.

A conversation sends its whole prompt with every turn; what is new since the last turn is a small part of it.
`extended` encodes the new ids only and shares the rest: `b"".join(p.extended(ids).json) == encode([*p, *ids])`.

A `PromptIds` never changes. Ids that cannot be sent (negative, not integers, 2**31 and more) are refused when they are
added: a server dies of a negative id. Kept are 4 bytes an id and its digits.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

import orjson

from strands_sglang.errors import SGLangConfigError

_ID_CHARACTERS = b"0123456789,"


class PromptIds(Sequence[int]):
    """Prompt ids that know their own JSON.

    Attributes:
        json: The chunks of the JSON array, without its brackets; joined they are the encoding of all ids.
    """

    __slots__ = ("_chunks", "_highest", "_length", "json")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """Encode `ids`."""
        self._begin(*_encode(ids))

    @classmethod
    def once(cls, ids: Iterable[int]) -> PromptIds:
        """Return ids that are sent and let go: kept as they come, since packing them takes longer than encoding."""
        prompt = object.__new__(cls)
        plain = tuple(ids)
        prompt._begin(plain, _json_of(plain))
        return prompt

    def _begin(self, chunk: array[int] | tuple[int, ...], encoded: bytes) -> None:
        # Arrays, and tuples of integers, are invisible to the garbage collector. Lists of thousands of ids, one per
        # request on its way, would be walked through again and again.
        self._chunks: tuple[array[int] | tuple[int, ...], ...] = (chunk,) if chunk else ()
        self.json: tuple[bytes, ...] = (encoded,) if chunk else ()
        self._length = len(chunk)
        self._highest: int | None = None  # computed when first asked for

    def extended(self, ids: Iterable[int]) -> PromptIds:
        """Return these ids followed by `ids`; only `ids` are looked at."""
        chunk, encoded = _encode(ids)
        if not chunk:
            return self
        longer = object.__new__(PromptIds)
        longer._chunks = (*self._chunks, chunk)
        longer.json = (*self.json, b"," + encoded) if self.json else (encoded,)
        longer._length = self._length + len(chunk)
        longer._highest = None if self._highest is None else max(self._highest, *chunk)
        return longer

    @property
    def newest(self) -> array[int]:
        """The ids that were added last; not to be changed."""
        newest = self._chunks[-1] if self._chunks else ()
        return newest if isinstance(newest, array) else array("i", newest)

    @property
    def highest(self) -> int:
        """The highest id, or -1 when there is none."""
        if self._highest is None:
            self._highest = max(self, default=-1)
        return self._highest

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return self._stretch(*index.indices(self._length)[:2]) if index.step is None else list(self)[index]
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(f"index {index} of {self!r}")
        end = self._length
        for chunk in reversed(self._chunks):  # the end is what is asked for
            end -= len(chunk)
            if at >= end:
                break
        return chunk[at - end]

    def _stretch(self, start: int, stop: int) -> list[int]:
        ids: list[int] = []
        for chunk in self._chunks:
            if stop <= 0:
                break
            if start < len(chunk):
                ids += chunk[max(start, 0) : stop]
            start, stop = start - len(chunk), stop - len(chunk)
        return ids

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._chunks)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PromptIds | list | tuple):
            return self._length == len(other) and list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PromptIds({self._length} ids)"


def _encode(ids: Iterable[int]) -> tuple[array[int], bytes]:
    """Return ids as an array, and their JSON without its brackets."""
    plain = ids if isinstance(ids, list | tuple) else list(ids)
    encoded = _json_of(plain)
    try:
        return array("i", plain), encoded
    except OverflowError as error:
        raise SGLangConfigError(f"input_ids must be integers below 2**31, got {max(plain)}") from error


def _json_of(plain: list[int] | tuple[int, ...]) -> bytes:
    """Return the JSON of ids without its brackets."""
    try:
        encoded = orjson.dumps(plain)[1:-1]
    except TypeError as error:
        raise SGLangConfigError(f"input_ids must be plain integers: {error}") from error
    # One scan in C finds floats, booleans, null, nested lists and negative ids alike.
    if encoded.translate(None, _ID_CHARACTERS):
        position = next(i for i, x in enumerate(plain) if type(x) is not int or x < 0)
        raise SGLangConfigError(
            f"input_ids must be integers of 0 or more, got {plain[position]!r} at position {position} of the ids given"
        )
    return encoded

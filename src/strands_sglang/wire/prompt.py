"""The ids of a prompt together with their JSON.

A conversation sends its whole prompt with every turn; what is new since the last turn is a small part of it.
`extended` encodes the new ids only and shares the rest: `b"".join(p.extended(ids).json) == encode([*p, *ids])`.

A `PromptIds` never changes. Ids that cannot be sent (negative, not integers) or kept (2**31 and more) are refused when
they are added: a server dies of a negative id. Kept are 4 bytes an id and its digits.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

import orjson

from strands_sglang.errors import SGLangConfigError

# What the JSON of anything but integers of 0 or more holds beside digits and commas: signs, fractions and exponents,
# letters of true, false and null, and what opens text, lists and objects. Looking for these takes a quarter of the time
# of looking at every character.
_FOREIGN = (b"-", b".", b"e", b"E", b"l", b"u", b'"', b"[", b"{")


class PromptIds(Sequence[int]):
    """Prompt ids that know their own JSON.

    Attributes:
        json: The chunks of the JSON array, without its brackets; joined they are the encoding of all ids.
    """

    __slots__ = ("_highest", "_length", "_packed", "json")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """Encode `ids`."""
        packed, encoded = _encode(ids)
        self._packed: tuple[array[int], ...] | None
        self._begin(packed, len(packed), encoded)

    @classmethod
    def once(cls, ids: Iterable[int]) -> PromptIds:
        """Return ids that are sent and let go: only their JSON is kept, and they are read from it where asked for.

        Packing them takes longer than encoding, and the garbage collector would walk through every id of a list or
        tuple of each request on its way. What is too high is told only where it matters: beyond a known vocabulary,
        or once they are to be kept.
        """
        prompt = object.__new__(cls)
        plain = ids if isinstance(ids, list | tuple) else list(ids)
        encoded = _json_of(plain)
        prompt._begin(None, len(plain), encoded)
        return prompt

    def _begin(self, packed: array[int] | None, length: int, encoded: bytes) -> None:
        self._packed = None if packed is None and length else (packed,) if packed else ()
        self.json: tuple[bytes, ...] = (encoded,) if length else ()
        self._length = length
        self._highest: int | None = None  # computed when first asked for

    @property
    def _chunks(self) -> tuple[array[int], ...]:
        if self._packed is None:
            self._packed = (_array_of(self._read()),)
        return self._packed

    def _read(self) -> list[int]:
        ids: list[int] = orjson.loads(b"[%b]" % b"".join(self.json))
        return ids

    def extended(self, ids: Iterable[int]) -> PromptIds:
        """Return these ids followed by `ids`; only `ids` are looked at."""
        chunk, encoded = _encode(ids)
        if not chunk:
            return self
        longer = object.__new__(PromptIds)
        longer._packed = (*self._chunks, chunk)
        longer.json = (*self.json, b"," + encoded) if self.json else (encoded,)
        longer._length = self._length + len(chunk)
        longer._highest = None if self._highest is None else max(self._highest, *chunk)
        return longer

    @property
    def newest(self) -> array[int]:
        """The ids that were added last; not to be changed."""
        return self._chunks[-1] if self._chunks else array("i")

    @property
    def highest(self) -> int:
        """The highest id, or -1 when there is none."""
        if self._highest is None:
            self._highest = max(self if self._packed is not None else self._read(), default=-1)
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
    return _array_of(plain), encoded


def _array_of(plain: list[int] | tuple[int, ...]) -> array[int]:
    """Return ids as an array."""
    try:
        return array("i", plain)
    except OverflowError as error:
        raise SGLangConfigError(f"input_ids must be integers below 2**31, got {max(plain)}") from error


def _json_of(plain: list[int] | tuple[int, ...]) -> bytes:
    """Return the JSON of ids without its brackets."""
    try:
        encoded = orjson.dumps(plain)[1:-1]
    except TypeError as error:
        raise SGLangConfigError(f"input_ids must be plain integers: {error}") from error
    if any(map(encoded.__contains__, _FOREIGN)):
        position = next(i for i, x in enumerate(plain) if type(x) is not int or x < 0)
        raise SGLangConfigError(
            f"input_ids must be integers of 0 or more, got {plain[position]!r} at position {position} of the ids given"
        )
    return encoded

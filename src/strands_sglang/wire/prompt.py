"""The ids of a prompt together with their JSON.

A conversation sends its whole prompt with every turn; what is new since the last turn is a small part of it.
`extended` encodes the new ids only and shares the rest: `b"".join(p.extended(ids).json) == encode([*p, *ids])`.

A `PromptIds` never changes. Ids that cannot be sent (negative, not integers) are refused when they are added: a
server dies of a negative id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import orjson

from strands_sglang.errors import SGLangConfigError

_ID_CHARACTERS = b"0123456789,"


class PromptIds(Sequence[int]):
    """Prompt ids that know their own JSON.

    Attributes:
        json: The chunks of the JSON array, without its brackets; joined they are the encoding of all ids.
    """

    __slots__ = ("_highest", "_ids", "json")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """Encode `ids`."""
        self._ids: list[int] = list(ids)
        self.json: tuple[bytes, ...] = (_encode(self._ids),) if self._ids else ()
        self._highest: int | None = None  # computed when first asked for

    def extended(self, ids: Iterable[int]) -> PromptIds:
        """Return these ids followed by `ids`; only `ids` are encoded."""
        new = list(ids)
        if not new:
            return self
        longer = object.__new__(PromptIds)
        longer.json = (*self.json, b"," + _encode(new)) if self.json else (_encode(new),)
        longer._ids = self._ids + new
        longer._highest = None if self._highest is None else max(self._highest, *new)
        return longer

    @property
    def highest(self) -> int:
        """The highest id, or -1 when there is none."""
        if self._highest is None:
            self._highest = max(self._ids, default=-1)
        return self._highest

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._ids[index]

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PromptIds):
            return self._ids == other._ids
        return self._ids == list(other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._ids))

    def __repr__(self) -> str:
        return f"PromptIds({len(self._ids)} ids)"


def _encode(ids: list[int]) -> bytes:
    try:
        encoded = orjson.dumps(ids)[1:-1]
    except TypeError as error:
        raise SGLangConfigError(f"input_ids must be plain integers: {error}") from error
    # One scan in C finds floats, booleans, null, nested lists and negative ids alike.
    if encoded.translate(None, _ID_CHARACTERS):
        position = next(i for i, x in enumerate(ids) if type(x) is not int or x < 0)
        raise SGLangConfigError(
            f"input_ids must be integers of 0 or more, got {ids[position]!r} at position {position} of the ids given"
        )
    return encoded

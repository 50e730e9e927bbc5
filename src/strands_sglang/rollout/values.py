"""The values of a record, as JSON can hold them: what the writer refuses is what the reader refuses.

Each function returns the value as it will be when it is read again, or raises `RecordError` with the place. Both sides
of `saved.py` use them. Nothing is converted that would come back as something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from strands_sglang.errors import RecordError

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V")

DEEPEST = 400
"""How many lists and objects can stand within each other; JSON libraries give up somewhere beyond."""

_LONGEST_INTEGER = 14_000  # bits; Python reads and writes integers of up to 4300 digits
_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def json_name(value: object) -> str:
    """Return what JSON calls a value."""
    return kind_name(type(value))


def kind_name(kind: type) -> str:
    """Return what JSON calls values of a type."""
    return _JSON_NAMES.get(kind, f"a {kind.__name__}")


def shown(value: object) -> str:
    """Return a value for a sentence: itself where it is a short one, else what JSON calls it."""
    if isinstance(value, str):
        return _short(ascii(value))
    if isinstance(value, int) and value.bit_length() < 99:
        return repr(value)
    return repr(value) if value is None or isinstance(value, float) else json_name(value)


def plain(value: Any, place: str, *, depth: int = 0) -> Any:
    """Return a copy of a value that holds only what JSON can hold, exactly.

    Raises:
        RecordError: If a part of it would not come back as it is.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > _LONGEST_INTEGER:
            raise RecordError(f"{place} is an integer of {value.bit_length()} bits, too long to be written")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RecordError(f"{place} is {value}, which JSON does not have; use None for what is not known")
        return float(value)
    if not isinstance(value, list | tuple | Mapping):
        raise RecordError(
            f"{place} is a {type(value).__name__}, which JSON does not have; give a plain number, string, list or dict"
        )
    if depth == DEEPEST:
        raise RecordError(f"{_short(place)} stands within {DEEPEST} lists and objects, or holds itself")
    if not isinstance(value, Mapping):
        # A loop and no comprehension, which would take a frame of its own a level.
        parts = []
        for at, part in enumerate(value):
            parts.append(plain(part, f"{place}[{at}]", depth=depth + 1))
        return parts
    copied = {}
    for key, part in value.items():
        copied[name_of(key, place)] = plain(part, f"{place}.{key}", depth=depth + 1)
    return copied


def plain_object(value: Any, place: str) -> dict[str, Any]:
    """Return a copy of an object that holds only what JSON can hold, exactly.

    Raises:
        RecordError: If it is no object, or a part of it would not come back as it is.
    """
    if not isinstance(value, Mapping):
        raise RecordError(f"{place} is {json_name(value)}, not an object")
    try:
        copied: dict[str, Any] = plain(value, place)
    except RecursionError as error:  # called from deep within a program
        raise RecordError(f"{place} holds lists and objects within each other, too many for the stack") from error
    return copied


def name_of(key: object, place: str) -> str:
    """Return a key, which has to be a string."""
    if not isinstance(key, str):
        raise RecordError(f"{place} has the key {shown(key)}; only strings can be keys in a saved record")
    return str(key)


def number(value: Any, place: str) -> float:
    """Return a number as a float, as it will be when it is read again.

    Raises:
        RecordError: If it is not a finite number, or one that a float cannot hold.
    """
    if not isinstance(value, int | float):
        raise RecordError(f"{place} is a {type(value).__name__}, not a plain number; convert it with float()")
    try:
        exact = float(value)
    except OverflowError:
        exact = math.inf
    if not math.isfinite(exact) or exact != value:
        raise RecordError(
            f"{place} is {shown(value)}, which is not a finite number that a float can hold; "
            "use None for what is not known"
        )
    return exact


def whole(value: Any, place: str) -> int:
    """Return an integer of up to 64 bits.

    Raises:
        RecordError: If it is anything else, such as a boolean or a NumPy integer.
    """
    if type(value) is not int:
        raise RecordError(f"{place} is {json_name(value)}, not an integer; convert it with int()")
    if not -(2**63) <= value < 2**63:
        raise RecordError(f"{place} is an integer of {value.bit_length()} bits; a record holds those of 64")
    return value


def text(value: Any, place: str) -> str:
    """Return a string.

    Raises:
        RecordError: If it is anything else.
    """
    if not isinstance(value, str):
        raise RecordError(f"{place} is {json_name(value)}, not a string; convert it with str()")
    return str(value)


def identity(value: Any, place: str) -> str:
    """Return a string that every program can write, as names and ids have to be.

    Raises:
        RecordError: If it is no string, or holds half a surrogate pair, which UTF-8 does not have.
    """
    name = text(value, place)
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise RecordError(f"{place} is {name!a}, which UTF-8 cannot write: {error.reason}") from error
    return name


def identities(values: Any, place: str) -> list[str]:
    """Return a list of strings that every program can write.

    Raises:
        RecordError: If it is no list, or an entry is none.
    """
    if not isinstance(values, list | tuple):
        raise RecordError(f"{place} is {json_name(values)}, not a list")
    return [identity(value, f"{place}[{at}]") for at, value in enumerate(values)]


def optional(read: Callable[[Any, str], V]) -> Callable[[Any, str], V | None]:
    """Return a function that also takes None."""
    return lambda value, place: None if value is None else read(value, place)


def member(value: Any, enum: type[E], place: str) -> str:
    """Return the value of a member of an enum.

    Raises:
        RecordError: If it is none.
    """
    if text(value, place) not in set(enum):
        raise RecordError(f"{place} is {shown(value)}, not one of {', '.join(enum)}")
    return enum(value).value


def _short(words: str) -> str:
    return words if len(words) <= 120 else f"{words[:80]}..."

"""The checksum of a record: of its values, however a tool wrote them.

Equal values have equal checksums, whatever the order of keys, the spaces, the escapes in text, and whether a number is
written as 1 or 1.0; any other value, type or length has another one. What is summed is exact: a number that a tool
rounded in its last digit is another number.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

_NUMBERS = {int, float, type(None)}
_NEGATIVE_ZERO = array("d", [-0.0]).tobytes()


def checksum(value: Any) -> str:
    """Return the CRC-32 of JSON values, as eight hexadecimal digits.

    Raises:
        TypeError: If a part is not a JSON value.
        RecursionError: If lists and objects stand too deep within each other for the stack.
    """
    parts: list[bytes] = []
    _add(value, parts)
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return f"{crc:08x}"


def _add(value: Any, parts: list[bytes]) -> None:
    """Add the bytes of a value; each kind begins in its own way and says how long it is, so that none is another."""
    if isinstance(value, str):
        parts.append(_quoted(value).encode())
    elif isinstance(value, Mapping):
        parts.append(b"{%d" % len(value))
        for key in sorted(value):
            parts.append(_quoted(key).encode())
            _add(value[key], parts)
    elif isinstance(value, list | tuple):
        packed = _packed(value)
        if packed is not None:
            parts.append(packed)
            return
        parts.append(b"[%d" % len(value))
        for part in value:
            _add(part, parts)
    elif value is None or isinstance(value, bool):
        parts.append(b"%r" % value)
    else:
        parts.append(_number(value))


def _packed(values: Sequence[Any]) -> bytes | None:
    """Return a list of numbers and nulls as an array, which is fast; None where no array holds it exactly.

    Which array it is follows from the values: 32-bit integers where all are such, written as 1 or as 1.0, else floats.
    """
    kinds = set(map(type, values))
    if not kinds or not kinds <= _NUMBERS:
        return None
    unknown = bytes(value is None for value in values) if type(None) in kinds else b""
    given = [value for value in values if value is not None] if unknown else values
    numbers = _integers(given, kinds) or _reals(given, kinds)
    if numbers is None:
        return None
    if sys.byteorder == "big":
        numbers.byteswap()
    head = b"%s%d,%d:" % (numbers.typecode.encode(), len(values), len(unknown))
    return b"".join((head, unknown, numbers.tobytes()))


def _integers(given: Sequence[Any], kinds: set[type]) -> array[Any] | None:
    if float in kinds and not all(type(value) is int or value.is_integer() for value in given):
        return None
    try:
        return array("i", map(int, given) if float in kinds else given)
    except OverflowError:
        return None


def _reals(given: Sequence[Any], kinds: set[type]) -> array[Any] | None:
    try:
        reals = array("d", given)
    except OverflowError:
        return None
    if int in kinds and reals.tolist() != list(given):
        return None
    # Minus zero is written as -0, and that is read as the integer 0.
    return array("d", [value + 0.0 for value in reals]) if _NEGATIVE_ZERO in reals.tobytes() else reals


def _number(value: Any) -> bytes:
    if isinstance(value, float) and not value.is_integer():
        return b"#" + float.__repr__(value).encode()
    if isinstance(value, int | float):
        return b"#%d" % value
    raise TypeError(f"a {type(value).__name__} is not a JSON value")

"""JSON as RFC 8259 has it, read from a place in a longer text.

Owns `JSONReader`, one per text. The value delimits itself: its end is known also where it breaks a rule that
Python's parser lets pass (NaN, a number too large, a key given twice, half a surrogate pair), so that what
follows can still be found. Linear in the text over all reads of one turn. Never repairs and never raises.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, SupportsIndex

from strands_sglang.tool_parsers.result import ToolParseStatus

JSON_SPACE = " \t\n\r"


@dataclass(frozen=True, slots=True)
class JSONRead:
    """What stands at a place.

    Attributes:
        value: The value; meaningful only where `status` is OK.
        end: Where the value ends, or -1 where no value could be delimited.
        status: OK, INVALID_JSON or DUPLICATE_KEY.
        reason: What is wrong, in words.
    """

    value: Any
    end: int
    status: ToolParseStatus = ToolParseStatus.OK
    reason: str = ""


_BEGINNINGS = frozenset('{["-0123456789tfnNI')
_NO_VALUE = JSONRead(None, -1, ToolParseStatus.INVALID_JSON, "not valid JSON: no value begins here")


class _Document(str):
    """The text, for the decoder alone.

    The standard library's error counts the lines before it; over a megabyte of broken attempts that count
    is what takes the time, and nobody here reads it.
    """

    __slots__ = ()

    def count(self, *args: Any) -> int:
        return 0

    def rfind(self, sub: str, start: SupportsIndex | None = None, end: SupportsIndex | None = None, /) -> int:
        return -1


class JSONReader:
    """Reads JSON values out of one text."""

    def __init__(self, text: str) -> None:
        """Create a reader of `text`."""
        self._text = _Document(text)
        self._faults: list[tuple[ToolParseStatus, str]] = []
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=self._float
        )

    def read(self, start: int) -> JSONRead:
        """Read the value that begins at `start`, with no space before it."""
        if self._text[start : start + 1] not in _BEGINNINGS:
            return _NO_VALUE
        self._faults.clear()
        try:
            value, end = self._decoder.raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            return _failed(f"not valid JSON: {error.msg} at character {error.pos - start} of it")
        except RecursionError:
            return _failed("not valid JSON here: nested too deeply")
        except ValueError:  # an integer beyond the interpreter's limit on digits
            return _failed("not valid JSON here: an integer with too many digits")
        self._check_surrogates(value, start, end)
        if self._faults:
            status, reason = self._faults[0]
            return JSONRead(None, end, status, reason)
        return JSONRead(value, end)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            self._faults.append((ToolParseStatus.DUPLICATE_KEY, f"the key {twice!r} is given twice"))
        return members

    def _constant(self, name: str) -> None:
        self._faults.append((ToolParseStatus.INVALID_JSON, f"not valid JSON: {name} is not a JSON number"))

    def _float(self, digits: str) -> float:
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            self._faults.append((ToolParseStatus.INVALID_JSON, f"the number {digits[:40]} is too large"))
        return number

    def _check_surrogates(self, value: Any, start: int, end: int) -> None:
        if self._text.find("\\u", start, end) < 0:
            return
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except (UnicodeEncodeError, RecursionError):
            self._faults.append((ToolParseStatus.INVALID_JSON, "a \\u escape gives half a surrogate pair"))


def _failed(reason: str) -> JSONRead:
    return JSONRead(None, -1, ToolParseStatus.INVALID_JSON, reason)


def read_all(text: str) -> JSONRead:
    """Read a text that is one JSON value with nothing but JSON space around it."""
    begin = len(text) - len(text.lstrip(JSON_SPACE))
    read = JSONReader(text).read(begin)
    if read.end >= 0 and text[read.end :].strip(JSON_SPACE):
        return _failed(f"not one JSON value: text follows it at character {read.end}")
    return read

"""Python literals and Python calls, read without evaluating anything.

Owns `PythonReader`: strings, numbers, `True`, `False`, `None`, lists and dicts with string keys, and calls with
keyword arguments. In one pass, so linear; nesting is bounded. Spellings of JSON (`true`, `false`, `null`) are
read too where the format has them. Never reads tuples, sets, names, operators or positional arguments: what
JSON cannot hold, or has no parameter, is an error.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 200
_SPACE = re.compile(r"[ \t\r\n\f]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_NAME = re.compile(r"[^\W\d]\w*")
_CALLEE = re.compile(r"[^\W\d][\w\-]*(?:[.:/][\w\-]+)*")
_ESCAPE = re.compile(
    r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}]{1,100})\}|(\r\n|.))",
    re.DOTALL,
)
_SIMPLE = {"\n": "", "\r\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUOTES = ('"""', "'''", '"', "'")
_PYTHON_NAMES: Mapping[str, Any] = {"True": True, "False": False, "None": None}
_JSON_NAMES: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class LiteralError(ValueError):
    """What stands at `place` is no literal or call.

    Attributes:
        place: Where reading stopped.
    """

    def __init__(self, reason: str, place: int) -> None:
        """Create the error."""
        super().__init__(reason)
        self.place = place


class PythonReader:
    """Reads literals and calls out of one text."""

    def __init__(self, text: str, *, json_names: bool = False, line_breaks: bool = False) -> None:
        """Create a reader of `text`.

        Args:
            text: The text.
            json_names: Whether what JSON has and Python has not is read too: the names `true`, `false` and
                `null`, an escaped slash, pairs of surrogate escapes.
            line_breaks: Whether strings in other than triple quotes may hold line breaks.
        """
        self.text = text
        self._line_breaks = line_breaks
        self._json = json_names
        self._names = {**_PYTHON_NAMES, **(_JSON_NAMES if json_names else {})}

    def skip_space(self, place: int) -> int:
        """Return the first place at or after `place` that is not space."""
        match = _SPACE.match(self.text, place)
        return match.end() if match else place

    def callee(self, place: int) -> tuple[str, int]:
        """Read a tool's name at `place` and the parenthesis behind it; returns where arguments begin."""
        match = _CALLEE.match(self.text, place)
        if not match or not self.text.startswith("(", match.end()):
            raise LiteralError(f"{self._excerpt(place)} is no call of a tool, NAME(key=value, ...)", place)
        return match[0], match.end() + 1

    def arguments(self, place: int) -> tuple[dict[str, Any], str | None, int]:
        """Read keyword arguments up to the closing parenthesis.

        Returns:
            The arguments, the first key given twice or None, and the place behind the parenthesis.
        """
        values: dict[str, Any] = {}
        twice: str | None = None
        place = self.skip_space(place)
        while not self.text.startswith(")", place):
            match = _NAME.match(self.text, place)
            equals = self.skip_space(match.end()) if match else place
            if not match or not self.text.startswith("=", equals) or self.text.startswith("==", equals):
                raise LiteralError(f"{self._excerpt(place)} stands where a key=value argument must", place)
            twice = twice or (match[0] if match[0] in values else None)
            values[match[0]], place = self.value(self.skip_space(equals + 1))
            place = self._separator(place, ")")
        return values, twice, place + 1

    def value(self, place: int, depth: int = 0) -> tuple[Any, int]:
        """Read one literal at `place`; returns it and the place behind it."""
        if depth > _MAX_DEPTH:
            raise LiteralError("the value is nested too deeply", place)
        for quote in _QUOTES:
            if self.text.startswith(quote, place):
                return self._string(place, quote)
        if self.text.startswith("[", place):
            return self._list(place, depth)
        if self.text.startswith("{", place):
            return self._dict(place, depth)
        match = _NUMBER.match(self.text, place)
        if match and not _NAME.match(self.text, match.end()):
            return self._number(match[0], place), match.end()
        match = _NAME.match(self.text, place)
        if match and match[0] in self._names:
            return self._names[match[0]], match.end()
        raise LiteralError(f"{self._excerpt(place)} is no value: strings must be quoted", place)

    def _number(self, digits: str, place: int) -> int | float:
        try:
            if digits.lstrip("+-").isdigit():
                if len(digits.lstrip("+-")) > 1 and digits.lstrip("+-")[0] == "0":
                    raise LiteralError(f"the number {digits[:40]} begins with 0", place)
                return int(digits)
            number = int(digits, 16) if "x" in digits.lower() else float(digits)
        except LiteralError:
            raise
        except ValueError:  # beyond the interpreter's limit on digits
            raise LiteralError("a number has too many digits", place) from None
        if number in (float("inf"), float("-inf")):
            raise LiteralError(f"the number {digits[:40]} is too large", place)
        return number

    def _list(self, place: int, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        place = self.skip_space(place + 1)
        while not self.text.startswith("]", place):
            value, place = self.value(place, depth + 1)
            values.append(value)
            place = self._separator(place, "]")
        return values, place + 1

    def _dict(self, place: int, depth: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        place = self.skip_space(place + 1)
        while not self.text.startswith("}", place):
            begin = place
            key, place = self.value(place, depth + 1)
            if not isinstance(key, str):
                raise LiteralError("the key of an object must be a string", begin)
            if key in values:
                raise LiteralError(f"the key {key!r} is given twice", begin)
            place = self.skip_space(place)
            if not self.text.startswith(":", place):
                raise LiteralError(f"{self._excerpt(place)} stands where : must", place)
            values[key], place = self.value(self.skip_space(place + 1), depth + 1)
            place = self._separator(place, "}")
        return values, place + 1

    def _separator(self, place: int, closer: str) -> int:
        """Skip a comma; returns the place of what follows, which without a comma must be the closer."""
        place = self.skip_space(place)
        if self.text.startswith(",", place):
            return self.skip_space(place + 1)
        if not self.text.startswith(closer, place):
            raise LiteralError(f"{self._excerpt(place)} stands where , or {closer} must", place)
        return place

    def _string(self, place: int, quote: str) -> tuple[str, int]:
        begin = end = place + len(quote)
        while True:
            end = self.text.find(quote, end)
            if end < 0:
                raise LiteralError("a string is never closed", place)
            if not _escaped(self.text, begin, end):
                break
            end += 1
        body = self.text[begin:end]
        if len(quote) == 1 and not self._line_breaks and "\n" in body.replace("\\\n", ""):
            raise LiteralError("a string holds a line break, which must be written \\n", place)
        if "\\" in body:
            body = self._unescape(body, place)
        return body, end + len(quote)

    def _unescape(self, body: str, place: int) -> str:
        def character(match: re.Match[str]) -> str:
            pair, octal, two, four, eight, name, other = match.groups()
            if pair and self._json:
                return json.loads(f'"{match[0]}"')  # type: ignore[no-any-return]
            if octal:
                return chr(int(octal, 8))
            if name:
                try:
                    return unicodedata.lookup(name)
                except KeyError:
                    raise LiteralError(f"the escape {match[0]} is no character", place) from None
            if other:
                if other == "/" and self._json:
                    return "/"
                # Python keeps a backslash it does not know.
                return _SIMPLE.get(other, other if other in "\\'\"" else f"\\{other}")
            code = int(two or four or eight or "110000", 16)
            if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                raise LiteralError(f"the escape {match[0]} is no character", place)
            return chr(code)

        return _ESCAPE.sub(character, body)

    def _excerpt(self, place: int) -> str:
        return repr(self.text[place : place + 30])


def _escaped(text: str, begin: int, place: int) -> bool:
    """Whether the character at `place` has an odd number of backslashes before it, none before `begin`."""
    back = place
    while back > begin and text[back - 1] == "\\":
        back -= 1
    return (place - back) % 2 == 1

"""Values written as `{key:value, ...}` whose only quotes are a mark that stands on both sides of a string.

Owns `MarkedValueReader`. There are no escapes: a string ends at the next mark. Keys of the call's own object are bare;
keys of objects within are bare or marked. Nesting is bounded; in one pass, so linear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.strict_json import JSONRead, read_all
from strands_sglang.tool_parsers.result import ToolParseStatus

_MAX_DEPTH = 200
_BARE_KEY = re.compile(r"[^\s:{}\[\],<>\"'|]+")
_BARE_VALUE = re.compile(r"[^\s:{}\[\],<>\"'|]+")


class MarkedValueError(ValueError):
    """What stands at `place` is no value.

    Attributes:
        place: Where reading stopped.
        status: What kind of error it is.
    """

    def __init__(self, reason: str, place: int, status: ToolParseStatus = ToolParseStatus.MALFORMED) -> None:
        """Create the error."""
        super().__init__(reason)
        self.place = place
        self.status = status


class MarkedValueReader:
    """Reads such values out of one turn."""

    def __init__(self, source: Source, mark: str, names: Mapping[str, Any]) -> None:
        """Create a reader.

        Args:
            source: The turn.
            mark: What stands on both sides of a string.
            names: The names that are values, such as `true`.
        """
        self._source = source
        self._mark = mark
        self._names = names
        self.twice: str | None = None

    def members(self, place: int, depth: int = 0) -> tuple[dict[str, Any], int]:
        """Read members up to the closing brace; returns them and the place behind it."""
        source = self._source
        values: dict[str, Any] = {}
        place = source.skip_space(place)
        while not source.text.startswith("}", place):
            if values:
                place = self._comma(place, "}")
            key, place = self._key(place)
            if not source.text.startswith(":", place):
                raise MarkedValueError(f"{source.excerpt(place)} stands where : must follow the key {key!r}", place)
            if key in values:
                self.twice = self.twice or key
            values[key], place = self.value(source.skip_space(place + 1), depth + 1)
            place = source.skip_space(place)
        return values, place + 1

    def value(self, place: int, depth: int) -> tuple[Any, int]:
        """Read one value; returns it and the place behind it."""
        source = self._source
        if depth > _MAX_DEPTH:
            raise MarkedValueError("the value is nested too deeply", place)
        if source.at(self._mark, place):
            return self._string(place)
        if source.text.startswith("{", place):
            return self.members(place + 1, depth)
        if source.text.startswith("[", place):
            return self._list(place + 1, depth)
        match = _BARE_VALUE.match(source.text, place)
        if match and match[0] in self._names:
            return self._names[match[0]], match.end()
        read = read_all(match[0]) if match else JSONRead(None, -1, ToolParseStatus.INVALID_JSON)
        if match is None or read.status is not ToolParseStatus.OK:
            excerpt = source.excerpt(place)
            raise MarkedValueError(f"{excerpt} is no value: a string must stand between {self._mark}", place)
        return read.value, match.end()

    def _key(self, place: int) -> tuple[str, int]:
        if self._source.at(self._mark, place):
            return self._string(place)
        match = _BARE_KEY.match(self._source.text, place)
        if not match:
            raise MarkedValueError(f"{self._source.excerpt(place)} stands where a key must", place)
        return match[0], match.end()

    def _string(self, place: int) -> tuple[str, int]:
        begin = place + len(self._mark)
        end = self._source.find(self._mark, begin)
        if end < 0:
            raise MarkedValueError("a string is never closed", place)
        return self._source.text[begin:end], end + len(self._mark)

    def _list(self, place: int, depth: int) -> tuple[list[Any], int]:
        source = self._source
        values: list[Any] = []
        place = source.skip_space(place)
        while not source.text.startswith("]", place):
            if values:
                place = self._comma(place, "]")
            value, place = self.value(place, depth + 1)
            values.append(value)
            place = source.skip_space(place)
        return values, place + 1

    def _comma(self, place: int, closer: str) -> int:
        if not self._source.text.startswith(",", place):
            reason = f"{self._source.excerpt(place)} stands where , or {closer} must"
            raise MarkedValueError(reason, place)
        return self._source.skip_space(place + 1)

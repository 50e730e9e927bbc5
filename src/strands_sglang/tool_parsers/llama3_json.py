"""The JSON format of Llama 3.1, 3.2 and 3.3, and Llama 4's JSON prompt.

    {"name": "get_weather", "parameters": {"city": "Paris"}}

The whole answer is one object, with or without `<|python_tag|>` before it; an answer has one call. Without the tag, an
object is a call only where the answer begins with it and it has both a name and arguments: JSON that merely has a
`name` is content. What else stands behind the tag (Python code, built-in tools) is an attempt in error.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.format import FormatParser, guessed_name
from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.json_list import broken_json
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import ToolParseStatus

_TAG = "<|python_tag|>"
_OPENS = re.compile(r'\{[ \t\r\n]*"')
_OPENS_NAME = re.compile(r'\{[ \t\r\n]*"name"[ \t\r\n]*:')
_TURN_ENDS = ("<|eom_id|>", "<|eot_id|>", "<|eot|>")


class Llama3JSONToolParser(FormatParser):
    """Reads the JSON format of Llama 3."""

    delimiters = (_TAG,)
    before_call = ""
    shape = JSONShape(arguments="parameters", also={"type": "function"})

    def find_call(self, source: Source, start: int) -> int:
        """Return where the answer's object or the next tag stands."""
        begin = source.skip_space(start)
        return begin if self._is_call(source, begin) else source.find(_TAG, start)

    def _is_call(self, source: Source, place: int) -> bool:
        if not _OPENS.match(source.text, place):
            return False
        read = source.json.read(place)
        if read.end < 0:
            return _OPENS_NAME.match(source.text, place) is not None
        if read.status is not ToolParseStatus.OK:
            return _OPENS_NAME.match(source.text, place) is not None
        value = read.value
        return isinstance(value, dict) and "name" in value and ("parameters" in value or "arguments" in value)

    def read_call(self, source: Source, start: int) -> Block:
        """Read the object, which must be the rest of the answer."""
        attempt = self._read(source, start)
        return Block((attempt,), attempt.end)

    def _read(self, source: Source, start: int) -> Attempt:
        place = source.skip_space(start + len(_TAG)) if source.at(_TAG, start) else start
        if place == source.end:
            return Attempt(start, place, ToolParseStatus.UNCLOSED, reason=f"{_TAG} is not followed by a call")
        read = source.json.read(place)
        if read.end < 0:
            return broken_json(source, start, read.status, read.reason, guessed_name(source, place))
        outcome = read_object(read, self.shape)
        after = source.skip_space(read.end)
        if after < source.end and not any(source.at(mark, after) for mark in _TURN_ENDS):
            reason = f"{source.excerpt(after)} stands behind the call, which must be the whole answer"
            return Attempt(start, source.end, ToolParseStatus.MALFORMED, outcome.name, reason=reason)
        return Attempt(start, read.end, outcome.status, outcome.name, outcome.input, outcome.reason)

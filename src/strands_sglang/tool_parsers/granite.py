"""The formats of Granite 3.0 to 3.3 (`granite`) and Granite 20B function calling (`granite_20b_fc`).

    <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]
    <function_call> {"name": "get_weather", "arguments": {"city": "Paris"}}

Neither has a closer: the JSON value ends the call, and text behind it is content. Granite 3.1 writes `<tool_call>`
before the list. Granite 4 uses `hermes`.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_list import JSONListParser, UnclosedJSONParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Block

_PLAIN = "<tool_call>"


class GraniteToolParser(JSONListParser):
    """Reads the format of Granite 3."""

    opener = "<|tool_call|>"
    delimiters = (_PLAIN,)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next list, with either opener, begins."""
        return source.find_first((self.opener, _PLAIN), start)[0]

    def read_call(self, source: Source, start: int) -> Block:
        """Read one list behind either opener."""
        return self.read_behind(source, start, self.opener if source.at(self.opener, start) else _PLAIN)


class Granite20BToolParser(UnclosedJSONParser):
    """Reads the format of Granite 20B function calling."""

    opener = "<function_call>"

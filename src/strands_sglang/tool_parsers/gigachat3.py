"""The GigaChat 3 format.

    content<|message_sep|>

    function call<|role_sep|>
    {"name": "get_weather", "arguments": {"city": "Paris"}}

GigaChat 3.1 writes `<|function_call|>{...}` instead. An answer has one call, which the JSON value ends. GigaChat 3.5
has its own format, `gigachat35`.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_list import UnclosedJSONParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Block, Frame

_MARK = "<|function_call|>"


class GigaChat3ToolParser(UnclosedJSONParser):
    """Reads the GigaChat 3 format."""

    opener = "function call<|role_sep|>"
    delimiters = (_MARK, "<|role_sep|>")
    anchored = {opener: "<|role_sep|>"}  # noqa: RUF012
    frames = (Frame(mark="<|message_sep|>", after="\n\n"),)
    before_call = ""

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next call, with either opener, begins."""
        return source.find_first((self.opener, _MARK), start)[0]

    def read_call(self, source: Source, start: int) -> Block:
        """Read one call behind either opener."""
        return self.read_behind(source, start, _MARK if source.at(_MARK, start) else self.opener)

"""The LFM2 format.

    <|tool_call_start|>[get_weather(city='Paris'), get_time(zone='UTC')]<|tool_call_end|>

The list may also be JSON, `[{"name": ..., "arguments": {...}}]`. Values are literals of Python or JSON. The template
quotes strings without escaping them: line breaks in a string are read, but one that holds an apostrophe or a backslash
does not come back.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.json_list import read_list
from strands_sglang.tool_parsers.reading.python_calls import PythonCallsParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Block, Reasoning

_JSON_LIST = re.compile(r"\[[ \t\r\n]*\{")


class LFM2ToolParser(PythonCallsParser):
    """Reads the LFM2 format."""

    opener = "<|tool_call_start|>"
    closer = "<|tool_call_end|>"
    list_brackets = "[]"
    separator = ","
    line_breaks = True
    reasoning = (Reasoning(after_open="", before_close="", after_close=""),)
    before_call = ""

    def read_call(self, source: Source, start: int) -> Block:
        """Read one list, of Python calls or of JSON objects."""
        place = source.skip_space(start + len(self.opener))
        if not _JSON_LIST.match(source.text, place):
            return super().read_call(source, start)
        shape = JSONShape()
        return read_list(
            source, start, place, lambda read: read_object(read, shape), opener=self.opener, closer=self.closer
        )

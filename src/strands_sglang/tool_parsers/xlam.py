"""The xLAM format: the answer is a JSON list of calls.

    [{"name": "get_weather", "arguments": {"city": "Paris"}}]

The list is looked for only where the answer begins, and must be all of it; a list of other objects is content.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.format import FormatParser
from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.json_list import read_list
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Block
from strands_sglang.tool_parsers.result import ToolParseStatus

_OPENS = re.compile(r'\[[ \t\r\n]*\{[ \t\r\n]*"(?:name|arguments)"[ \t\r\n]*:')


class XLAMToolParser(FormatParser):
    """Reads the xLAM format."""

    before_call = ""
    shape = JSONShape()

    def find_call(self, source: Source, start: int) -> int:
        """Return where the answer begins if it begins with a list of calls."""
        begin = source.skip_space(start)
        return begin if _OPENS.match(source.text, begin) else -1

    def read_call(self, source: Source, start: int) -> Block:
        """Read the list, which must be the rest of the answer."""
        block = read_list(source, start, start, lambda read: read_object(read, self.shape), opener="", closer="")
        after = source.skip_space(block.end)
        if after == source.end:
            return block
        reason = f"{source.excerpt(after)} stands behind the list of calls, which must be the whole answer"
        last = block.attempts[-1]
        if last.status is ToolParseStatus.OK:
            last = last._replace(status=ToolParseStatus.MALFORMED, reason=reason)
        return Block([*block.attempts[:-1], last], block.end)

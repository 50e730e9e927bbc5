"""The Phi-4-mini format.

    functools[{"name": "get_weather", "arguments": {"city": "Paris"}}]

It is plain text without a closer: the list ends the call.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_list import JSONListParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Block


class Phi4MiniToolParser(JSONListParser):
    """Reads the Phi-4-mini format."""

    opener = "functools["

    def read_call(self, source: Source, start: int) -> Block:
        """Read one list, whose bracket belongs to the opener."""
        return self.read_behind(source, start, self.opener[:-1])

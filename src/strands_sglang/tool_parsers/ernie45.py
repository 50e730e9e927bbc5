"""The ERNIE 4.5 format: Hermes' calls, answers between `<response>` tags.

plan</think>

<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris"}}
</tool_call>
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.tagged_json import TaggedJSONParser
from strands_sglang.tool_parsers.reading.turn import Frame, Reasoning


class Ernie45ToolParser(TaggedJSONParser):
    """Reads the ERNIE 4.5 format."""

    reasoning = (Reasoning(after_close="\n\n\n"),)
    frames = (Frame(mark="<response>", after="\n"), Frame(mark="</response>", before="\n", after="\n"))

"""The MiniMax M1 format.

    <tool_calls>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    {"name": "get_time", "arguments": {"zone": "UTC"}}
    </tool_calls>

One JSON object per line, and no list around them; each is an attempt of its own. M2 and M3 have other formats.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_list import JSONListParser


class MiniMaxM1ToolParser(JSONListParser):
    """Reads the MiniMax M1 format."""

    opener = "<tool_calls>"
    closer = "</tool_calls>"
    one_per_line = True

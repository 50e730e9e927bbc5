"""Formats that write a JSON list of calls between two tags: Jamba and Hunyuan-A13B (and Apriel), Nemotron Nano v2.

<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>
<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</TOOLCALL>
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_list import JSONListParser


class ToolCallsListParser(JSONListParser):
    """Reads the format of Jamba and Hunyuan-A13B."""

    opener = "<tool_calls>"
    closer = "</tool_calls>"


class NemotronV2ToolParser(JSONListParser):
    """Reads the format of Nemotron Nano v2."""

    opener = "<TOOLCALL>"
    closer = "</TOOLCALL>"

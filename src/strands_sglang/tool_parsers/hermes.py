"""The Hermes format: Qwen2.5, Qwen3 (not Coder), QwQ, Hermes 2 Pro, 3 and 4.

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    </tool_call>

Several calls are several blocks. A list of calls in one block is an error: the format has one call per block.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.tagged_json import TaggedJSONParser


class HermesToolParser(TaggedJSONParser):
    """Reads the Hermes format."""

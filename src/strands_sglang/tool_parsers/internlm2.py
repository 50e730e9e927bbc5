"""The format of InternLM 2.5 and 3, and Intern-S1.

    <|action_start|><|plugin|>
    {"name": "get_weather", "parameters": {"city": "Paris"}}
    <|action_end|>

Blocks with `<|interpreter|>` hold code: they are no calls of a tool and are reported in error.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_call import JSONShape
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tagged_json import TaggedJSONParser
from strands_sglang.tool_parsers.reading.turn import Attempt
from strands_sglang.tool_parsers.result import ToolParseStatus

_PLUGIN = "<|plugin|>"


class InternLM2ToolParser(TaggedJSONParser):
    """Reads the InternLM format."""

    opener = "<|action_start|>"
    closer = "<|action_end|>"
    delimiters = (_PLUGIN,)
    shape = JSONShape(arguments="parameters")

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the plugin mark and the object."""
        if not source.at(_PLUGIN, body):
            reason = f"{source.excerpt(body)} stands where {_PLUGIN} must"
            return self.brackets.broken(source, start, body, ToolParseStatus.MALFORMED, reason)
        return super().read_body(source, start, source.skip_space(body + len(_PLUGIN)))

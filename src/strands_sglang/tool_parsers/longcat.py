"""The formats of LongCat-Flash (`longcat`) and LongCat 2 (`longcat_v2`).

    <longcat_tool_call>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    </longcat_tool_call>

LongCat 2 writes GLM's form with tags of its own, `<longcat_arg_key>` and `<longcat_arg_value>`.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.glm import GLMToolParser
from strands_sglang.tool_parsers.reading.tagged_json import TaggedJSONParser
from strands_sglang.tool_parsers.reading.turn import Reasoning

_REASONING = Reasoning(open="<longcat_think>", close="</longcat_think>", before_open="\n", after_close="\n")


class LongCatToolParser(TaggedJSONParser):
    """Reads the LongCat-Flash format."""

    opener = "<longcat_tool_call>"
    closer = "</longcat_tool_call>"
    reasoning = (_REASONING,)


class LongCatV2ToolParser(GLMToolParser):
    """Reads the LongCat 2 format."""

    opener = "<longcat_tool_call>"
    closer = "</longcat_tool_call>"
    key_tags = ("<longcat_arg_key>", "</longcat_arg_key>")
    value_tag = "<longcat_arg_value>"
    value_closer = "</longcat_arg_value>"
    reasoning = (_REASONING,)

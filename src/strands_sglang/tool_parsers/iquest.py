"""The IQuest format: GLM's, between tags of its own.

<iquest_tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></iquest_tool_call>
"""

from __future__ import annotations

from strands_sglang.tool_parsers.glm import GLMToolParser


class IQuestToolParser(GLMToolParser):
    """Reads the IQuest format."""

    opener = "<iquest_tool_call>"
    closer = "</iquest_tool_call>"

"""The dots format: MiniMax M2's, in a group of its own.

<dots_function_call>
<invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>
</dots_function_call>
"""

from __future__ import annotations

from strands_sglang.tool_parsers.minimax_m2 import MiniMaxM2ToolParser


class DotsToolParser(MiniMaxM2ToolParser):
    """Reads the dots format."""

    group_opener = "<dots_function_call>"
    group_closer = "</dots_function_call>"

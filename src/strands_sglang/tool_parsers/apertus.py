"""The Apertus format.

    <|tools_prefix|>[{"get_weather": {"city": "Paris"}}]<|tools_suffix|>

Each element has one member: the tool's name with its arguments. Reasoning stands between `<|inner_prefix|>` and
`<|inner_suffix|>`.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_call import CallOutcome, arguments_of
from strands_sglang.tool_parsers.reading.json_list import JSONListParser
from strands_sglang.tool_parsers.reading.strict_json import JSONRead
from strands_sglang.tool_parsers.reading.turn import Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus


class ApertusToolParser(JSONListParser):
    """Reads the Apertus format."""

    opener = "<|tools_prefix|>"
    closer = "<|tools_suffix|>"
    reasoning = (
        Reasoning(open="<|inner_prefix|>", close="<|inner_suffix|>", after_open="", before_close="", after_close=""),
    )
    before_call = ""

    def element(self, read: JSONRead) -> CallOutcome:
        """Return the call whose name is the only key."""
        if read.status is not ToolParseStatus.OK:
            return CallOutcome(status=read.status, reason=read.reason)
        if not isinstance(read.value, dict) or len(read.value) != 1:
            return CallOutcome(status=ToolParseStatus.MALFORMED, reason='each call must be {"NAME": {arguments}}')
        name, arguments = next(iter(read.value.items()))
        if not name:
            return CallOutcome(status=ToolParseStatus.MISSING_NAME, reason="the call gives no tool name")
        return arguments_of(name, JSONRead(arguments, read.end))

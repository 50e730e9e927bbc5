"""The PLaMo 3 format. Of its marks only `<|plamo:begin_`, `<|plamo:end_` and `:plamo|>` are tokens.

<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>
<|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>
<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Paris"}
<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.format import GroupedParser
from strands_sglang.tool_parsers.reading.json_call import CallOutcome, arguments_of
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_BEGIN, _END, _TAIL = "<|plamo:begin_", "<|plamo:end_", ":plamo|>"
_JSON = "<|plamo:constrain|>json<|plamo:msg|>"


def _mark(side: str, what: str) -> str:
    return f"{side}{what}{_TAIL}"


_NAME = (_mark(_BEGIN, "tool_name"), _mark(_END, "tool_name"))
_ARGUMENTS = (_mark(_BEGIN, "tool_arguments"), _mark(_END, "tool_arguments"))
_THINK = (_mark(_BEGIN, "think"), _mark(_END, "think"))


class PLaMo3ToolParser(GroupedParser):
    """Reads the PLaMo 3 format."""

    group_opener = _mark(_BEGIN, "tool_requests")
    group_closer = _mark(_END, "tool_requests")
    call_opener = _mark(_BEGIN, "tool_request")
    call_closer = _mark(_END, "tool_request")
    anchored = dict.fromkeys((group_opener, call_opener, _NAME[0], _ARGUMENTS[0], _THINK[0]), _BEGIN) | dict.fromkeys(
        (group_closer, call_closer, _NAME[1], _ARGUMENTS[1], _THINK[1]), _END
    )
    reasoning = (Reasoning(open=_THINK[0], close=_THINK[1]),)

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read the name, the arguments and the end."""
        place = source.skip_space(start + len(self.call_opener))
        ends = source.find(_NAME[1], place)
        if not source.at(_NAME[0], place) or ends < 0:
            return self._wrong(source, start, place, _NAME[0])
        name = source.text[place + len(_NAME[0]) : ends].strip(" \t\r\n")
        place = source.skip_space(ends + len(_NAME[1]))
        if not name:
            status, reason = ToolParseStatus.MISSING_NAME, "the call gives no tool name"
            return self.brackets.broken(source, start, place, status, reason)
        if not source.at(_ARGUMENTS[0], place):
            return self._wrong(source, start, place, _ARGUMENTS[0], name)
        place = source.skip_space(place + len(_ARGUMENTS[0]))
        if not source.text.startswith(_JSON, place):
            return self._wrong(source, start, place, _JSON, name)
        read = source.json.read(source.skip_space(place + len(_JSON)))
        if read.end < 0:
            return self.brackets.broken(source, start, place, read.status, read.reason, name)
        after = source.skip_space(read.end)
        if not source.at(_ARGUMENTS[1], after):
            return self._wrong(source, start, after, _ARGUMENTS[1], name)
        outcome: CallOutcome = arguments_of(name, read)
        return self.brackets.close(source, start, after + len(_ARGUMENTS[1]), outcome)

    def _wrong(self, source: Source, start: int, place: int, wanted: str, name: str | None = None) -> Attempt:
        reason = f"{source.excerpt(place)} stands where {wanted} must"
        return self.brackets.broken(source, start, place, ToolParseStatus.MALFORMED, reason, name)

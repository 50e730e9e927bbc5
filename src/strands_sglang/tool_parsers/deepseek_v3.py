"""The formats of DeepSeek V3 and R1-0528 (`deepseek_v3`), and of V3.1 and V3.2-Exp (`deepseek_v31`).

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
    ```json
    {"city": "Paris"}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>
    {"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>

One call in error leaves its siblings as they are.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.format import GroupedParser
from strands_sglang.tool_parsers.reading.json_call import arguments_of
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_SEPARATOR = "<｜tool▁sep｜>"
_FENCE = re.compile(r"[ \t\r\n]*```")


class DeepSeekV31ToolParser(GroupedParser):
    """Reads the format of DeepSeek V3.1."""

    group_opener = "<｜tool▁calls▁begin｜>"
    group_closer = "<｜tool▁calls▁end｜>"
    call_opener = "<｜tool▁call▁begin｜>"
    call_closer = "<｜tool▁call▁end｜>"
    delimiters = (_SEPARATOR,)
    reasoning = (Reasoning(after_close="\n\n"),)
    before_call = "\n"
    before_arguments = re.compile(r"([^\s<>]*)<｜tool▁sep｜>[ \t\r\n]*")
    shape = f"NAME{_SEPARATOR}JSON"
    fenced = False

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read the name, the arguments and the closer."""
        body = source.skip_space(start + len(self.call_opener))
        match = self.before_arguments.match(source.text, body)
        if not match or not source.at(_SEPARATOR, source.text.index(_SEPARATOR, body)):
            reason = f"{source.excerpt(body)} stands where {self.shape} must"
            return self.brackets.broken(source, start, body, ToolParseStatus.MALFORMED, reason)
        name = match[1]
        if not name:
            return self.brackets.broken(
                source, start, body, ToolParseStatus.MISSING_NAME, "the call gives no tool name"
            )
        read = source.json.read(match.end())
        if read.end < 0:
            return self.brackets.broken(source, start, body, read.status, read.reason, name)
        end = read.end
        if self.fenced:
            fence = _FENCE.match(source.text, end)
            if not fence:
                reason = f"{source.excerpt(end)} stands where ``` must"
                return self.brackets.broken(source, start, end, ToolParseStatus.MALFORMED, reason, name)
            end = fence.end()
        return self.brackets.close(source, start, end, arguments_of(name, read))


class DeepSeekV3ToolParser(DeepSeekV31ToolParser):
    """Reads the format of DeepSeek V3 and R1."""

    before_arguments = re.compile(r"function<｜tool▁sep｜>([^\s<>]*)[ \t\r]*\n[ \t\r\n]*```json[ \t\r]*\n[ \t\r\n]*")
    shape = f"function{_SEPARATOR}NAME and a ```json block"
    fenced = True

"""The Kimi K2 format: K2, K2 Thinking, K2.5 to 2.7.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
    {"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>

The id is `functions.NAME:N`, N counting over the conversation. Results refer to it, so it is the call's id too; an id
of any other shape is an error, and no name is guessed from it.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.format import GroupedParser
from strands_sglang.tool_parsers.reading.json_call import arguments_of
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_ARGUMENTS = "<|tool_call_argument_begin|>"
_ID = re.compile(r"functions\.([^\s:]+):([0-9]+)")


class KimiK2ToolParser(GroupedParser):
    """Reads the Kimi K2 format."""

    group_opener = "<|tool_calls_section_begin|>"
    group_closer = "<|tool_calls_section_end|>"
    call_opener = "<|tool_call_begin|>"
    call_closer = "<|tool_call_end|>"
    delimiters = (_ARGUMENTS,)
    reasoning = (Reasoning(after_open="", before_close="", after_close=""),)
    before_call = ""
    keeps_native_id = True

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read the id, the arguments and the closer."""
        body = start + len(self.call_opener)
        at, which = source.find_first((_ARGUMENTS, self.call_closer, self.call_opener), body)
        if which != _ARGUMENTS:
            reason = f"the call has no {_ARGUMENTS}"
            return self.brackets.broken(source, start, body, ToolParseStatus.MALFORMED, reason)
        native_id = source.text[body:at].strip(" \t\r\n")
        shape = _ID.fullmatch(native_id)
        if not shape:
            reason = f"the id {native_id[:60]!r} must be functions.NAME:N"
            return self.brackets.broken(source, start, at, ToolParseStatus.MALFORMED, reason, native_id[:60] or None)
        name = shape[1]
        read = source.json.read(source.skip_space(at + len(_ARGUMENTS)))
        if read.end < 0:
            return self.brackets.broken(source, start, at, read.status, read.reason, name)
        outcome = arguments_of(name, read, native_id=native_id)
        return self.brackets.close(source, start, read.end, outcome)

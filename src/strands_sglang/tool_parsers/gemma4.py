"""The formats of Gemma 4 (`gemma4`) and FunctionGemma (`functiongemma`).

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>
    <start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>

The mark around strings is their only quoting; there are no escapes. What stands without it is a number, `true`,
`false`, `null`, an object or a list. FunctionGemma's template prints None for null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from strands_sglang.tool_parsers.reading.format import BracketedParser
from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.marked_values import MarkedValueError, MarkedValueReader
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_HEAD = re.compile(r"call:([^\s{}<>\[\],\"'|]*)\{")


class Gemma4ToolParser(BracketedParser):
    """Reads the Gemma 4 format."""

    opener = "<|tool_call>"
    closer = "<tool_call|>"
    mark = '<|"|>'
    names: Mapping[str, Any] = {"null": None}
    delimiters = (mark,)
    reasoning = (Reasoning(open="<|channel>", close="<channel|>", after_open="thought\n", after_close=""),)
    before_call = ""

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read `call:NAME{...}`."""
        head = _HEAD.match(source.text, body)
        if not head or not head[1]:
            status = ToolParseStatus.MISSING_NAME if head else ToolParseStatus.MALFORMED
            reason = f"{source.excerpt(body)} stands where call:NAME{{key:value}} must"
            return self.brackets.broken(source, start, body, status, reason)
        reader = MarkedValueReader(source, self.mark, self.names)
        try:
            values, end = reader.members(head.end())
        except MarkedValueError as error:
            return self.brackets.broken(source, start, error.place, error.status, str(error), head[1])
        outcome = CallOutcome(name=head[1], input=values)
        if reader.twice is not None:
            reason = f"the key {reader.twice!r} is given twice"
            outcome = CallOutcome(status=ToolParseStatus.DUPLICATE_KEY, name=head[1], reason=reason)
        return self.brackets.close(source, start, end, outcome)


class FunctionGemmaToolParser(Gemma4ToolParser):
    """Reads the FunctionGemma format."""

    opener = "<start_function_call>"
    closer = "<end_function_call>"
    mark = "<escape>"
    names: Mapping[str, Any] = {"None": None, "null": None}
    delimiters = (mark,)
    reasoning = (Reasoning(),)

"""The DSML formats of DeepSeek V3.2, V4 and V4.1, and GigaChat 3.5's GCML.

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_weather">
    <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

The tag says whether a value is a string: then it is verbatim, else it must be JSON. V4 calls the group `tool_calls`;
V4.1 calls it `calls` and puts a space behind the mark. Of a tag only the mark in bars is one token.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.schema import TypedValue
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.strict_json import read_all
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser
from strands_sglang.tool_parsers.reading.turn import Reasoning

_NAME = re.compile(r' name="([^"<>\n]*)">')
_PARAMETER = re.compile(r' name="([^"<>\n]+)" string="(true|false)">')


class DeepSeekV32ToolParser(GroupedValuesParser):
    """Reads the DSML of DeepSeek V3.2."""

    mark = "｜DSML｜"
    group = "function_calls"
    reasoning = (Reasoning(after_open="", before_close="", after_close=""),)
    before_call = "\n\n"
    lone_calls = False

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser; see `FormatParser`."""
        space = " " if self.group.startswith(" ") else ""
        self.group_opener, self.group_closer = f"<{self.mark}{self.group}>", f"</{self.mark}{self.group}>"
        self.call_opener, self.call_closer = f"<{self.mark}{space}invoke", f"</{self.mark}{space}invoke>"
        self.value_opener, self.value_closer = f"<{self.mark}{space}parameter", f"</{self.mark}{space}parameter>"
        self.value_openers = (self.value_opener,)
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        tags = (*self.delimiters, self.value_opener, self.value_closer)
        self.delimiters = (self.mark,)
        self.anchored = dict.fromkeys(tags, self.mark)

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `invoke name="NAME"`."""
        match = _NAME.match(source.text, place + len(self.call_opener))
        if match:
            return Head(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where {self.call_opener} name="NAME"> must')

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `parameter name="KEY" string="true|false"`."""
        match = _PARAMETER.match(source.text, place + len(self.value_opener))
        if match and source.at(self.value_opener, place):
            return Header(match[1], match.end(), match[2])
        expected = f'{self.value_opener} name="KEY" string="true|false"> or {self.call_closer}'
        return Wrong(f"{source.excerpt(place)} stands where {expected} must")

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the text of a string, or the value of anything else."""
        if header.flag == "true":
            return TypedValue(text)
        read = read_all(text)
        return TypedValue(read.value, read.status, f'has string="false", but is {read.reason}')


class DeepSeekV4ToolParser(DeepSeekV32ToolParser):
    """Reads the DSML of DeepSeek V4."""

    group = "tool_calls"


class DeepSeekV41ToolParser(DeepSeekV32ToolParser):
    """Reads the DSML of DeepSeek V4.1."""

    group = " calls"


class GigaChat35ToolParser(DeepSeekV32ToolParser):
    """Reads GigaChat 3.5's GCML."""

    mark = "｜GCML｜"
    group = "tool_calls"

"""The MiniMax M2 format: M2, M2.1, M2.5, M2.7.

    <minimax:tool_call>
    <invoke name="get_weather">
    <parameter name="city">Paris</parameter>
    </invoke>
    </minimax:tool_call>

Several calls stand in one group. Values are verbatim and typed by the schema. Only the group's tags are tokens, so a
value that holds the text of the inner tags can be ambiguous.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser

_INVOKE = re.compile(r'<invoke name="([^"<>\n]*)">')
_PARAMETER = re.compile(r'<parameter name="([^"<>\n]+)">')


class MiniMaxM2ToolParser(GroupedValuesParser):
    """Reads the MiniMax M2 format."""

    group_opener = "<minimax:tool_call>"
    group_closer = "</minimax:tool_call>"
    call_opener = "<invoke name="
    call_closer = "</invoke>"
    lone_calls = False
    value_closer = "</parameter>"
    value_openers = ("<parameter name=",)

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `<invoke name="NAME">`."""
        match = _INVOKE.match(source.text, place)
        if match:
            return Head(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where <invoke name="NAME"> must')

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<parameter name="KEY">`."""
        match = _PARAMETER.match(source.text, place)
        if match:
            return Header(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where <parameter name="KEY"> or {self.call_closer} must')

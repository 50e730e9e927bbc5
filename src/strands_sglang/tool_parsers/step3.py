"""The Step3 format.

    <｜tool_calls_begin｜>
    <｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">
    <steptml:parameter name="city">Paris</steptml:parameter></steptml:invoke><｜tool_call_end｜>
    <｜tool_calls_end｜>

Unlike DeepSeek's, these tokens have plain underscores. Values are verbatim and typed by the schema; the template prints
what is not a string as Python does, so Python literals are read beside JSON where no string is declared. Step 3.5 and
3.7 use `qwen_xml`.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser

_SEPARATOR = "<｜tool_sep｜>"
_INVOKE = re.compile(r'[ \t\r\n]*function(<｜tool_sep｜>)[ \t\r\n]*<steptml:invoke name="([^"<>\n]*)">')
_PARAMETER = re.compile(r'<steptml:parameter name="([^"<>\n]+)">')


class Step3ToolParser(GroupedValuesParser):
    """Reads the Step3 format."""

    group_opener = "<｜tool_calls_begin｜>"
    group_closer = "<｜tool_calls_end｜>"
    call_opener = "<｜tool_call_begin｜>"
    call_closer = "<｜tool_call_end｜>"
    delimiters = (_SEPARATOR,)
    end_tag = "</steptml:invoke>"
    value_closer = "</steptml:parameter>"
    value_openers = ("<steptml:parameter name=",)
    spellings = "python"

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `function<｜tool_sep｜><steptml:invoke name="NAME">`."""
        match = _INVOKE.match(source.text, place + len(self.call_opener))
        if match and source.at(_SEPARATOR, match.start(1)):
            return Head(match[2], match.end())
        expected = f'function{_SEPARATOR}<steptml:invoke name="NAME">'
        return Wrong(f"{source.excerpt(place + len(self.call_opener))} stands where {expected} must")

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<steptml:parameter name="KEY">`."""
        match = _PARAMETER.match(source.text, place)
        if match:
            return Header(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where <steptml:parameter name="KEY"> or {self.end_tag} must')

"""The MiniCPM5 format.

    <function name="get_weather"><param name="city">Paris</param></function>

A value is plain, or stands in a CDATA section where it is a string that holds markup or line breaks; a plain string may
use XML's five entities. Values are typed by the schema; the template prints what is not a string as Python does, and
markup in it as it is.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.schema import TypedValue
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import TaggedValuesParser
from strands_sglang.tool_parsers.result import ToolParseStatus

_NAME = re.compile(r'"([^"<>\n]*)">')
_PARAM = re.compile(r'<param name="([^"<>\n]+)">(<!\[CDATA\[)?')
_ENTITY = re.compile("&(lt|gt|amp|quot|apos);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class MiniCPM5ToolParser(TaggedValuesParser):
    """Reads the MiniCPM5 format."""

    opener = "<function name="
    closer = "</function>"
    value_closer = "</param>"
    value_openers = ("<param name=",)
    spellings = "python"
    before_call = ""

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read the quoted name."""
        match = _NAME.match(source.text, place)
        if match:
            return Head(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where "NAME"> must')

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<param name="KEY">` and the beginning of a CDATA section."""
        match = _PARAM.match(source.text, place)
        if not match:
            return Wrong(f'{source.excerpt(place)} stands where <param name="KEY"> or {self.closer} must')
        if match[2]:
            return Header(match[1], match.end(), "cdata", "]]></param>")
        return Header(match[1], match.end())

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Read a value; in one that may be a string and stood in no CDATA section, entities stand for characters."""
        types = source.tools.declared_types(tool, header.key)
        if header.flag != "cdata" and (types is None or "string" in types):
            if "<" in text:
                return TypedValue(None, ToolParseStatus.MALFORMED, "holds markup, which must stand in a CDATA section")
            text = _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)
        return super().value(source, tool, header, text)

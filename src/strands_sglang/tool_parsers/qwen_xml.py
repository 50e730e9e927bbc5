"""The Qwen XML format: Qwen3-Coder, Qwen3.5 to 3.8, Nemotron 3, Step 3.5 and 3.7, Nanbeige.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

One newline on each side of a value is framing, all else in it is data; the form without newlines is read too.
Values are typed by the schema. Where string is not declared, `True`, `False` and `None` are read as well: the
templates of Qwen3-Coder and Qwen3.5 print them. One function per block: two in one block cannot be told from one
whose value contains the text of the other.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.schema import Spellings
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import TaggedValuesParser

_FUNCTION = re.compile(r"<function=([^<>\n]*)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")


class QwenXMLToolParser(TaggedValuesParser):
    """Reads the Qwen XML format."""

    before_call = "\n\n"
    end_tag = "</function>"
    value_closer = "</parameter>"
    value_openers = ("<parameter=",)
    newlines_framed = True
    spellings: Spellings = "names"

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `<function=NAME>`."""
        match = _FUNCTION.match(source.text, place)
        if match:
            return Head(match[1], match.end())
        return Wrong(f"{source.excerpt(place)} stands where <function=NAME> must")

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<parameter=KEY>`."""
        match = _PARAMETER.match(source.text, place)
        if match:
            return Header(match[1], match.end())
        return Wrong(f"{source.excerpt(place)} stands where <parameter=KEY> or {self.end_tag} and {self.closer} must")

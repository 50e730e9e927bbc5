"""The GLM format: GLM-4.5, 4.6, 4.7, 5, 5.1 to 5.3, Ling 3, Spark 2.5, and Poolside's Laguna.

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

GLM-4.7 and later leave the newlines out; both forms are read by both names. Names and keys are trimmed, values are
verbatim and typed by the schema. With ids every tag is a token (but for Laguna's inner ones), so a value may hold any
text.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import TaggedValuesParser
from strands_sglang.tool_parsers.reading.turn import Reasoning

_NAME = re.compile(r"""[^\s<>{}\[\]()"',;=]+""")
_SPACE = " \t\r\n"


def read_name(source: Source, place: int, end: int) -> str | Wrong:
    """Return the trimmed tool name between two places, "" where there is none, or what is wrong with it."""
    name = source.text[place:end].strip(_SPACE)
    if name and not _NAME.fullmatch(name):
        return Wrong(f"{source.excerpt(place)} is no tool name")
    return name


def read_key(source: Source, place: int, key_tags: tuple[str, str], value_tag: str) -> Header | Wrong:
    """Return the parameter whose key stands between `key_tags` at `place` and whose value follows `value_tag`."""
    opener, closer = key_tags
    if not source.at(opener, place):
        return Wrong(f"{source.excerpt(place)} stands where {opener} or the end of the call must")
    begin = place + len(opener)
    end = source.find(closer, begin)
    key = source.text[begin:end].strip(_SPACE) if end >= 0 else ""
    if not key or "<" in key or "\n" in key:
        return Wrong(f"{opener} is not followed by a key and {closer}")
    value = source.skip_space(end + len(closer))
    if not source.at(value_tag, value):
        return Wrong(f"the key {key!r} is not followed by {value_tag}")
    return Header(key, value + len(value_tag))


class GLMToolParser(TaggedValuesParser):
    """Reads the GLM format."""

    key_tags = ("<arg_key>", "</arg_key>")
    value_tag = "<arg_value>"
    value_closer = "</arg_value>"
    reasoning = (Reasoning(before_open="\n", after_close="\n"),)

    def __init__(
        self,
        *,
        tool_start_token: str | None = None,
        tool_end_token: str | None = None,
        think_start_token: str | None = None,
        think_end_token: str | None = None,
    ) -> None:
        """Create the parser; see `BracketedParser`."""
        self.value_openers = (self.key_tags[0], self.value_tag)
        self.delimiters = (*self.key_tags, self.value_tag, self.value_closer)
        super().__init__(
            tool_start_token=tool_start_token,
            tool_end_token=tool_end_token,
            think_start_token=think_start_token,
            think_end_token=think_end_token,
        )

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read the name before the first key or the closer."""
        at, _ = source.find_first((self.key_tags[0], self.closer), place)
        name = read_name(source, place, at if at >= 0 else source.end)
        return name if isinstance(name, Wrong) else Head(name, at if at >= 0 else source.end)

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read the key between its tags, and the tag before the value."""
        return read_key(source, place, self.key_tags, self.value_tag)

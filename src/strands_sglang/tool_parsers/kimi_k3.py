"""The Kimi K3 format. Of its tags `<|open|>`, `<|close|>` and `<|sep|>` are tokens, the rest is text.

    <|open|>response<|sep|>text<|close|>response<|sep|><|open|>tools<|sep|>
    <|open|>call tool="get_weather" index="1"<|sep|>
    <|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>

The type says what a value is: a string is verbatim, all else must be JSON of that type. Attributes escape only `&amp;`
and `&quot;`. The index is kept as the native id.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.schema import TypedValue, typed_value
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser
from strands_sglang.tool_parsers.reading.turn import Frame, Reasoning

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_CALL = re.compile(r'tool="([^"\n]*)" index="([0-9]+)"<\|sep\|>')
_ARGUMENT = re.compile(r'argument key="([^"\n]+)" type="(string|number|integer|boolean|array|object|null)"<\|sep\|>')


def _unescaped(attribute: str) -> str:
    return attribute.replace("&quot;", '"').replace("&amp;", "&")


class KimiK3ToolParser(GroupedValuesParser):
    """Reads the Kimi K3 format."""

    group_opener = f"{_OPEN}tools{_SEP}"
    group_closer = f"{_CLOSE}tools{_SEP}"
    call_opener = f"{_OPEN}call "
    call_closer = f"{_CLOSE}call{_SEP}"
    value_opener = f"{_OPEN}argument "
    value_closer = f"{_CLOSE}argument{_SEP}"
    value_openers = (value_opener,)
    reasoning = (
        Reasoning(
            open=f"{_OPEN}think{_SEP}",
            close=f"{_CLOSE}think{_SEP}",
            after_open="",
            before_close="",
            after_close="",
        ),
    )
    frames = (
        Frame(mark=f"{_OPEN}response{_SEP}"),
        Frame(mark=f"{_CLOSE}response{_SEP}"),
        Frame(mark=f"{_CLOSE}message{_SEP}"),
    )
    delimiters = (_SEP,)
    anchored = (
        dict.fromkeys((group_opener, call_opener, value_opener, f"{_OPEN}think{_SEP}", f"{_OPEN}response{_SEP}"), _OPEN)
        | dict.fromkeys((group_closer, call_closer, value_closer, f"{_CLOSE}think{_SEP}"), _CLOSE)
        | dict.fromkeys((f"{_CLOSE}response{_SEP}", f"{_CLOSE}message{_SEP}"), _CLOSE)
    )
    before_call = ""

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `tool="NAME" index="N"`."""
        match = _CALL.match(source.text, place + len(self.call_opener))
        if match:
            return Head(_unescaped(match[1]), match.end(), match[2])
        return Wrong(f'{source.excerpt(place)} stands where {self.call_opener}tool="NAME" index="N"{_SEP} must')

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `argument key="KEY" type="TYPE"`."""
        match = _ARGUMENT.match(source.text, place + len(_OPEN)) if source.at(self.value_opener, place) else None
        if match:
            return Header(_unescaped(match[1]), match.end(), match[2])
        expected = f'{self.value_opener}key="KEY" type="TYPE"{_SEP} or {self.call_closer}'
        return Wrong(f"{source.excerpt(place)} stands where {expected} must")

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the value that the text is in the type beside it."""
        return typed_value(text, frozenset([header.flag or "string"]))

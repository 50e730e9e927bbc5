"""The K2 Horizon format.

    <ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>
    <ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call></ifm|tool_calls>

A call may also be a JSON object with `name` and `arguments`. A value is typed by the schema where that declares it,
else by the type beside it, else it is text.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.glm import read_key, read_name
from strands_sglang.tool_parsers.reading.format import guessed_name
from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.schema import TypedValue
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.strict_json import read_all
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning

_KEY = ("<ifm|arg_key>", "</ifm|arg_key>")
_TYPE = ("<ifm|arg_type>", "</ifm|arg_type>")
_VALUE = "<ifm|arg_value>"


class K2HorizonToolParser(GroupedValuesParser):
    """Reads the K2 Horizon format."""

    group_opener = "<ifm|tool_calls>"
    group_closer = "</ifm|tool_calls>"
    call_opener = "<ifm|tool_call>"
    call_closer = "</ifm|tool_call>"
    value_closer = "</ifm|arg_value>"
    value_openers = (_KEY[0], _TYPE[0], _VALUE)
    delimiters = (*_KEY, *_TYPE, _VALUE, value_closer)
    reasoning = tuple(
        Reasoning(open=f"<ifm|{kind}>", close=f"</ifm|{kind}>") for kind in ("think", "think_fast", "think_faster")
    )

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read one call, as tags or as JSON."""
        body = source.skip_space(start + len(self.call_opener))
        if not source.text.startswith("{", body):
            return super().read_one(source, start)
        read = source.json.read(body)
        if read.end < 0:
            return self.brackets.broken(source, start, body, read.status, read.reason, guessed_name(source, body))
        return self.brackets.close(source, start, read.end, read_object(read, JSONShape()))

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read the name before the first key or the end of the call."""
        body = place + len(self.call_opener)
        at, _ = source.find_first((_KEY[0], self.call_closer), body)
        name = read_name(source, body, at if at >= 0 else source.end)
        return name if isinstance(name, Wrong) else Head(name, at if at >= 0 else source.end)

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read the key, the type where there is one, and the tag before the value."""
        plain = read_key(source, place, _KEY, _VALUE)
        typed = read_key(source, place, _KEY, _TYPE[0]) if isinstance(plain, Wrong) else plain
        if typed is plain or isinstance(typed, Wrong):
            return plain
        end = source.find(_TYPE[1], typed.value)
        value = source.skip_space(end + len(_TYPE[1]))
        if end < 0 or not source.at(_VALUE, value):
            return Wrong(f"the type of the key {typed.key!r} is not followed by {_VALUE}")
        return Header(typed.key, value + len(_VALUE), source.text[typed.value : end].strip())

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Read a value by the schema, else by the type beside it."""
        declared = source.tools.declared_types(tool, header.key)
        if declared is not None or header.flag in (None, "string"):
            return super().value(source, tool, header, text)
        read = read_all(text)
        return TypedValue(read.value, read.status, f"is of type {header.flag}, but is {read.reason}")

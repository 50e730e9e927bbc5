"""Cases of the longcat_v2 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Format, raw

OPENER, PREFIX, NEWLINE = "longcat_tool_call", "longcat_", "\n"


def pair(key: str, value: str) -> str:
    key_tag, value_tag = f"{PREFIX}arg_key", f"{PREFIX}arg_value"
    return f"<{key_tag}>{key}</{key_tag}>{NEWLINE}<{value_tag}>{value}</{value_tag}>{NEWLINE}"


def block(call: Call) -> str:
    name, arguments = call
    pairs = "".join(pair(key, raw(value)) for key, value in arguments.items())
    return f"<{OPENER}>{name}{NEWLINE}{pairs}</{OPENER}>"


FORMAT = Format(
    name="longcat_v2",
    render=lambda calls: "\n".join(block(call) for call in calls),
    raw_value=lambda key, text: f"<{OPENER}>get_weather{NEWLINE}{pair(key, text)}</{OPENER}>",
    marks=(f"<{OPENER}>", f"</{OPENER}>", f"<{PREFIX}arg_key>", f"</{PREFIX}arg_key>", f"</{PREFIX}arg_value>"),
    think=("<longcat_think>", "</longcat_think>"),
    cases=(),
)

"""Cases of the poolside format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

OPENER, PREFIX, NEWLINE = "tool_call", "", "\n"


def pair(key: str, value: str) -> str:
    key_tag, value_tag = f"{PREFIX}arg_key", f"{PREFIX}arg_value"
    return f"<{key_tag}>{key}</{key_tag}>{NEWLINE}<{value_tag}>{value}</{value_tag}>{NEWLINE}"


def block(call: Call) -> str:
    name, arguments = call
    pairs = "".join(pair(key, raw(value)) for key, value in arguments.items())
    return f"<{OPENER}>{name}{NEWLINE}{pairs}</{OPENER}>"


FORMAT = Format(
    name="poolside",
    render=lambda calls: "\n".join(block(call) for call in calls),
    raw_value=lambda key, text: f"<{OPENER}>get_weather{NEWLINE}{pair(key, text)}</{OPENER}>",
    marks=(f"<{OPENER}>", f"</{OPENER}>", f"<{PREFIX}arg_key>", f"</{PREFIX}arg_key>", f"</{PREFIX}arg_value>"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="a line break on both sides of a value is framing",
            text="<tool_call>get_weather" + pair("city", "\nParis\n") + "</tool_call>",
            calls=(("ok", "get_weather", {"city": "Paris"}),),
        ),
        Case(
            fact="on one side it is data",
            text="<tool_call>get_weather" + pair("city", "\nParis") + "</tool_call>",
            calls=(("ok", "get_weather", {"city": "\nParis"}),),
        ),
    ),
)

"""Cases of the glm format."""

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
    name="glm",
    render=lambda calls: "\n".join(block(call) for call in calls),
    raw_value=lambda key, text: f"<{OPENER}>get_weather{NEWLINE}{pair(key, text)}</{OPENER}>",
    marks=(f"<{OPENER}>", f"</{OPENER}>", f"<{PREFIX}arg_key>", f"</{PREFIX}arg_key>", f"</{PREFIX}arg_value>"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="the form without line breaks is read",
            text="<tool_call>get_weather<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>",
            calls=(("ok", "get_weather", {"days": 3}),),
        ),
        Case(fact="a call may have no parameters", text="<tool_call>f\n</tool_call>", calls=(("ok", "f", {}),)),
        Case(fact="nor a line break", text="<tool_call>f</tool_call>", calls=(("ok", "f", {}),)),
        Case(
            fact="a key without a value is an error",
            text="<tool_call>f<arg_key>a</arg_key><arg_key>b</arg_key><arg_value>1</arg_value></tool_call>",
            calls=("malformed",),
        ),
        Case(
            fact="text between two pairs is an error",
            text="<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>junk"
            "<arg_key>b</arg_key><arg_value>1</arg_value></tool_call>",
            calls=("ambiguous",),
        ),
        Case(fact="a sentence is no name", text="<tool_call>I would call f</tool_call>", calls=("malformed",)),
        Case(fact="nor is JSON", text='<tool_call>{"name":"f","arguments":{}}</tool_call>', calls=("malformed",)),
        Case(fact="a name must be given", text="<tool_call>\n</tool_call>", calls=("missing_name",)),
        Case(
            fact="a closer inside a value leaves its end open",
            text="<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>y</arg_value></tool_call>",
            calls=("ambiguous",),
        ),
    ),
)

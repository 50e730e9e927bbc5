"""Cases of the hy_v3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

SEPARATOR = "<tool_sep>"


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"


def block(call: Call) -> str:
    name, arguments = call
    pairs = "".join(pair(key, raw(value)) for key, value in arguments.items())
    return f"<tool_call>{name}{SEPARATOR}\n{pairs}</tool_call>\n"


def group(blocks: str) -> str:
    return f"<tool_calls>\n{blocks}</tool_calls>"


FORMAT = Format(
    name="hy_v3",
    render=lambda calls: group("".join(block(call) for call in calls)),
    raw_value=lambda key, text: group(f"<tool_call>get_weather{SEPARATOR}\n{pair(key, text)}</tool_call>\n"),
    marks=("<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_value>", "<tool_sep>"),
    cases=(
        Case(
            fact="marks may bear a suffix",
            text="<tool_calls:x>\n<tool_call:x>f<tool_sep:x>\n<arg_key:x>a</arg_key:x>\n<arg_value:x>y</arg_value:x>\n"
            "</tool_call:x>\n</tool_calls:x>",
            calls=(("ok", "f", {"a": "y"}),),
        ),
        Case(fact="a group without a call is an error", text="<tool_calls>\n</tool_calls>", calls=("malformed",)),
        Case(fact="a call outside a group is an error", text=block(("f", {})), calls=("malformed",)),
    ),
)

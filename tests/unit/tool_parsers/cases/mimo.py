"""Cases of the mimo format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def one(parameters: str, name: str = "get_weather") -> str:
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def block(call: Call) -> str:
    return one("".join(f"<parameter={key}>{raw(value)}</parameter>\n" for key, value in call[1].items()), call[0])


FORMAT = Format(
    name="mimo",
    render=lambda calls: "".join(block(call) for call in calls),
    raw_value=lambda key, text: one(f"<parameter={key}>{text}</parameter>\n"),
    marks=("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>", "</parameter>"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="line breaks in a value are data",
            text=one("<parameter=city>\nParis\n</parameter>\n"),
            calls=(("ok", "get_weather", {"city": "\nParis\n"}),),
        ),
        Case(
            fact="nothing is unescaped",
            text=one("<parameter=city>&lt;b&gt;</parameter>\n"),
            calls=(("ok", "get_weather", {"city": "&lt;b&gt;"}),),
        ),
    ),
)

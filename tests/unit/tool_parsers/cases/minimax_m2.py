"""Cases of the minimax_m2 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def parameter(key: str, value: str) -> str:
    return f'<parameter name="{key}">{value}</parameter>\n'


def invoke(name: str, parameters: str) -> str:
    return f'<invoke name="{name}">\n{parameters}</invoke>\n'


def block(call: Call) -> str:
    return invoke(call[0], "".join(parameter(key, raw(value)) for key, value in call[1].items()))


def group(blocks: str) -> str:
    return f"<minimax:tool_call>\n{blocks}</minimax:tool_call>"


FORMAT = Format(
    name="minimax_m2",
    render=lambda calls: group("".join(block(call) for call in calls)),
    raw_value=lambda key, text: group(invoke("get_weather", parameter(key, text))),
    marks=(
        *("<minimax:tool_call>", "</minimax:tool_call>", '<invoke name="f">', "</invoke>"),
        *('<parameter name="a">', "</parameter>"),
    ),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="a call in error leaves its siblings as they are",
            text=group(block(("f", {})) + invoke("g", "junk") + block(("h", {}))),
            calls=(("ok", "f", {}), "malformed", ("ok", "h", {})),
        ),
        Case(
            fact="text between two calls is an error",
            text=group(block(("f", {})) + "junk" + block(("h", {}))),
            calls=(("ok", "f", {}), "malformed", ("ok", "h", {})),
        ),
        Case(
            fact="a parameter without its closing tag is no value of the one before",
            text=group(invoke("get_weather", '<parameter name="city">x\n' + parameter("note", "y"))),
            calls=("ambiguous",),
        ),
        Case(fact="a group without a call is an error", text=group(""), calls=("malformed",)),
        Case(
            fact="a parameter given twice is an error",
            text=group(invoke("get_weather", parameter("city", "x") + parameter("city", "y"))),
            calls=("duplicate_key",),
        ),
        Case(
            fact="a group that never closes leaves its last call unclosed",
            text=group(block(("f", {})) + block(("g", {}))).replace("</minimax:tool_call>", ""),
            calls=(("ok", "f", {}), "unclosed"),
        ),
    ),
)

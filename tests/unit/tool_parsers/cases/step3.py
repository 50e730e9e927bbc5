"""Cases of the step3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

GROUP, GROUP_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"


def parameter(key: str, value: str) -> str:
    return f'<steptml:parameter name="{key}">{value}</steptml:parameter>'


def call(name: str, parameters: str) -> str:
    invoke = f'<steptml:invoke name="{name}">{parameters}</steptml:invoke>'
    return f"<｜tool_call_begin｜>function<｜tool_sep｜>{invoke}<｜tool_call_end｜>\n"


def block(one: Call) -> str:
    return call(one[0], "".join(parameter(key, raw(value)) for key, value in one[1].items()))


def group(calls: str) -> str:
    return f"{GROUP}\n{calls}{GROUP_END}"


FORMAT = Format(
    name="step3",
    render=lambda calls: group("".join(block(one) for one in calls)),
    raw_value=lambda key, text: group(call("get_weather", parameter(key, text))),
    marks=(
        *(GROUP, GROUP_END, "<｜tool_call_begin｜>", "<｜tool_sep｜>", "<｜tool_call_end｜>", "</steptml:parameter>"),
        *('<steptml:invoke name="f">', '<steptml:parameter name="a">', "</steptml:invoke>"),
    ),
    cases=(
        Case(
            fact="a value may hold markup",
            text=group(call("get_weather", parameter("city", "<b>x</b>"))),
            calls=(("ok", "get_weather", {"city": "<b>x</b>"}),),
        ),
        Case(fact="a call may have no parameters", text=group(call("f", "")), calls=(("ok", "f", {}),)),
        Case(
            fact="Python's literals are read where no string is declared",
            text=group(call("get_weather", parameter("tags", "['a', None]") + parameter("flag", "False"))),
            calls=(("ok", "get_weather", {"tags": ["a", None], "flag": False}),),
        ),
        Case(
            fact="a call of another kind is an error",
            text=group(call("f", "").replace("function<", "code<")),
            calls=("malformed",),
        ),
    ),
)

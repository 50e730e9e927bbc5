"""Cases of the k2_horizon format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def pair(key: str, value: str, kind: str = "") -> str:
    typed = f"<ifm|arg_type>{kind}</ifm|arg_type>" if kind else ""
    return f"<ifm|arg_key>{key}</ifm|arg_key>{typed}<ifm|arg_value>{value}</ifm|arg_value>"


def call(body: str) -> str:
    return f"<ifm|tool_call>{body}</ifm|tool_call>"


def group(calls: str) -> str:
    return f"<ifm|tool_calls>{calls}</ifm|tool_calls>"


def block(one: Call) -> str:
    return call(one[0] + "".join(pair(key, raw(value)) for key, value in one[1].items()))


FORMAT = Format(
    name="k2_horizon",
    render=lambda calls: group("".join(block(one) for one in calls)),
    raw_value=lambda key, text: group(call("get_weather" + pair(key, text))),
    marks=(
        *("<ifm|tool_calls>", "</ifm|tool_calls>", "<ifm|tool_call>", "</ifm|tool_call>", "<ifm|arg_key>"),
        *("</ifm|arg_key>", "<ifm|arg_value>", "</ifm|arg_value>", "<ifm|arg_type>"),
    ),
    think=("<ifm|think>", "</ifm|think>"),
    cases=(
        Case(
            fact="other marks of reasoning are read",
            text="<ifm|think_faster>plan</ifm|think_faster>done",
            reasoning="plan",
            content="done",
        ),
        Case(
            fact="the schema decides before the type beside the value, and that before nothing",
            text=group(
                call("get_weather" + pair("city", "5", "integer") + pair("x", "5", "number") + pair("y", "5", "string"))
            ),
            calls=(("ok", "get_weather", {"city": "5", "x": 5, "y": "5"}),),
        ),
        Case(
            fact="a call may be an object",
            text=group(call('{"name": "f", "arguments": {"a": 1}}')),
            calls=(("ok", "f", {"a": 1}),),
        ),
        Case(
            fact="a call in error leaves its siblings as they are",
            text=group(block(("f", {})) + call("g junk") + block(("h", {}))),
            calls=(("ok", "f", {}), "malformed", ("ok", "h", {})),
        ),
    ),
)

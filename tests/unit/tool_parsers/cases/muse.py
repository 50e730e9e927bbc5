"""Cases of the muse format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def parameter(key: str, value: str) -> str:
    return f'<atem:parameter name="{key}">{value}</atem:parameter>'


def invoke(name: str, parameters: str) -> str:
    return f'<atem:invoke name="{name}">{parameters}</atem:invoke>'


def block(call: Call) -> str:
    return invoke(call[0], "".join(parameter(key, raw(value)) for key, value in call[1].items()))


def message(recipient: str, body: str, end: str = "<|eom|>") -> str:
    return f" to={recipient}<|message|>{body}{end}"


def calls_to(recipient: str, blocks: str) -> str:
    return message(recipient, f"<atem:function_calls>{blocks}</atem:function_calls>")


NEXT = "<|start|>assistant"

FORMAT = Format(
    name="muse",
    render=lambda calls: calls_to("tools", "".join(block(call) for call in calls)),
    raw_value=lambda key, text: calls_to("tools", invoke("get_weather", parameter(key, text))),
    marks=(NEXT, " to=f<|message|>", "<atem:function_calls>", "</atem:function_calls>", "</atem:invoke>", "<|eom|>"),
    think=None,
    needs_all=True,
    cases=(
        Case(
            fact="a message to self is reasoning, to user and commentary content",
            text=message("self", "plan")
            + NEXT
            + message("commentary", "I look.")
            + NEXT
            + calls_to("f", block(("f", {"a": "x"})))
            + NEXT
            + message("user", "Done.", "<|eot|>"),
            calls=(("ok", "f", {"a": "x"}),),
            content="I look.Done.",
            reasoning="plan",
        ),
        Case(
            fact="calls in a message to somebody else are text",
            text=message("user", "<atem:function_calls>"),
            content="<atem:function_calls>",
        ),
        Case(fact="a message to a tool must hold calls", text=message("f", "junk"), calls=("malformed",)),
        Case(
            fact="and nothing behind them",
            text=message("f", f"<atem:function_calls>{block(('f', {}))}</atem:function_calls>junk"),
            calls=("malformed",),
        ),
        Case(
            fact="a call behind reasoning that never ended is not made",
            text=message("self", "plan", "") + NEXT + calls_to("f", block(("f", {}))),
            calls=("in_open_reasoning",),
        ),
    ),
)

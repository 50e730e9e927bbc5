"""Cases of the inkling format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call

MODEL, END, INVOKE = "<|message_model|>", "<|end_message|>", "<|content_invoke_tool_json|>"


def call(name: str, arguments: str) -> str:
    return f"{name}{INVOKE}{object_call(name, arguments, ('name', 'args'))}{END}"


FORMAT = Format(
    name="inkling",
    render=lambda calls: MODEL.join(call(name, dumps(arguments)) for name, arguments in calls),
    json_body=call,
    marks=(MODEL, END, INVOKE, "<|content_text|>", "<|content_thinking|>", '{"name": "f", "args": {}}'),
    think=None,
    needs_all=True,
    cases=(
        Case(
            fact="each message is what its mark says",
            text=f"<|content_thinking|>plan{END}{MODEL}<|content_text|>I look.{END}{MODEL}{call('f', '{}')}",
            calls=(("ok", "f", {}),),
            content="I look.",
            reasoning="plan",
        ),
        Case(
            fact="the name in the JSON counts",
            text=f'{INVOKE}{{"name": "f", "args": {{}}}}{END}',
            calls=(("ok", "f", {}),),
        ),
        Case(
            fact="another name before the mark is an error",
            text=f'g{INVOKE}{{"name": "f", "args": {{}}}}{END}',
            calls=("malformed",),
        ),
        Case(
            fact="a call behind reasoning that never ended is not made",
            text=f'<|content_thinking|>plan{INVOKE}{{"name": "f", "args": {{}}}}{END}',
            calls=("in_open_reasoning",),
        ),
        Case(
            fact="reasoning that the prompt opened ends at its end mark",
            text=f"plan{END}{call('f', '{}')}",
            calls=(("ok", "f", {}),),
            reasoning="plan",
            context={"reasoning_open": True},
        ),
        Case(
            fact="a call in error leaves its siblings as they are",
            text=call("f", "{}") + MODEL + call("g", "[]") + MODEL + call("h", "{}"),
            calls=(("ok", "f", {}), "invalid_arguments", ("ok", "h", {})),
        ),
    ),
)

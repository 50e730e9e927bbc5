"""Cases of the gigachat3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def block(name: str, arguments: str) -> str:
    return f"function call<|role_sep|>\n{object_call(name, arguments)}"


FORMAT = Format(
    name="gigachat3",
    render=lambda calls: "<|message_sep|>\n\n".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=False,
    marks=("function call<|role_sep|>", "<|function_call|>", "<|message_sep|>", "{"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="content stands before the call, the mark between them is framing",
            text='Hello.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "f", "arguments": {}}',
            calls=(("ok", "f", {}),),
            content="Hello.",
        ),
        Case(
            fact="the mark of GigaChat 3.1 is read",
            text='Hello.<|function_call|>{"name": "f", "arguments": {}}',
            calls=(("ok", "f", {}),),
            content="Hello.",
        ),
    ),
)

"""Cases of the internlm2 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def block(name: str, arguments: str) -> str:
    return f"<|action_start|><|plugin|>\n{object_call(name, arguments, ('name', 'parameters'))}\n<|action_end|>"


FORMAT = Format(
    name="internlm2",
    render=lambda calls: "\n".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=True,
    marks=("<|action_start|>", "<|plugin|>", "<|action_end|>", "{"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="code for the interpreter is an attempt in error",
            text="<|action_start|><|interpreter|>\nprint(1)<|action_end|>",
            calls=("malformed",),
        ),
    ),
)

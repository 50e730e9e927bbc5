"""Cases of the ernie45 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def block(name: str, arguments: str) -> str:
    return f"<tool_call>\n{object_call(name, arguments)}\n</tool_call>"


FORMAT = Format(
    name="ernie45",
    render=lambda calls: "\n".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=True,
    marks=("<tool_call>", "</tool_call>", "{", "<response>"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="the tags around an answer are framing",
            text="plan\n</think>\n\n<response>\nHello.\n</response>\n",
            content="Hello.",
            reasoning="plan",
        ),
    ),
)

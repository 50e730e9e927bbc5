"""Cases of the longcat format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Format, dumps, object_call


def block(name: str, arguments: str) -> str:
    return f"<longcat_tool_call>\n{object_call(name, arguments)}\n</longcat_tool_call>"


FORMAT = Format(
    name="longcat",
    render=lambda calls: "\n".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=True,
    marks=("<longcat_tool_call>", "</longcat_tool_call>", "{"),
    think=("<longcat_think>", "</longcat_think>"),
    cases=(),
)

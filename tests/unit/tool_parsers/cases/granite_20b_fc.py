"""Cases of the granite_20b_fc format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Format, dumps, object_call


def block(name: str, arguments: str) -> str:
    return f"<function_call> {object_call(name, arguments)}"


FORMAT = Format(
    name="granite_20b_fc",
    render=lambda calls: "\n".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=False,
    marks=("<function_call>", "{", "}"),
    think=("<think>", "</think>"),
    cases=(),
)

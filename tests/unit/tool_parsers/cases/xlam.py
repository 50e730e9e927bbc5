"""Cases of the xlam format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def block(*elements: str) -> str:
    return f"[{', '.join(elements)}]"


FORMAT = Format(
    name="xlam",
    render=lambda calls: block(*(object_call(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(object_call(name, arguments)),
    needs_all=True,
    marks=("[", '{"name": "f", "arguments": {}}', "]", ","),
    cases=(
        Case(fact="a list of other objects is content", text='[{"a": 1}]', content='[{"a": 1}]'),
        Case(
            fact="text behind the list is an error",
            text='[{"name": "f", "arguments": {}}] done',
            calls=("malformed",),
        ),
        Case(
            fact="a list in prose is content",
            text='So: [{"name": "f", "arguments": {}}]',
            content='So: [{"name": "f", "arguments": {}}]',
        ),
    ),
)

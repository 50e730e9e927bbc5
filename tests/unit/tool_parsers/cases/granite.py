"""Cases of the granite format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def element(name: str, arguments: str) -> str:
    return object_call(name, arguments)


def block(*elements: str) -> str:
    return f"<|tool_call|>[{', '.join(elements)}]"


FORMAT = Format(
    name="granite",
    render=lambda calls: block(*(element(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(element(name, arguments)),
    marks=("<|tool_call|>", "<tool_call>", "[", "]", ","),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="an error between two calls leaves them as they are",
            text=block(element("f", "{}"), element("g", "[]"), element("h", "{}")),
            calls=(("ok", "f", {}), "invalid_arguments", ("ok", "h", {})),
        ),
        Case(
            fact="where the JSON breaks the calls before it stand",
            text=block(element("f", "{}"), element("g", "{"), element("h", "{}")),
            calls=(("ok", "f", {}), "invalid_json"),
        ),
        Case(fact="a list without a call is an error", text=block(), calls=("malformed",)),
        Case(fact="an element that is no object is an error", text=block("1"), calls=("malformed",)),
        Case(
            fact="the plain opener of Granite 3.1 is read, and text behind the list is content",
            text='<tool_call>[{"name": "f", "arguments": {}}]done',
            calls=(("ok", "f", {}),),
            content="done",
        ),
        Case(
            fact="the order of the members does not matter",
            text='<|tool_call|>[{"arguments": {}, "name": "f"}]',
            calls=(("ok", "f", {}),),
        ),
    ),
)

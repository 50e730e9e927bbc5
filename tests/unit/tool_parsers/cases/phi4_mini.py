"""Cases of the phi4_mini format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def element(name: str, arguments: str) -> str:
    return object_call(name, arguments)


def block(*elements: str) -> str:
    return f"functools[{', '.join(elements)}]"


FORMAT = Format(
    name="phi4_mini",
    render=lambda calls: block(*(element(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(element(name, arguments)),
    marks=("functools[", "[", "]", ","),
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
            fact="a list among the arguments does not end the calls",
            text=block(element("f", '{"a": [1]}')),
            calls=(("ok", "f", {"a": [1]}),),
        ),
    ),
)

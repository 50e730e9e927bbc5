"""Cases of the apertus format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps


def element(name: str, arguments: str) -> str:
    return f"{{{dumps(name)}: {arguments}}}"


def block(*elements: str) -> str:
    return f"<|tools_prefix|>[{', '.join(elements)}]<|tools_suffix|>"


FORMAT = Format(
    name="apertus",
    render=lambda calls: block(*(element(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(element(name, arguments)),
    marks=("<|tools_prefix|>", "<|tools_suffix|>", "[", "]", ","),
    think=("<|inner_prefix|>", "<|inner_suffix|>"),
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
        Case(fact="a call has one name", text=block('{"f": {}, "g": {}}'), calls=("malformed",)),
    ),
)

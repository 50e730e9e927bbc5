"""Cases of the mistral format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def element(name: str, arguments: str) -> str:
    return object_call(name, arguments)


def block(*elements: str) -> str:
    return f"[TOOL_CALLS][{', '.join(elements)}]"


FORMAT = Format(
    name="mistral",
    render=lambda calls: block(*(element(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(element(name, arguments)),
    marks=("[TOOL_CALLS]", "[", "]", ",", "[ARGS]"),
    think=("[THINK]", "[/THINK]"),
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
            fact="the model's own id is read",
            text='[TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "abcDEF123"}]',
            calls=(("ok", "f", {}),),
        ),
        Case(
            fact="a marker inside a string is text",
            text=block(element("f", '{"a": "[TOOL_CALLS]"}')),
            calls=(("ok", "f", {"a": "[TOOL_CALLS]"}),),
        ),
        Case(
            fact="the later form is read as well",
            text='[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[CALL_ID]abcDEF123[ARGS]{"a": 1}',
            calls=(("ok", "f", {}), ("ok", "g", {"a": 1})),
        ),
    ),
)

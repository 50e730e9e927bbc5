"""Cases of the cohere format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def element(name: str, arguments: str) -> str:
    return object_call(name, arguments, ("tool_name", "parameters"))


def block(*elements: str) -> str:
    return f"<|START_ACTION|>[{', '.join(elements)}]<|END_ACTION|>"


FORMAT = Format(
    name="cohere",
    render=lambda calls: block(*(element(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(element(name, arguments)),
    marks=("<|START_ACTION|>", "<|END_ACTION|>", "[", "]", ","),
    think=("<|START_THINKING|>", "<|END_THINKING|>"),
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
            fact="the marks around an answer are framing",
            text="<|START_THINKING|>plan<|END_THINKING|><|START_RESPONSE|>Hello.<|END_RESPONSE|>",
            content="Hello.",
            reasoning="plan",
        ),
        Case(
            fact="the model's own id is read",
            text=block('{"tool_call_id": "0", "tool_name": "f", "parameters": {}}'),
            calls=(("ok", "f", {}),),
        ),
    ),
)

"""Cases of the beam format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def parameter(key: str, value: str) -> str:
    return f'<rfl:parameter name="{key}">\n{value}\n</rfl:parameter>\n'


def call(name: str, parameters: str) -> str:
    return f" to={name}<|channel|>analysis <|constrain|>xml<|message|>{parameters}<|call|>"


def block(one: Call) -> str:
    return call(one[0], "".join(parameter(key, raw(value)) for key, value in one[1].items()))


NEXT = "<|start|>assistant"

FORMAT = Format(
    name="beam",
    render=lambda calls: NEXT.join(block(one) for one in calls),
    raw_value=lambda key, text: call("get_weather", parameter(key, text)),
    marks=(NEXT, " to=f<|channel|>analysis <|constrain|>xml<|message|>", "<|call|>", "<|end|>", "</rfl:parameter>"),
    think=None,
    needs_all=True,
    cases=(
        Case(
            fact="a call may end like a message",
            text=block(("f", {})).replace("<|call|>", "<|end|>") + f"{NEXT}<|channel|>final<|message|>Done.",
            calls=(("ok", "f", {}),),
            content="Done.",
        ),
        Case(
            fact="a closing tag inside a value, with no newline before it, is text",
            text=call("f", parameter("a", "x</rfl:parameter><|end|>")),
            calls=(("ok", "f", {"a": "x</rfl:parameter><|end|>"}),),
        ),
        Case(
            fact="a closing tag behind the call leaves open where it ended",
            text=call("f", parameter("a", "x\n</rfl:parameter><|end|>\n")),
            calls=("ambiguous",),
            content="",
        ),
        Case(
            fact="a value without its newlines is an error",
            text=call("f", '<rfl:parameter name="a">x</rfl:parameter>'),
            calls=("malformed",),
        ),
        Case(
            fact="another content type is an error",
            text=block(("f", {})).replace("xml", "json"),
            calls=("malformed",),
        ),
    ),
)

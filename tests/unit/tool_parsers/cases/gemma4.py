"""Cases of the gemma4 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, dumps

M = '<|"|>'


def written(value: object) -> str:
    if isinstance(value, str):
        return f"{M}{value}{M}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{written(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(member) for member in value) + "]"
    return "null" if value is None else dumps(value)


def call(body: str) -> str:
    return f"<|tool_call>{body}<tool_call|>"


def block(one: Call) -> str:
    return call(f"call:{one[0]}{written(one[1])}")


FORMAT = Format(
    name="gemma4",
    render=lambda calls: "".join(block(one) for one in calls),
    marks=("<|tool_call>", "<tool_call|>", "call:f", "{", "}", M, "[", "]", ","),
    think=("<|channel>", "<channel|>"),
    cases=(
        Case(
            fact="a string holds whatever is not the mark",
            text=block(("f", {"a": 'x<tool_call|>"}{'})),
            calls=(("ok", "f", {"a": 'x<tool_call|>"}{'}),),
        ),
        Case(
            fact="names may hold dots, colons and dashes",
            text=call("call:a.b:c-d{}"),
            calls=(("ok", "a.b:c-d", {}),),
        ),
        Case(
            fact="keys of objects within may be marked",
            text=call(f"call:f{{a:{{{M}b c{M}:[1,-2.5e3,null]}}}}"),
            calls=(("ok", "f", {"a": {"b c": [1, -2500.0, None]}}),),
        ),
        Case(fact="a string without marks is an error", text=call("call:f{a:x}"), calls=("malformed",)),
        Case(fact="so is one in JSON's quotes", text=call('call:f{a:"x"}'), calls=("malformed",)),
        Case(fact="and a key with an equals sign", text=call("call:f{a=1}"), calls=("malformed",)),
        Case(fact="a key given twice is an error", text=call("call:f{a:1,a:2}"), calls=("duplicate_key",)),
        Case(fact="a name must be given", text=call("call:{}"), calls=("missing_name",)),
        Case(fact="brackets must match", text=call("call:f{a:[[1]b]}"), calls=("malformed",)),
        Case(fact="nesting is bounded", text=call("call:f{a:" + "[" * 5000 + "]" * 5000 + "}"), calls=("malformed",)),
        Case(
            fact="the name of the channel is framing",
            text="<|channel>thought\nplan\n<channel|>Hello.",
            reasoning="plan",
            content="Hello.",
        ),
    ),
)

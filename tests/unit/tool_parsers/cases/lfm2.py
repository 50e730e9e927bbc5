"""Cases of the lfm2 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format


def written(call: Call) -> str:
    return f"{call[0]}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"


def block(*calls: str) -> str:
    return f"<|tool_call_start|>[{', '.join(calls)}]<|tool_call_end|>"


FORMAT = Format(
    name="lfm2",
    render=lambda calls: block(*(written(call) for call in calls)),
    marks=("<|tool_call_start|>", "<|tool_call_end|>", "[", "f(", ")", "]", ","),
    cases=(
        Case(
            fact="a list of objects is read",
            text='<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}}]<|tool_call_end|>',
            calls=(("ok", "f", {"a": 1}),),
        ),
        Case(fact="a list without a call is an error", text=block(), calls=("malformed",)),
        Case(
            fact="a string may hold line breaks, as the template prints them",
            text=block("f(a='x\n\ty')"),
            calls=(("ok", "f", {"a": "x\n\ty"}),),
        ),
        Case(
            fact="a leading zero is not repaired",
            text=block("f(a=007)"),
            calls=("malformed",),
        ),
        Case(
            fact="what JSON cannot hold is an error",
            text=block("f(a=(1, 2))"),
            calls=("malformed",),
        ),
        Case(fact="an argument without a key is an error", text=block("f(1)"), calls=("malformed",)),
        Case(fact="an argument given twice is an error", text=block("f(a=1, a=2)"), calls=("duplicate_key",)),
        Case(fact="an expression is no value", text=block("f(a=1 + 1)"), calls=("malformed",)),
        Case(fact="nor is a name", text=block("f(a=b)"), calls=("malformed",)),
        Case(fact="a number beyond all bounds is an error", text=block("f(a=1e999)"), calls=("malformed",)),
        Case(fact="nesting is bounded", text=block("f(a=" + "[" * 5000 + "]" * 5000 + ")"), calls=("malformed",)),
        Case(
            fact="signed numbers and strings of all kinds are read",
            text=block('f(a=-5, b=+1.5, c=\'it\\\'s "x"\', d="""two\nlines""", e={"k": [None, True]})'),
            calls=(
                (
                    "ok",
                    "f",
                    {"a": -5, "b": 1.5, "c": 'it\'s "x"', "d": "two\nlines", "e": {"k": [None, True]}},
                ),
            ),
        ),
    ),
)

"""Cases of the pythonic format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format


def written(call: Call) -> str:
    return f"{call[0]}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"


def block(*calls: str) -> str:
    return f"[{', '.join(calls)}]"


FORMAT = Format(
    name="pythonic",
    render=lambda calls: block(*(written(call) for call in calls)),
    marks=("<|python_start|>", "<|python_end|>", "[", "f(", ")", "]", ",", "\n[f(a="),
    cases=(
        Case(
            fact="Llama 4's marks are framing",
            text="<|python_start|>[f(a=1)]<|python_end|>",
            calls=(("ok", "f", {"a": 1}),),
            content="",
        ),
        Case(fact="the opening mark needs a list", text="<|python_start|>print(1)<|python_end|>", calls=("malformed",)),
        Case(
            fact="a list that fills a line is read behind content",
            text="I look.\n[f(a=1)]\nDone.",
            calls=(("ok", "f", {"a": 1}),),
            content="I look.\nDone.",
        ),
        Case(fact="within a line it is content", text="See [f(a=1)] there.", content="See [f(a=1)] there."),
        Case(fact="text behind it in its line is an error", text="[f(a=1)] is a call.", calls=("malformed",)),
        Case(fact="a link is content", text="[click(here)](http://x)", content="[click(here)](http://x)"),
        Case(
            fact="a list that never closes leaves its last call unclosed",
            text="[f(a=1), g(), ",
            calls=(("ok", "f", {"a": 1}), "unclosed"),
            context={"finish_reason": "length"},
        ),
        Case(fact="JSON's names are no literals", text=block("f(a=true)"), calls=("malformed",)),
        Case(fact="names may hold dots", text=block("a.b(c=1)"), calls=(("ok", "a.b", {"c": 1}),)),
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

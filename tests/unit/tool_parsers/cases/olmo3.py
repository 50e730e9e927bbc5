"""Cases of the olmo3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, dumps


def line(call: Call) -> str:
    return f"{call[0]}({', '.join(f'{key}={dumps(value)}' for key, value in call[1].items())})"


def block(*lines: str) -> str:
    return "<function_calls>\n" + "\n".join(lines) + "\n</function_calls>"


FORMAT = Format(
    name="olmo3",
    render=lambda calls: block(*(line(call) for call in calls)),
    marks=("<function_calls>", "</function_calls>", "f(", ")", "a=", ","),
    cases=(
        Case(
            fact="other line breaks inside a string are text",
            text=block('f(a="x\u2028y\x0cz")'),
            calls=(("ok", "f", {"a": "x\u2028y\x0cz"}),),
        ),
        Case(
            fact="literals of JSON and of Python are read",
            text=block("f(a=null, b=None, c=true, d=False, e='x', g=\"\\u00e9\\/\")"),
            calls=(("ok", "f", {"a": None, "b": None, "c": True, "d": False, "e": "x", "g": "é/"}),),
        ),
        Case(fact="two calls in one line are an error", text=block("f() g()"), calls=("malformed",)),
        Case(fact="an argument without a key is an error", text=block("f(1)"), calls=("malformed",)),
        Case(fact="a block without a call is an error", text=block(), calls=("malformed",)),
        Case(fact="a call outside a block is content", text="f(a=1)", content="f(a=1)"),
    ),
)

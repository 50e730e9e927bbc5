"""Cases of the minimax_m1 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def block(*lines: str) -> str:
    return "\n".join(["<tool_calls>", *lines, "</tool_calls>"])


FIRST, LAST = object_call("f", "{}"), object_call("h", "{}")

FORMAT = Format(
    name="minimax_m1",
    render=lambda calls: block(*(object_call(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: block(object_call(name, arguments)),
    marks=("<tool_calls>", "</tool_calls>", "{", "}", "\n"),
    think=("<think>", "</think>"),
    cases=(
        Case(
            fact="an error between two calls leaves them as they are",
            text=block(FIRST, object_call("g", "[]"), LAST),
            calls=(("ok", "f", {}), "invalid_arguments", ("ok", "h", {})),
        ),
        Case(
            fact="where the JSON breaks the calls before it stand",
            text=block(FIRST, object_call("g", "{"), LAST),
            calls=(("ok", "f", {}), "invalid_json"),
        ),
        Case(
            fact="two calls in one line are an error",
            text=block(FIRST + LAST),
            calls=("malformed",),
        ),
        Case(
            fact="text between the calls is an error",
            text=block(FIRST, "and then", LAST),
            calls=(("ok", "f", {}), "invalid_json"),
        ),
        Case(fact="a block without a call is an error", text=block(), calls=("malformed",)),
        Case(fact="a list of calls is an error", text=block(f"[{FIRST}]"), calls=("malformed",)),
        Case(
            fact="without the closer the last call is unclosed",
            text=f"<tool_calls>\n{FIRST}\n{LAST}\n",
            calls=(("ok", "f", {}), "unclosed"),
        ),
        Case(
            fact="the closer may stand in a string",
            text=block(object_call("f", '{"a": "\\n</tool_calls>\\n"}')),
            calls=(("ok", "f", {"a": "\n</tool_calls>\n"}),),
        ),
    ),
)

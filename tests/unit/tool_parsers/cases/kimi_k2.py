"""Cases of the kimi_k2 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"


def call(native_id: str, arguments: str) -> str:
    return f"<|tool_call_begin|>{native_id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def section(*calls: str) -> str:
    return f"{SECTION}{''.join(calls)}{SECTION_END}"


FORMAT = Format(
    name="kimi_k2",
    render=lambda calls: section(
        *(call(f"functions.{name}:{index}", dumps(arguments)) for index, (name, arguments) in enumerate(calls))
    ),
    json_body=lambda name, arguments: section(call(f"functions.{name}:0", arguments)),
    marks=(SECTION, SECTION_END, "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    cases=(
        Case(
            fact="a name may hold dots and dashes",
            text=section(call("functions.a.b-c:12", "{}")),
            calls=(("ok", "a.b-c", {}),),
        ),
        Case(
            fact="ids of other shapes are errors",
            text=section(*(call(i, "{}") for i in ("lookup:0", "3", "functionsf5", "functions_f_1", "call_1", ""))),
            calls=("malformed",) * 6,
        ),
        Case(
            fact="a call in error leaves its siblings as they are",
            text=section(call("functions.f:0", "{}"), call("functions.g:1", "[]"), call("functions.h:2", "{}")),
            calls=(("ok", "f", {}), "invalid_arguments", ("ok", "h", {})),
        ),
        Case(
            fact="text between two calls is an error",
            text=section(call("functions.f:0", "{}"), "junk", call("functions.h:2", "{}")),
            calls=(("ok", "f", {}), "malformed", ("ok", "h", {})),
        ),
        Case(fact="a call outside a section is an error", text=call("functions.f:0", "{}"), calls=("malformed",)),
        Case(fact="a section without a call is an error", text=section(), calls=("malformed",)),
        Case(
            fact="a section that never closes leaves its last call unclosed",
            text=SECTION + call("functions.f:0", "{}") + call("functions.g:1", "{}"),
            calls=(("ok", "f", {}), "unclosed"),
        ),
        Case(
            fact="text behind a section is content",
            text="a" + section(call("functions.f:0", "{}")) + "b",
            calls=(("ok", "f", {}),),
            content="ab",
        ),
    ),
)

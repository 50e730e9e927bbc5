"""Cases of the mistral_v11 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps


def block(name: str, arguments: str) -> str:
    return f"[TOOL_CALLS]{name}[ARGS]{arguments}"


FORMAT = Format(
    name="mistral_v11",
    render=lambda calls: "".join(block(name, dumps(arguments)) for name, arguments in calls),
    json_body=block,
    closed=False,
    marks=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "{", "}"),
    think=("[THINK]", "[/THINK]"),
    cases=(
        Case(
            fact="an id before the arguments is no part of the name",
            text="[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}",
            calls=(("ok", "f", {}),),
        ),
        Case(fact="arguments need their mark", text="[TOOL_CALLS]f{}", calls=("malformed",)),
        Case(fact="a name before the mark is none", text="f[TOOL_CALLS]{}", calls=("malformed",), content="f"),
        Case(fact="a name must be given", text="[TOOL_CALLS][ARGS]{}", calls=("missing_name",)),
        Case(
            fact="text behind a call is content",
            text="[TOOL_CALLS]f[ARGS]{} done",
            calls=(("ok", "f", {}),),
            content=" done",
        ),
    ),
)

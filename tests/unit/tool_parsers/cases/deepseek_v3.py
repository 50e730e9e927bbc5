"""Cases of the deepseek_v3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps

GROUP, GROUP_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"


def call(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def group(*calls: str) -> str:
    return f"{GROUP}{''.join(calls)}{GROUP_END}"


FORMAT = Format(
    name="deepseek_v3",
    render=lambda calls: group(*(call(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: group(call(name, arguments)),
    marks=(GROUP, GROUP_END, "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "```"),
    cases=(
        Case(
            fact="a call in error leaves its siblings as they are",
            text=group(call("f", "{}"), call("g", "nope"), call("h", "{}")),
            calls=(("ok", "f", {}), "invalid_json", ("ok", "h", {})),
        ),
        Case(fact="a name must be given", text=group(call("", "{}")), calls=("missing_name",)),
        Case(
            fact="a call that another one follows without its closer is unclosed",
            text=group(call("f", "{}").replace("<｜tool▁call▁end｜>", ""), call("h", "{}")),
            calls=("unclosed", ("ok", "h", {})),
        ),
    ),
)

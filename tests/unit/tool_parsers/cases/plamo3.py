"""Cases of the plamo3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps


def mark(side: str, what: str) -> str:
    return f"<|plamo:{side}_{what}:plamo|>"


def call(name: str, arguments: str) -> str:
    named = f"{mark('begin', 'tool_name')}{name}{mark('end', 'tool_name')}"
    given = f"<|plamo:constrain|>json<|plamo:msg|>{arguments}"
    given = f"{mark('begin', 'tool_arguments')}{given}{mark('end', 'tool_arguments')}"
    return f"{mark('begin', 'tool_request')}{named}{given}{mark('end', 'tool_request')}"


def group(*calls: str) -> str:
    return f"{mark('begin', 'tool_requests')}{''.join(calls)}{mark('end', 'tool_requests')}"


FORMAT = Format(
    name="plamo3",
    render=lambda calls: group(*(call(name, dumps(arguments)) for name, arguments in calls)),
    json_body=lambda name, arguments: group(call(name, arguments)),
    marks=tuple(
        mark(side, what)
        for side in ("begin", "end")
        for what in ("tool_requests", "tool_request", "tool_name", "tool_arguments")
    ),
    think=(mark("begin", "think"), mark("end", "think")),
    cases=(
        Case(
            fact="a call in error leaves its siblings as they are",
            text=group(call("f", "{}"), call("g", "junk"), call("h", "{}")),
            calls=(("ok", "f", {}), "invalid_json", ("ok", "h", {})),
        ),
        Case(fact="a name must be given", text=group(call("", "{}")), calls=("missing_name",)),
    ),
)

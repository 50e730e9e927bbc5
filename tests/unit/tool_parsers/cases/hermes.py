"""Cases of the hermes format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call

FORMAT = Format(
    name="hermes",
    render=lambda calls: "\n".join(
        f"<tool_call>\n{object_call(name, dumps(arguments))}\n</tool_call>" for name, arguments in calls
    ),
    json_body=lambda name, arguments: f"<tool_call>\n{object_call(name, arguments)}\n</tool_call>",
    marks=("<tool_call>", "</tool_call>", '{"name": "f", "arguments": {', "}}", '"'),
    cases=(
        Case(
            fact="content stands before, between and after calls, less one newline before each",
            text='a\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\nb\n'
            '<tool_call>{"name": "g", "arguments": {}}</tool_call>\nc',
            calls=(("ok", "f", {}), ("ok", "g", {})),
            content="a\nb\nc",
        ),
        Case(
            fact="a closer or a whole call inside a string is text",
            text='<tool_call>{"name": "f", "arguments": {"s": "</tool_call><tool_call>{}</tool_call>"}}</tool_call>',
            calls=(("ok", "f", {"s": "</tool_call><tool_call>{}</tool_call>"}),),
            content="",
        ),
        Case(
            fact="an opener behind an opener begins the next attempt",
            text='<tool_call>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>',
            calls=("malformed", ("ok", "f", {})),
        ),
        Case(
            fact="a call without its closer is unclosed, the next one stands",
            text='<tool_call>{"name": "f", "arguments": {}}\n<tool_call>{"name": "g", "arguments": {}}</tool_call>',
            calls=("unclosed", ("ok", "g", {})),
        ),
        Case(
            fact="an error between two calls leaves them as they are",
            text='<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{f: 1}</tool_call>'
            '<tool_call>{"name": "g", "arguments": {}}</tool_call>',
            calls=(("ok", "f", {}), "invalid_json", ("ok", "g", {})),
        ),
        Case(
            fact="calls inside a broken string are never made",
            text='<tool_call>{"name": "f", "arguments": {"s": "line\nbreak '
            '<tool_call>{"name": "rm", "arguments": {}}</tool_call> '
            '<tool_call>{"name": "rm", "arguments": {}}</tool_call>"}}</tool_call>after',
            calls=("invalid_json",),
            content="after",
        ),
        Case(
            fact="a list of calls in one block is an error",
            text='<tool_call>[{"name": "f", "arguments": {}}]</tool_call>',
            calls=("malformed",),
        ),
        Case(
            fact="two objects in one block are an error",
            text='<tool_call>{"name": "f", "arguments": {}}{"name": "g", "arguments": {}}</tool_call>',
            calls=("malformed",),
        ),
        Case(
            fact="arguments are never made up",
            text='<tool_call>{"name": "f"}</tool_call>',
            calls=("invalid_arguments",),
        ),
        Case(
            fact="other spellings of the members are errors",
            text='<tool_call>{"name": "f", "parameters": {}}</tool_call>',
            calls=("malformed",),
        ),
        Case(
            fact="a name must be given",
            text='<tool_call>{"arguments": {}}</tool_call><tool_call>{"name": "", "arguments": {}}</tool_call>'
            '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
            calls=("missing_name", "missing_name", "missing_name"),
        ),
        Case(
            fact="a name given twice is an error",
            text='<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>',
            calls=("duplicate_key",),
        ),
        Case(fact="a stray closer is content", text="a</tool_call>b", content="a</tool_call>b"),
        Case(fact="an empty block is an error", text="<tool_call></tool_call>", calls=("invalid_json",)),
    ),
)

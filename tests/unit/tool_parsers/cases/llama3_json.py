"""Cases of the llama3_json format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps, object_call


def answer(name: str, arguments: str) -> str:
    return object_call(name, arguments, ("name", "parameters"))


FORMAT = Format(
    name="llama3_json",
    render=lambda calls: answer(calls[0][0], dumps(calls[0][1])),
    json_body=answer,
    needs_all=True,
    several=False,
    marks=("<|python_tag|>", '{"name": "f", "parameters": ', "{", "}", ";"),
    cases=(
        Case(
            fact="the tag is read",
            text='<|python_tag|>{"name": "f", "parameters": {}}',
            calls=(("ok", "f", {}),),
        ),
        Case(
            fact="the tag may follow content",
            text='I look.<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>',
            calls=(("ok", "f", {}),),
        ),
        Case(fact="code behind the tag is an error", text="<|python_tag|>print(1)", calls=("invalid_json",)),
        Case(fact="so is a built-in tool", text='<|python_tag|>search.call(query="x")', calls=("invalid_json",)),
        Case(
            fact="JSON in prose is content",
            text='It is {"name": "f", "parameters": {}}.',
            content='It is {"name": "f", "parameters": {}}.',
        ),
        Case(fact="an object that merely has a name is content", text='{"name": "Alice"}', content='{"name": "Alice"}'),
        Case(
            fact="an answer has one call",
            text='{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}',
            calls=("malformed",),
        ),
        Case(fact="text behind the call is an error", text='{"name": "f", "parameters": {}} a', calls=("malformed",)),
        Case(
            fact="another spelling of the members is an error",
            text='{"name": "f", "arguments": {}}',
            calls=("malformed",),
        ),
        Case(
            fact="the type that the models add is read",
            text='{"type": "function", "name": "f", "parameters": {}}',
            calls=(("ok", "f", {}),),
        ),
    ),
)

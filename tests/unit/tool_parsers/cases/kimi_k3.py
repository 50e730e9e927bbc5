"""Cases of the kimi_k3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

OPEN, CLOSE, SEP = "<|open|>", "<|close|>", "<|sep|>"
TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


def attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


def argument(key: str, value: object) -> str:
    opens = f'{OPEN}argument key="{attribute(key)}" type="{TYPES.get(type(value), "null")}"{SEP}'
    return f"{opens}{raw(value)}{CLOSE}argument{SEP}"


def block(call: Call, index: int = 1) -> str:
    arguments = "".join(argument(key, value) for key, value in call[1].items())
    return f'{OPEN}call tool="{attribute(call[0])}" index="{index}"{SEP}{arguments}{CLOSE}call{SEP}'


def group(calls: str) -> str:
    return f"{OPEN}tools{SEP}{calls}{CLOSE}tools{SEP}"


FORMAT = Format(
    name="kimi_k3",
    render=lambda calls: group("".join(block(call) for call in calls)),
    marks=(f"{OPEN}tools{SEP}", f"{CLOSE}tools{SEP}", f"{CLOSE}call{SEP}", f"{CLOSE}argument{SEP}", OPEN, CLOSE, SEP),
    think=(f"{OPEN}think{SEP}", f"{CLOSE}think{SEP}"),
    cases=(
        Case(
            fact="an index that is no number is an error",
            text=(
                '<|open|>tools<|sep|><|open|>call tool="f" index="1<|sep|>"<|sep|><|close|>call<|sep|>'
                "<|close|>tools<|sep|>"
            ),
            calls=("malformed",),
        ),
        Case(
            fact="the marks around an answer are framing",
            text=f"{OPEN}think{SEP}plan{CLOSE}think{SEP}{OPEN}response{SEP}Hello.{CLOSE}response{SEP}{CLOSE}message{SEP}",
            content="Hello.",
            reasoning="plan",
        ),
        Case(
            fact="the type beside a value decides between text and JSON",
            text=group(block(("get_weather", {"days": "3", "city": 5, "note": None}))),
            calls=(("ok", "get_weather", {"days": "3", "city": 5, "note": None}),),
        ),
        Case(
            fact="what is not JSON where the type says so is an error",
            text=group(block(("f", {"a": 5})).replace(">5<", ">five<")),
            calls=("invalid_arguments",),
        ),
        Case(
            fact="so is JSON of another type",
            text=group(block(("f", {"a": 5})).replace(">5<", ">true<")),
            calls=("invalid_arguments",),
        ),
        Case(
            fact="and a type that there is not",
            text=group(block(("f", {"a": 5})).replace("number", "numbr")),
            calls=("malformed",),
        ),
        Case(
            fact="attributes are unescaped, values are not",
            text=group(block(("f", {'a"&': "&quot;"}))),
            calls=(("ok", "f", {'a"&': "&quot;"}),),
        ),
    ),
)

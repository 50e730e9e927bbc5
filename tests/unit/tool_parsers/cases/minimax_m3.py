"""Cases of the minimax_m3 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, dumps

T = "]<]minimax[>["


def element(tag: str, value: object) -> str:
    if isinstance(value, dict):
        inner = "".join(element(key, member) for key, member in value.items())
    elif isinstance(value, list):
        inner = "".join(element("item", member) for member in value)
    else:
        inner = value if isinstance(value, str) else dumps(value)
    return f"{T}<{tag}>{inner}{T}</{tag}>"


def invoke(name: str, elements: str) -> str:
    return f'{T}<invoke name="{name}">{elements}{T}</invoke>\n'


def group(calls: str) -> str:
    return f"{T}<tool_call>\n{calls}{T}</tool_call>"


def block(call: Call) -> str:
    return invoke(call[0], "".join(element(key, value) for key, value in call[1].items()))


FORMAT = Format(
    name="minimax_m3",
    render=lambda calls: group("".join(block(call) for call in calls)),
    marks=(f"{T}<tool_call>", f"{T}</tool_call>", f'{T}<invoke name="f">', f"{T}</invoke>", f"{T}<a>", f"{T}</a>", T),
    think=("<mm:think>", "</mm:think>"),
    cases=(
        Case(
            fact="leaves are typed by their place in the schema, at any depth",
            text=group(block(("get_weather", {"city": "5", "where": {"lat": 5, "name": "5"}, "tags": ["5"]}))),
            calls=(("ok", "get_weather", {"city": "5", "where": {"lat": 5, "name": "5"}, "tags": ["5"]}),),
        ),
        Case(
            fact="without a schema a leaf is its text",
            text=group(block(("f", {"a": 5, "b": {"c": [True]}}))),
            calls=(("ok", "f", {"a": "5", "b": {"c": ["true"]}}),),
        ),
        Case(
            fact="tags without the token are text",
            text=group(block(("f", {"a": "<b>x</b></a>"}))),
            calls=(("ok", "f", {"a": "<b>x</b></a>"}),),
        ),
        Case(
            fact="an empty element is an empty object or list where the schema says so",
            text=group(block(("get_weather", {"tags": [], "where": {}, "city": ""}))),
            calls=(("ok", "get_weather", {"tags": [], "where": {}, "city": ""}),),
        ),
        Case(
            fact="elements where a string is declared are an error",
            text=group(block(("get_weather", {"city": {"a": "x"}}))),
            calls=("invalid_arguments",),
        ),
        Case(
            fact="an element closed by another tag is an error",
            text=group(invoke("f", f"{T}<a>x{T}</b>")),
            calls=("malformed",),
        ),
        Case(
            fact="text between elements is an error",
            text=group(invoke("f", element("a", "x") + "junk" + element("b", "y"))),
            calls=("malformed",),
        ),
        Case(
            fact="an element given twice is an error",
            text=group(invoke("f", element("a", "x") + element("a", "y"))),
            calls=("duplicate_key",),
        ),
        Case(
            fact="a value of no declared type is an error",
            text=group(block(("get_weather", {"days": "three"}))),
            calls=("invalid_arguments",),
        ),
        Case(
            fact="a call in error leaves its siblings as they are",
            text=group(block(("f", {})) + invoke("g", "junk") + block(("h", {}))),
            calls=(("ok", "f", {}), "malformed", ("ok", "h", {})),
        ),
    ),
)

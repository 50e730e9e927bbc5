"""Cases of the deepseek_v32 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

MARK = "｜DSML｜"


def parameter(key: str, value: object) -> str:
    string = str(isinstance(value, str)).lower()
    return f'<{MARK}parameter name="{key}" string="{string}">{raw(value)}</{MARK}parameter>\n'


def invoke(name: str, parameters: str) -> str:
    return f'<{MARK}invoke name="{name}">\n{parameters}</{MARK}invoke>\n'


def block(call: Call) -> str:
    return invoke(call[0], "".join(parameter(key, value) for key, value in call[1].items()))


def group(blocks: str) -> str:
    return f"<{MARK}function_calls>\n{blocks}</{MARK}function_calls>"


FORMAT = Format(
    name="deepseek_v32",
    render=lambda calls: group("".join(block(call) for call in calls)),
    marks=(
        *(f"<{MARK}function_calls>", f"</{MARK}function_calls>", f"</{MARK}invoke>", f"</{MARK}parameter>"),
        *(f'<{MARK}invoke name="f">', f'<{MARK}parameter name="a" string="true">', MARK),
    ),
    cases=(
        Case(
            fact="the tag alone decides between text and JSON",
            text=group(invoke("get_weather", parameter("days", "3") + parameter("city", 5))),
            calls=(("ok", "get_weather", {"days": "3", "city": 5}),),
        ),
        Case(
            fact="space in a string is data",
            text=group(block(("f", {"a": "\n x \n"}))),
            calls=(("ok", "f", {"a": "\n x \n"}),),
        ),
        Case(
            fact="what is not JSON where the tag says so is an error",
            text=group(invoke("f", parameter("a", 5).replace("5", "five"))),
            calls=("invalid_json",),
        ),
        Case(
            fact="a tag that does not say is an error",
            text=group(invoke("f", parameter("a", "x").replace(' string="true"', ""))),
            calls=("malformed",),
        ),
        Case(
            fact="a parameter given twice is an error",
            text=group(invoke("f", parameter("a", "x") + parameter("a", "y"))),
            calls=("duplicate_key",),
        ),
        Case(
            fact="text between two parameters is an error",
            text=group(invoke("f", parameter("a", "x") + "junk" + parameter("b", "y"))),
            calls=("ambiguous",),
        ),
        Case(fact="a call outside a group is content", text=block(("f", {})), content=block(("f", {}))),
    ),
)

"""Cases of the qwen_xml format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import WEATHER, Call, Case, Format, raw


def block(call: Call) -> str:
    name, arguments = call
    parameters = "".join(f"<parameter={key}>\n{raw(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def one(parameters: str, name: str = "get_weather") -> str:
    return f"<tool_call>\n<function={name}>\n{parameters}\n</function>\n</tool_call>"


FORMAT = Format(
    name="qwen_xml",
    render=lambda calls: "\n".join(block(call) for call in calls),
    raw_value=lambda key, text: one(f"<parameter={key}>\n{text}\n</parameter>"),
    marks=("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>", "</parameter>", "\n"),
    cases=(
        Case(
            fact="only one newline on each side of a value is framing",
            text=one("<parameter=city>\n\n  Paris \n\n</parameter>"),
            calls=(("ok", "get_weather", {"city": "\n  Paris \n"}),),
        ),
        Case(
            fact="the form without newlines is read",
            text="<tool_call><function=get_weather><parameter=days>3</parameter></function></tool_call>",
            calls=(("ok", "get_weather", {"days": 3}),),
        ),
        Case(
            fact="Python's names are read where no string is declared",
            text=one("<parameter=flag>\nTrue\n</parameter>\n<parameter=city>\nTrue\n</parameter>"),
            calls=(("ok", "get_weather", {"flag": True, "city": "True"}),),
        ),
        Case(
            fact="a closing tag that ends nothing is part of the value",
            text=one("<parameter=city>\nx</parameter>y</tool_call>\n</parameter>"),
            calls=(("ok", "get_weather", {"city": "x</parameter>y</tool_call>"}),),
        ),
        Case(
            fact="a parameter without its closing tag is no value of the one before",
            text=one("<parameter=city>\nx\n<parameter=note>\ny\n</parameter>"),
            calls=("ambiguous",),
        ),
        Case(
            fact="text between two parameters is an error",
            text=one("<parameter=city>\nx\n</parameter>\njunk\n<parameter=note>\ny\n</parameter>"),
            calls=("ambiguous",),
        ),
        Case(
            fact="a closing tag that stands twice is an error",
            text=one("<parameter=city>\nx\n</parameter>\n</parameter>"),
            calls=("ambiguous",),
        ),
        Case(
            fact="a value that holds the end of a call cannot be told from two ends",
            text=one("<parameter=city>\na\n</parameter>\n</function>\n</tool_call>\nb\n</parameter>") + "c",
            calls=("ambiguous",),
            content="c",
        ),
        Case(
            fact="two functions in one block are an error",
            text="<tool_call>\n<function=f>\n</function>\n<function=g>\n</function>\n</tool_call>",
            calls=("malformed",),
        ),
        Case(
            fact="a header without its bracket gives no name",
            text="<tool_call>\n<function=save\n<parameter=path>\nx\n</parameter>\n</function>\n</tool_call>",
            calls=("malformed",),
        ),
        Case(fact="a name must be given", text=one("", name=""), calls=("missing_name",)),
        Case(fact="a call may have no parameters", text=one(""), calls=(("ok", "get_weather", {}),)),
        Case(
            fact="a parameter given twice is an error",
            text=one("<parameter=city>\na\n</parameter>\n<parameter=city>\nb\n</parameter>"),
            calls=("duplicate_key",),
        ),
        Case(
            fact="a function outside a block is content",
            text="<function=f>\n</function>",
            content="<function=f>\n</function>",
        ),
        Case(
            fact="an undeclared parameter is text",
            text=one("<parameter=other>\n5\n</parameter>"),
            calls=(("ok", "get_weather", {"other": "5"}),),
        ),
        Case(
            fact="a missing closing tag does not reach the next block",
            text="<tool_call><function=f><parameter=a>x</function></tool_call>\n" + block(("g", {"b": "y"})),
            calls=("ambiguous", ("ok", "g", {"b": "y"})),
            context={"tools": [WEATHER]},
        ),
    ),
)

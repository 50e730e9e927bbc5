"""Cases of the minicpm5 format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw


def param(key: str, value: str) -> str:
    marked = any(mark in value for mark in "<&\n")
    return f'<param name="{key}">{f"<![CDATA[{value}]]>" if marked else value}</param>'


def function(name: str, params: str) -> str:
    return f'<function name="{name}">{params}</function>'


def block(call: Call) -> str:
    return function(call[0], "".join(param(key, raw(value)) for key, value in call[1].items()))


FORMAT = Format(
    name="minicpm5",
    render=lambda calls: "".join(block(call) for call in calls),
    raw_value=lambda key, text: function("get_weather", param(key, text)),
    marks=('<function name="f">', "</function>", '<param name="a">', "</param>", "<![CDATA[", "]]>"),
    cases=(
        Case(
            fact="a plain value may use XML's entities",
            text=function("f", '<param name="a">1 &lt; 2 &amp;&amp; &copy;</param>'),
            calls=(("ok", "f", {"a": "1 < 2 && &copy;"}),),
        ),
        Case(
            fact="in a CDATA section they are text, and so is a closing tag",
            text=function("f", '<param name="a"><![CDATA[&lt;</param>]]></param>'),
            calls=(("ok", "f", {"a": "&lt;</param>"}),),
        ),
        Case(
            fact="in a value that is no string they are text too, and markup may stand there",
            text=function("get_weather", """<param name="tags">['<b>', '&lt;']</param>"""),
            calls=(("ok", "get_weather", {"tags": ["<b>", "&lt;"]}),),
        ),
        Case(
            fact="a string with markup outside a CDATA section is an error",
            text=function("get_weather", '<param name="city"><b></param>'),
            calls=("malformed",),
        ),
        Case(
            fact="a CDATA section that never closes is an error",
            text=function("f", '<param name="a"><![CDATA[x</param>'),
            calls=("malformed",),
        ),
    ),
)

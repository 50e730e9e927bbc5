"""Cases of formats that a response template declares; here one with calls between tags, as Qwen3.5's."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Call, Case, Format, raw

TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]*)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>(?P<value>.*?)</parameter>"},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"},
    },
}


def parameter(key: str, value: str) -> str:
    return f"<parameter={key}>{value}</parameter>\n"


def call(name: str, parameters: str) -> str:
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def block(one: Call) -> str:
    return call(one[0], "".join(parameter(key, raw(value)) for key, value in one[1].items()))


FORMAT = Format(
    name="response_template",
    options={"response_template": TEMPLATE},
    render=lambda calls: "\n".join(block(one) for one in calls),
    raw_value=lambda key, text: call("get_weather", parameter(key, text)),
    marks=("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>", "</parameter>"),
    cases=(
        Case(
            fact="the end of the turn is framing",
            text=block(("f", {})) + "<|im_end|>",
            calls=(("ok", "f", {}),),
            content="",
        ),
        Case(
            fact="a parameter that its own parser would skip is an error",
            text=call("f", "<parameter=a>x</parameter>\n<param=b>y</param>\n"),
            calls=("malformed",),
        ),
        Case(fact="a call without a name is an error", text=call("", ""), calls=("missing_name",)),
        Case(
            fact="an opening that the template does not match is an attempt in error",
            text='<tool_call>\n{"name": "f"}\n</tool_call>',
            calls=("malformed",),
        ),
    ),
)

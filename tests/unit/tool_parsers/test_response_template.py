"""Formats that a response template declares: read as Transformers does where they are right, refused where unclear."""

from __future__ import annotations

from typing import Any

import pytest

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers import ParsedTurn, get_tool_parser
from strands_sglang.tool_parsers.auto import detect_format
from tests.unit.tool_parsers.formats import FORMATS, WEATHER

DECLARED = next(form for form in FORMATS if form.name == "response_template")
WHOLE = {"type": "function", "function": "{content}"}
NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
THINKING = {"open": "<think>", "close": "</think>"}


def declared(tool_calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a response template with this field of calls."""
    return {"start_anchor": "<|assistant|>", "fields": {"content": {}, **fields, "tool_calls": tool_calls}}


JSON = declared(
    {"open": "<tool_call>", "close": "</tool_call>", "repeats": True, "content": "json", "transform": WHOLE},
    thinking=THINKING,
)
TAGS = declared(
    {
        "open_pattern": r"<tool_call>\s*<function=(?P<name>\w+)>",
        "close": "</tool_call>",
        "repeats": True,
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
            "value_parser": {"name": "json", "args": {"allow_non_json": True}},
        },
        "transform": NAMED,
    },
    thinking=THINKING,
)
FENCED = declared(
    {
        "open_pattern": r"<call>function<sep>(?P<name>[^\n]+)\n```json\n",
        "close": "\n```</call>",
        "repeats": True,
        "content": "json",
        "transform": NAMED,
    }
)
LIST = declared(
    {
        "open": "<|START_ACTION|>",
        "close_pattern": r"(?:<\|END_ACTION\|>|$)",
        "content": "json",
        "transform_each": True,
        "transform": {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
    },
    content={"open": "<|START_RESPONSE|>", "close_pattern": r"(?:<\|END_RESPONSE\|>|$)"},
    thinking={"open": "<|START_THINKING|>", "close_pattern": r"(?:<\|END_THINKING\|>|$)"},
)
PYTHON = declared(
    {
        "open": "<|tool_call_start|>",
        "close": "<|tool_call_end|>",
        "content": "python-call-list",
        "transform_each": True,
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
    }
)
BARE = declared(
    {"open_pattern": r"\[TOOL_CALLS\](?P<name>\w+)\[ARGS\]", "repeats": True, "content": "json", "transform": NAMED}
)

RIGHT = (
    (JSON, '<think>hm</think>Hi.\n<tool_call>\n{"name": "f", "arguments": {"a": 1, "b": "</x>"}}\n</tool_call>'),
    (
        JSON,
        '<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>',
    ),
    (
        TAGS,
        "Hi.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n"
        "</parameter>\n</function>\n</tool_call>",
    ),
    (TAGS, "<tool_call>\n<function=f>\n</function>\n</tool_call>"),
    (FENCED, 'Hi.<call>function<sep>f\n```json\n{"a": [1, 2]}\n```</call>'),
    (
        LIST,
        "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n"
        '{"tool_name": "f", "parameters": {"a": 1}},\n{"tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
    ),
    (LIST, "<|START_RESPONSE|>Done.<|END_RESPONSE|>"),
    (PYTHON, "<|tool_call_start|>[f(a='x', b=[1, True]), g()]<|tool_call_end|>Done."),
    (BARE, 'Hi.[TOOL_CALLS]f[ARGS]{"a": 1}'),
)


def read(template: dict[str, Any], text: str, **context: Any) -> ParsedTurn:
    return get_tool_parser("response_template", response_template=template).parse_turn(text, tools=[WEATHER], **context)


@pytest.mark.parametrize(("template", "text"), RIGHT)
def test_what_is_right_is_read_as_transformers_reads_it(template: dict[str, Any], text: str) -> None:
    theirs = pytest.importorskip("transformers.utils.chat_parsing").parse_response

    message, turn = theirs(text, template, prefix="", tools=[WEATHER]), read(template, text)

    calls = message.get("tool_calls") or []
    calls = [call["function"] for group in calls for call in (group if isinstance(group, list) else [group])]
    assert [(call["name"], call["arguments"]) for call in calls] == [(call.name, call.input) for call in turn.calls]
    assert not any(call.is_error for call in turn.calls)
    assert (message.get("content", ""), message.get("thinking")) == (turn.content.strip(), turn.reasoning)


WRONG = (
    (JSON, '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "invalid_json"),
    (JSON, '<tool_call>{"name": "f", "arguments": {}}', "unclosed"),
    (JSON, '<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', "invalid_arguments"),
    (TAGS, "<tool_call>\n<function=f>\nloose\n</function>\n</tool_call>", "malformed"),
    (TAGS, "<tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</tool_call", "unclosed"),
    (TAGS, "<tool_call>\n<function f>\n</function>\n</tool_call>", "malformed"),
    (FENCED, '<call>function<sep>f\n```json\n{"a": 1} and\n```</call>', "malformed"),
    (LIST, '<|START_ACTION|>[{"tool_name": "f", "parameters": {}}', "unclosed"),
    (PYTHON, "<|tool_call_start|>[f('x')]<|tool_call_end|>", "malformed"),
    (BARE, '[TOOL_CALLS]f{"a": 1}', "malformed"),
)


@pytest.mark.parametrize(("template", "text", "status"), WRONG)
def test_what_is_wrong_is_an_attempt_in_error(template: dict[str, Any], text: str, status: str) -> None:
    assert [status] == [call.status.value for call in read(template, text).calls]


def test_values_are_typed_by_the_schema_and_not_by_their_look() -> None:
    text = "<tool_call><function=get_weather><parameter=city>007</parameter></function></tool_call>"

    assert read(TAGS, text).calls[0].input == {"city": "007"}


def test_the_id_is_taken_from_where_the_template_says() -> None:
    field = {**JSON["fields"]["tool_calls"], "transform": {"id": "{content.id}", "function": "{content}"}}

    (call,) = read(declared(field), '<tool_call>{"name": "f", "arguments": {}, "id": "x7"}</tool_call>').calls

    assert (call.status.value, call.id, call.native_id) == ("ok", "x7", "x7")


REFUSED: tuple[tuple[Any, str], ...] = (
    ({}, "no field tool_calls"),
    (None, "no field tool_calls"),
    ({**JSON, "version": 2}, "version is 2"),
    ({"fields": {**JSON["fields"], "citations": {}}}, "'citations'"),
    (declared({"open": "<a>", "close": "</a>"}), "tool_calls.content is 'text'"),
    (declared({**JSON["fields"]["tool_calls"], "content_args": {"unquoted_keys": True}}), "unquoted_keys"),
    (declared({**JSON["fields"]["tool_calls"], "open": ["<a>", "<b>"]}), "tool_calls.open must be one text"),
    (declared({**JSON["fields"]["tool_calls"], "transform": None}), "does not say where"),
    (declared({**JSON["fields"]["tool_calls"], "transform": NAMED}), "which nothing gives"),
    (declared({**TAGS["fields"]["tool_calls"], "transform": WHOLE}), "do not go together"),
    (declared({**FENCED["fields"]["tool_calls"], "transform_each": True}), "whose opening must be a text"),
    (declared({**JSON["fields"]["tool_calls"], "content_args": [1]}), "content_args is"),
    (declared(JSON["fields"]["tool_calls"], thinking="<think>"), "'thinking' is '<think>', and no object"),
    (declared({**TAGS["fields"]["tool_calls"], "open_pattern": None}), "must be a regular expression"),
    (declared({**TAGS["fields"]["tool_calls"], "open_pattern": r" to=(?P<name>\w+)"}), "must begin with a text"),
    (declared({**TAGS["fields"]["tool_calls"], "open_pattern": r"<tool_call>(?P<name>"}), "no regular expression"),
    (declared({**TAGS["fields"]["tool_calls"], "content_args": {"tag_pattern": "(?P<key>a)"}}), "tag_pattern"),
    (
        declared(JSON["fields"]["tool_calls"], thinking={"open_pattern": r"<\w+>", "close": "x"}),
        "thinking.open_pattern",
    ),
)


@pytest.mark.parametrize(("template", "reason"), REFUSED)
def test_what_has_no_strict_reading_is_refused(template: Any, reason: str) -> None:
    with pytest.raises(SGLangConfigError, match=reason):
        get_tool_parser("hf", response_template=template if template is not None else {"fields": []})


def test_without_a_template_the_parser_says_what_it_needs() -> None:
    with pytest.raises(SGLangConfigError, match="pass response_template= or tokenizer="):
        get_tool_parser("response_template")


class Declaring:
    """A tokenizer whose configuration holds a response template and whose chat template tells nothing."""

    def __init__(self, chat_template: str | None) -> None:
        self.chat_template = chat_template
        self.response_template = DECLARED.options["response_template"]

    def get_added_vocab(self) -> dict[str, int]:
        return {"<tool_call>": 1}

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> str:
        return "no call"


@pytest.mark.parametrize("chat_template", [None, "{{ messages[0].content }}"])
def test_auto_goes_by_the_response_template_where_the_chat_template_does_not_tell(chat_template: str | None) -> None:
    tokenizer = Declaring(chat_template)

    parser = get_tool_parser("auto", tokenizer=tokenizer)

    assert detect_format(tokenizer) == "response_template"
    assert [call.name for call in parser.parse(DECLARED.render([("f", {})]))] == ["f"]

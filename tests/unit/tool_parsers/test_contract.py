"""What code outside this package may rely on: names, the result type, parsers of the old kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strands_sglang.errors import UnknownNameError
from strands_sglang.tool_parsers import (
    TOOL_PARSER_REGISTRY,
    HermesToolParser,
    ToolParser,
    ToolParseResult,
    ToolParseStatus,
    get_tool_parser,
    parse_turn_with,
    register_tool_parser,
)
from strands_sglang.tool_parsers.registry import ALIASES, FORMATS

CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


def test_a_result_built_by_hand_is_an_error_exactly_if_it_has_raw_text() -> None:
    good = ToolParseResult(id="1", name="f", input={"a": 1})
    bad = ToolParseResult(id="2", name="f", input={}, raw="junk")

    assert (good.is_error, good.status, good.payload) == (False, ToolParseStatus.OK, '{"a": 1}')
    assert (bad.is_error, bad.status, bad.payload) == (True, ToolParseStatus.MALFORMED, "junk")


def test_from_parse_error_keeps_the_text_and_the_name() -> None:
    assert ToolParseResult.from_parse_error("1", "junk").name == ToolParseResult.UNKNOWN_NAME
    assert ToolParseResult.from_parse_error(id="1", raw="junk", name="f").payload == "junk"


def test_a_call_that_was_read_keeps_its_raw_text_and_is_no_error() -> None:
    (call,) = HermesToolParser().parse(CALL)

    assert call.raw == CALL
    assert not call.is_error
    assert json.loads(call.payload) == {"a": 1}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'hermes'"):
        get_tool_parser("hermess")
    with pytest.raises(KeyError):
        get_tool_parser("nothing like it")
    with pytest.raises(UnknownNameError) as caught:
        get_tool_parser("nope")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 7, ["hermes"], HermesToolParser, HermesToolParser()])
def test_what_is_no_name_is_answered_with_the_names(name: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown tool parser .*known: .*hermes"):
        get_tool_parser(name)


def test_every_name_in_the_registry_makes_a_parser() -> None:
    for name in TOOL_PARSER_REGISTRY:
        if ALIASES.get(name, name) != "response_template":  # that one must be told its format
            assert isinstance(get_tool_parser(name), ToolParser)


def test_hermes_takes_the_arguments_of_earlier_releases() -> None:
    parser = HermesToolParser(tool_start_token="[[", tool_end_token="]]", think_start_token="(", think_end_token=")")

    turn = parser.parse_turn('(hm) [[{"name": "f", "arguments": {}}]]')

    assert (turn.reasoning, [call.name for call in turn.calls]) == ("hm", ["f"])


class OldParser(ToolParser):
    """A parser as written against earlier releases."""

    def parse(self, text: str) -> list[ToolParseResult]:  # type: ignore[override]
        text = self.think_pattern.sub("", text)
        return [ToolParseResult(id=str(i), name=m[1]) for i, m in enumerate(self.tool_pattern.finditer(text))]


class Stranger:
    """A parser that knows nothing of this library's classes."""

    def parse(self, text: str) -> list[ToolParseResult]:
        return [ToolParseResult(id="0", name=text)]


def test_parsers_that_only_define_parse_work_through_the_library() -> None:
    text = "<think><tool_call>draft</tool_call></think><tool_call> real </tool_call>"
    context: dict[str, Any] = {"tools": [], "token_ids": [1], "tokenizer": object(), "reasoning_open": True}

    assert [call.name for call in parse_turn_with(OldParser(), text, **context).calls] == ["real"]
    assert [call.name for call in OldParser().parse_turn(text, **context).calls] == ["real"]
    assert [text] == [call.name for call in parse_turn_with(Stranger(), text, **context).calls]
    assert text == parse_turn_with(Stranger(), text).content


def test_a_registered_parser_is_found_by_its_name() -> None:
    register_tool_parser("old-one")(OldParser)

    assert isinstance(get_tool_parser("old-one", tool_start_token="<<"), OldParser)
    assert "old-one" in TOOL_PARSER_REGISTRY


def test_ids_are_unique_within_a_turn_and_the_same_each_time() -> None:
    parser = HermesToolParser()

    first = [call.id for call in parser.parse(CALL + CALL)]

    assert len(set(first)) == 2
    assert first == [call.id for call in parser.parse(CALL + CALL)]
    assert [call.id for call in parser.parse(CALL + CALL, id_prefix="t7")] == ["t7_0", "t7_1"]


def test_the_page_lists_every_format_with_every_name() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tool-parsers.md").read_text(encoding="utf-8")
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}

    assert set(FORMATS) <= set(rows)
    assert [name for name, form in ALIASES.items() if f"`{name}`" not in rows[form]] == []

"""What holds for every format: nothing is read that was not written, nothing is lost, nothing raises."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.tool_parsers import ParsedTurn, PieceKind
from strands_sglang.tool_parsers.registry import FORMATS as TABLE
from tests.unit.tool_parsers.formats import CALL, FORMATS, OTHER, WEATHER, Call, Format

every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
json_formats = pytest.mark.parametrize("form", [f for f in FORMATS if f.json_body], ids=lambda form: form.name)
raw_formats = pytest.mark.parametrize("form", [f for f in FORMATS if f.raw_value], ids=lambda form: form.name)
thinking_formats = pytest.mark.parametrize("form", [f for f in FORMATS if f.think], ids=lambda form: form.name)


def made(turn: ParsedTurn) -> list[Call]:
    """Return the calls that would be executed."""
    return [(call.name, call.input) for call in turn.calls if not call.is_error]


def check_accounts(turn: ParsedTurn, text: str) -> None:
    """Check that every character is in exactly one piece, and every attempt in its place."""
    place = 0
    for piece in turn.pieces:
        assert piece.start == place < piece.end
        place = piece.end
    assert place == len(text)
    assert text == turn.text
    content = "".join(text[p.start : p.end] for p in turn.pieces if p.kind is PieceKind.CONTENT)
    assert content == turn.content
    assert [(p.start, p.end) for p in turn.pieces if p.kind is PieceKind.CALL] == [call.span for call in turn.calls]
    for call in turn.calls:
        assert call.span is not None
        assert text[slice(*call.span)] == call.raw
        assert not call.is_error or (call.input == {} and call.reason)


def test_every_format_has_a_case_file() -> None:
    assert sorted(TABLE) == [form.name for form in FORMATS]


@every_format
def test_a_rendered_call_is_read_back(form: Format) -> None:
    text = form.render([CALL])

    turn = form.parse(text)

    assert made(turn) == [CALL], [call.reason for call in turn.calls]
    assert turn.content == ""
    check_accounts(turn, text)


@pytest.mark.parametrize("form", [f for f in FORMATS if f.several], ids=lambda form: form.name)
def test_several_calls_are_read_back_in_order(form: Format) -> None:
    calls = [CALL, OTHER, ("no_arguments", {}), OTHER]

    turn = form.parse(form.render(calls))

    assert calls == made(turn), [call.reason for call in turn.calls]
    assert turn.content == ""


@every_format
def test_no_prefix_of_a_call_is_a_call(form: Format) -> None:
    text = form.render([CALL])
    for end in range(len(text)):
        turn = form.parse(text[:end], finish_reason="length")

        assert made(turn) == [], text[:end]
        check_accounts(turn, text[:end])


@every_format
def test_cut_off_inside_its_arguments_a_call_is_an_attempt_in_error(form: Format) -> None:
    text = form.render([CALL])

    turn = form.parse(text[: text.index("Paris") + 3], finish_reason="length")

    assert len(turn.calls) == 1
    assert turn.calls[0].is_error


@every_format
def test_content_around_calls_is_kept(form: Format) -> None:
    text = form.render([CALL])
    before = "" if form.needs_all else "Let me look."

    turn = form.parse(before + "\n" + text)

    assert made(turn) == [CALL]
    assert before == turn.content.rstrip("\n")


NO_JSON_OBJECTS = (
    '{"a": NaN}',
    '{"a": Infinity}',
    '{"a": 1e999}',
    '{"a": 01}',
    '{"a": 1, "a": 2}',
    '{"a": {"b": 1, "b": 1}}',
    '{"a": 1,}',
    "{'a': 1}",
    '{"a": 1} // why',
    '{"a": "line\nbreak"}',
    '{"a": "\\ud800"}',
    '{"a": tru}',
    '{"a": 1',
    "[1]",
    "[]",
    '"{}"',
    "null",
    "1",
    "",
    '{"a": 1}}',
    '{"a": 1}{"b": 2}',
    '{"a": 1} junk',
    f'{{"a": {"9" * 5000}}}',
    '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
)


@json_formats
def test_what_is_no_json_object_is_an_attempt_in_error(form: Format) -> None:
    assert form.json_body
    for arguments in NO_JSON_OBJECTS:
        if not form.closed and arguments.endswith(("junk", "why")):
            continue  # there, text behind the JSON is content
        text = form.json_body("get_weather", arguments)
        turn = form.parse(text)

        assert made(turn) == [], arguments[:50]
        assert turn.calls, arguments[:50]
        check_accounts(turn, text)


JSON_OBJECTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ('{"a": 12345678901234567890123}', {"a": 12345678901234567890123}),
    (' {\n"a" : "x" } ', {"a": "x"}),
    ('{"a": "\\u00e9\\ud83d\\ude00\\n"}', {"a": "é😀\n"}),
    ('{"a": [], "b": {}, "": null}', {"a": [], "b": {}, "": None}),
    ('{"a": "007", "b": "true", "c": " x "}', {"a": "007", "b": "true", "c": " x "}),
    ("{}", {}),
)


@json_formats
def test_json_arguments_are_read_exactly(form: Format) -> None:
    assert form.json_body
    for arguments, wanted in JSON_OBJECTS:
        assert [("get_weather", wanted)] == made(form.parse(form.json_body("get_weather", arguments)))


RAW_VALUES: tuple[tuple[str, str, Any], ...] = (
    ("city", "007", "007"),
    ("city", "true", "true"),
    ("city", "null", "null"),
    ("city", " x ", " x "),
    ("city", "1e3", "1e3"),
    ("city", '"quoted"', '"quoted"'),
    ("city", '{"a": 1}', '{"a": 1}'),
    ("city", "a\n\n  b\tc", "a\n\n  b\tc"),
    ("city", "", ""),
    ("city", "1 < 2 > 0 & \\n", "1 < 2 > 0 & \\n"),
    ("days", "3", 3),
    ("days", " 3\n", 3),
    ("days", "12345678901234567890123", 12345678901234567890123),
    ("days", "5.0", 5.0),
    ("ratio", "3", 3),
    ("ratio", "-2.5e3", -2500.0),
    ("flag", "false", False),
    ("tags", '["a", "b"]', ["a", "b"]),
    ("where", '{"lat": 1.5}', {"lat": 1.5}),
    ("note", "null", None),
    ("note", "None", "None"),
    ("note", "5", "5"),
    ("unknown", "5", "5"),
)


@raw_formats
def test_raw_values_are_typed_by_the_schema(form: Format) -> None:
    assert form.raw_value
    for key, text, wanted in RAW_VALUES:
        assert [("get_weather", {key: wanted})] == made(form.parse(form.raw_value(key, text))), (key, text)


NO_VALUES = (
    ("days", "3.5"),
    ("days", "true"),
    ("days", "three"),
    ("days", "123_456"),
    ("days", "2025-01-01"),
    ("days", ""),
    ("ratio", "NaN"),
    ("ratio", "Infinity"),
    ("ratio", "1e999"),
    ("flag", "1"),
    ("flag", "yes"),
    ("flag", '"true"'),
    ("tags", "a, b"),
    ("tags", '["a"'),
    ("where", "[1]"),
    ("where", '{"lat": 1, "lat": 2}'),
    ("where", '{"lat": NaN}'),
)


@raw_formats
def test_a_value_of_no_declared_type_is_an_error(form: Format) -> None:
    assert form.raw_value
    for key, text in NO_VALUES:
        turn = form.parse(form.raw_value(key, text))

        assert made(turn) == [], (key, text)
        assert len(turn.calls) == 1
        assert key in turn.calls[0].reason


@raw_formats
def test_without_a_schema_every_value_is_its_text(form: Format) -> None:
    assert form.raw_value
    for text in ("5", "true", "null", '{"a": 1}', " x "):
        assert [("get_weather", {"days": text})] == made(form.parse(form.raw_value("days", text), tools=None))


@thinking_formats
def test_a_draft_in_closed_reasoning_is_no_attempt(form: Format) -> None:
    assert form.think
    opens, closes = form.think
    draft, real = form.render([OTHER]), form.render([CALL])

    turn = form.parse(f"{opens}\nplan {draft} more\n{closes}\n{real}")

    assert made(turn) == [CALL]
    assert len(turn.calls) == 1
    assert turn.reasoning is not None
    assert draft in turn.reasoning
    assert turn.content.strip() == ""


@thinking_formats
@pytest.mark.parametrize("told", [True, False])
def test_reasoning_that_the_prompt_opened_ends_at_the_first_closing_mark(form: Format, told: bool) -> None:
    assert form.think
    draft, real = form.render([OTHER]), form.render([CALL])

    turn = form.parse(f"plan\n{draft}\n{form.think[1]}\n{real}", reasoning_open=told)

    assert made(turn) == [CALL]
    assert len(turn.calls) == 1


@thinking_formats
@pytest.mark.parametrize("by_prompt", [True, False])
def test_a_call_in_reasoning_that_never_ends_is_reported_and_not_made(form: Format, by_prompt: bool) -> None:
    assert form.think
    text = f"plan\n{form.render([CALL])}"
    if form.needs_all:
        text = form.render([CALL])

    turn = form.parse(text, reasoning_open=True) if by_prompt else form.parse(form.think[0] + text)

    assert [(call.status.value, call.name) for call in turn.calls] == [("in_open_reasoning", "get_weather")]
    assert turn.calls[0].raw is not None
    assert "Paris" in turn.calls[0].raw


def hostile_texts(form: Format, count: int) -> Iterator[str]:
    """Make texts from calls that are cut, doubled and mixed with delimiters, the same ones each time."""
    whole = form.render([CALL, OTHER] if form.several else [CALL])
    snippets = [*form.marks, *(form.think or ()), " ", "\n", "x", '"', "}", "<", whole]
    choose = random.Random(form.name)
    for _ in range(count):
        text = whole
        for _ in range(choose.randint(1, 4)):
            start = choose.randint(0, len(text))
            end = min(len(text), start + choose.randint(0, 30))
            put = choose.choice(["", choose.choice(snippets), text[start:end] * 2])
            text = text[:start] + put + text[end:]
        yield text
        yield "".join(choose.choices(snippets, k=choose.randint(0, 12)))


def squeezed(text: str) -> str:
    """Return a text without what may vary: white space, a counter in an id, a last comma, an optional mark."""
    varying = r",(?=[)\]}])|(?<=:)[0-9]+(?=<\|tool_call_argument)|<tool_sep>"
    return re.sub(varying, "", "".join(text.split()))


@every_format
def test_whatever_is_written_nothing_raises_and_a_call_is_what_was_written(form: Format) -> None:
    parser = form.parser()
    for number, text in enumerate(hostile_texts(form, 60)):
        reasoning_open, finish_reason = number % 4 == 3, ("stop", "length", "abort")[number % 3]
        turn = parser.parse_turn(text, tools=[WEATHER], reasoning_open=reasoning_open, finish_reason=finish_reason)

        check_accounts(turn, text)
        for call in turn.calls:
            if not call.is_error:
                read, written = squeezed(form.render([(call.name, call.input)])), squeezed(call.raw or "")
                assert read in written or written in read, text


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_text_raises(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMATS))
    pieces = st.one_of(st.sampled_from([*form.marks, form.render([CALL])]), st.text(max_size=8))
    text = "".join(data.draw(st.lists(pieces, max_size=10)))

    check_accounts(form.parse(text), text)


@every_format
def test_parse_gives_the_attempts_of_parse_turn(form: Format) -> None:
    text = form.render([CALL])

    assert list(form.parse(text).calls) == form.parser().parse(text, tools=[WEATHER])

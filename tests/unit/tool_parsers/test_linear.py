"""The work of reading grows with the text and no faster, whatever the text is.

What is counted is calls of functions, and characters that searches pass over; time is measured by
`benchmarks/tool_parsers.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, SupportsIndex

import pytest

from strands_sglang.tool_parsers.reading.turn import MAX_ATTEMPTS
from tests.unit.tool_parsers.formats import FORMATS, WEATHER, Format

SIZE = 1500


class Searched(str):
    """A text that counts the characters its searches pass over."""

    __slots__ = ("passed",)
    passed: int

    def find(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None, /) -> int:
        found = super().find(sub, start, end)
        self.passed += (found if found >= 0 else len(self)) - int(start or 0)
        return found


def work(form: Format, text: str) -> tuple[int, int]:
    """Return how many functions are called, and how many characters searches pass over, to read a text."""
    parser, searched, calls = form.parser(), Searched(text), 0
    searched.passed = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        parser.parse_turn(searched, tools=[WEATHER])
    finally:
        sys.setprofile(before)
    return calls, searched.passed


def hostile_units(form: Format) -> Iterator[str]:
    """What is repeated: delimiters alone and in pairs, calls that break at any place, brackets, quotes."""
    whole = form.render([("f", {"a": "x"})])
    yield from form.marks
    yield from form.think or ()
    yield from ("<", "[", "{", '"', "\n", "[f(a=")
    yield from (whole, whole[:-1], whole[: len(whole) // 2], whole[: len(whole) * 3 // 4])
    yield from (form.marks[0] + "{", form.marks[0] + '{"a": "', form.marks[0] + form.marks[1], "\n" + form.marks[0])
    yield "".join(form.marks)


@pytest.mark.parametrize("name", ["hermes", "minimax_m2", "hunyuan_a13b", "pythonic", "olmo3", "beam"])
def test_a_turn_of_more_calls_than_any_means_is_one_attempt_in_error(name: str) -> None:
    form = next(form for form in FORMATS if form.name == name)
    before = "" if form.needs_all else "Well.\n"

    most = form.parse(before + form.render([("f", {})] * MAX_ATTEMPTS))
    text = before + form.render([("f", {})] * (MAX_ATTEMPTS + 1))
    (call,) = form.parse(text).calls

    assert len(most.calls) == MAX_ATTEMPTS
    assert not any(call.is_error for call in most.calls)
    assert (call.status.value, call.input) == ("malformed", {})
    assert text.endswith(call.raw or "-")
    assert form.parse(text).content == most.content == before.strip()


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_hostile_texts_take_work_in_proportion_to_their_length(form: Format) -> None:
    start = form.render([("f", {"a": "x"})])[:20]
    for unit in dict.fromkeys(hostile_units(form)):
        short, long = ((start + unit * size)[:size] for size in (SIZE, 4 * SIZE))
        calls, passed = work(form, short)
        more_calls, more_passed = work(form, long)

        # Quadratic work would be sixteen times as much.
        assert more_calls < 6 * calls + 500, unit
        assert more_passed < 6 * passed + 30 * SIZE, unit

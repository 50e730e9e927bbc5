"""Every case of every case file."""

from __future__ import annotations

import pytest

from strands_sglang.tool_parsers import ParsedTurn
from tests.unit.tool_parsers.formats import FORMATS, Case, Format

ALL = [(form, case) for form in FORMATS for case in form.cases]


def seen(turn: ParsedTurn, case: Case) -> list[object]:
    """Return the attempts of a turn as a case writes them."""
    attempts: list[object] = []
    for index, call in enumerate(turn.calls):
        wanted = case.calls[index] if index < len(case.calls) else ""
        attempts.append(call.status.value if isinstance(wanted, str) else (call.status.value, call.name, call.input))
    return attempts


@pytest.mark.parametrize(("form", "case"), ALL, ids=[f"{form.name}: {case.fact}" for form, case in ALL])
def test_the_case_holds(form: Format, case: Case) -> None:
    turn = form.parse(case.text, **(case.context or {}))

    assert list(case.calls) == seen(turn, case), [call.reason for call in turn.calls]
    if case.content is not None:
        assert case.content == turn.content
    if case.reasoning != "?":
        assert case.reasoning == turn.reasoning

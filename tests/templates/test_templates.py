"""Every template that comes without a tokenizer. Not in the default run: `pytest tests/templates`."""

from __future__ import annotations

import pytest

from strands_sglang.tokenization.battery.verdict import Verdict
from tests.real_tokenizers import chat_template_names
from tests.templates.survey import survey_template


@pytest.mark.parametrize("name", chat_template_names())
def test_no_shape_is_at_fault(name: str) -> None:
    survey = survey_template(name)

    assert [str(result) for result in survey.results if result.verdict is Verdict.FAULT] == []

"""Every template that comes without a tokenizer. Not in the default run: `pytest tests/templates`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real_tokenizers import chat_template_names
from tests.templates.survey import survey_template

KNOWN: dict[str, list[str]] = json.loads(Path(__file__).with_name("known_faults.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", chat_template_names())
def test_the_shapes_at_fault_are_those_that_are_known(name: str) -> None:
    """A fault that is gone fails as well, so that the list stays true."""
    assert KNOWN.get(name, []) == survey_template(name).faults

"""Every real tokenizer, checked against transformers. Not in the default run: `pytest tests/templates`."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from strands_sglang.tokenization.battery.verdict import Verdict
from tests.real_tokenizers import MODELS, real_tokenizer, tokenizer_dir
from tests.templates.survey import Thinking, survey_model

TEXTS = (
    "Hello world",
    "  two  spaces\n\n\ttab",
    "def f(x):\n    return x**2  # 12345678",
    "Zürich naïve",
    "日本語と中文，测试。",
    "हिन्दी में एक वाक्य",
    "مُحَمَّد",
    "🇩🇪 e\u0301",
    '{"a": [1, 2.50, null]}',
)


@pytest.mark.parametrize("thinking", list(Thinking))
@pytest.mark.parametrize("model", MODELS)
def test_no_shape_is_at_fault(model: str, thinking: Thinking) -> None:
    survey = survey_model(model, thinking)

    assert [str(result) for result in survey.results if result.verdict is Verdict.FAULT] == []


@pytest.mark.parametrize("model", MODELS)
def test_transformers_encodes_as_the_tokenizer_file_says(model: str) -> None:
    backend = Tokenizer.from_file(str(tokenizer_dir(model) / "tokenizer.json"))
    tokenizer = real_tokenizer(model)

    for text in TEXTS:
        assert backend.encode(text, add_special_tokens=False).ids == tokenizer.encode(text, add_special_tokens=False)

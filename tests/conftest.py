"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests import real_tokenizers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def real_tokenizer() -> Callable[[str], PreTrainedTokenizerFast]:
    """`real_tokenizer(name)`: a model's tokenizer, loaded once per session."""
    return real_tokenizers.real_tokenizer

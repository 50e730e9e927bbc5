"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import real_tokenizers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# The same examples everywhere, and no word about a machine's speed. `--hypothesis-profile=default` looks further.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(scope="session")
def real_tokenizer() -> Callable[[str], PreTrainedTokenizerFast]:
    """`real_tokenizer(name)`: a model's tokenizer, loaded once per session."""
    return real_tokenizers.real_tokenizer

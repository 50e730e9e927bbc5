"""Fixtures shared by all tests."""

from __future__ import annotations

import os
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

_MOST_WORKERS = 4


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Spread the whole unit suite over a few processes; anything less, and what a server is shared for, runs in one.

    `pytest --numprocesses=0` runs the suite in one process too.
    """
    # A worker reads this file as well, and must start no workers of its own.
    worker = hasattr(config, "workerinput") or "PYTEST_XDIST_WORKER" in os.environ
    if worker or not config.pluginmanager.hasplugin("xdist") or config.args != config.getini("testpaths"):
        return
    option = config.option
    if option.numprocesses is None and not option.usepdb and not option.collectonly:
        option.numprocesses = min(os.cpu_count() or 1, _MOST_WORKERS)
        option.dist = "loadfile"


@pytest.fixture(scope="session")
def real_tokenizer() -> Callable[[str], PreTrainedTokenizerFast]:
    """`real_tokenizer(name)`: a model's tokenizer, loaded once per session."""
    return real_tokenizers.real_tokenizer

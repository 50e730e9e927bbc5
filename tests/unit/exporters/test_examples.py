"""Every example of `examples/trainers` plays its episodes and prints what its trainer gets."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_sglang.exporters import EXPORTERS

FOLDER = Path(__file__).parents[3] / "examples" / "trainers"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*_rollout.py"))


def test_every_trainer_has_an_example() -> None:
    trainers = set(EXPORTERS) - {"jsonl", "parquet", "trl_async"} - {"agent_lightning", "rllm", "verifiers"}

    assert {name.removesuffix("_rollout") for name in EXAMPLES} == trainers


@pytest.fixture(scope="module")
def folder() -> Iterator[None]:
    """The examples' folder as Python has it when one of them is run; what they share is loaded once."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    for loaded in ("task", *EXAMPLES):
        sys.modules.pop(loaded, None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_plays(name: str, folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(importlib.import_module(name).main())

    assert capsys.readouterr().out.strip()

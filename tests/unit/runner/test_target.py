from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from strands_sglang import SGLangConfigError
from strands_sglang.runner import EpisodeContext, Prompt
from strands_sglang.runner.target import AgentTarget, load

MADE: list[object] = []


def factory() -> object:
    """A factory that takes nothing."""
    MADE.append(object())
    return MADE[-1]


async def test_a_target_calls_what_it_names_also_after_pickling() -> None:
    target = pickle.loads(pickle.dumps(AgentTarget(name="tests.unit.runner.test_target:factory")))

    made = await target(EpisodeContext(prompt=Prompt(content="Go"), key="1"))

    assert made is load("tests.unit.runner.test_target:MADE.__getitem__")(-1)
    await target.aclose()


def test_a_module_that_fails_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents_that_fail.py").write_text("1 / 0\n")
    (tmp_path / "agents_that_lack.py").write_text("import not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(SGLangConfigError, match="'agents_that_fail' cannot be imported: ZeroDivisionError"):
        load("agents_that_fail:factory")
    with pytest.raises(SGLangConfigError, match="'agents_that_lack' cannot be imported: No module named 'not_there"):
        load("agents_that_lack:factory")
    with pytest.raises(SGLangConfigError, match="there is no module 'agents_that_are_not'"):
        load("agents_that_are_not:factory")

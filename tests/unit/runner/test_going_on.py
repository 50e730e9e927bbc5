"""Going on from a file: keys and groups fit whatever the run before was asked for, and nothing else is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strands_sglang import SGLangConfigError, TerminationReason, read_records
from strands_sglang.engine import Turn
from strands_sglang.runner import EpisodeRun, run_episodes

from .conftest import END, World

Build = Callable[..., World]


async def keys_of(run: EpisodeRun) -> list[str]:
    return sorted([episode.key async for episode in run])


async def test_a_group_that_is_raised_from_one_is_one_group(world: Build, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    for size in (1, 3):
        async for _ in run_episodes(world("Hi" + END).agent, ["a"], group_size=size, output=output):
            pass

    records = list(read_records(output))

    assert len({record.group_id for record in records}) == 1
    assert None not in {record.group_id for record in records}
    assert sorted(record.group_index or 0 for record in records) == [0, 1, 2]


@pytest.mark.parametrize("ids", [["q", "q#2", "q"], ["q", "q##2", "q"], ["q##2", "q", "q", "q##2"]])
async def test_a_repeat_never_has_the_key_of_a_given_id_in_whatever_order(
    world: Build, tmp_path: Path, ids: list[str]
) -> None:
    rows = [{"prompt": "Hi", "id": each} for each in ids]
    here = world("Hi" + END)
    output = tmp_path / "out.jsonl"

    keys = await keys_of(run_episodes(here.agent, rows, output=output))
    again = await keys_of(run_episodes(here.agent, rows[::-1], output=output))

    assert len(set(keys)) == len(ids)
    assert again == []


async def test_an_id_is_a_key_as_it_is(world: Build) -> None:
    rows = [{"prompt": "Hi", "id": each} for each in ("7", "gsm8k#2", "a##b")]

    assert await keys_of(run_episodes(world("Hi" + END).agent, rows)) == ["7", "a##b", "gsm8k#2"]


@pytest.mark.parametrize("limit", ["min_finished", "min_groups"])
@pytest.mark.parametrize("lazy", [False, True])
async def test_enough_counts_this_runs_prompts_only(world: Build, tmp_path: Path, limit: str, lazy: bool) -> None:
    output = tmp_path / "out.jsonl"
    here = world("Hi" + END)

    def run(*prompts: str) -> EpisodeRun:
        given: Any = iter(prompts) if lazy else list(prompts)
        return run_episodes(here.agent, given, concurrency=1, output=output, **{limit: 2})  # type: ignore[arg-type]

    first = await keys_of(run("a", "b"))
    others = await keys_of(run("x", "y"))
    again = await keys_of(run("x", "y", "z"))
    mixed = await keys_of(run("x", "new", "newer"))

    assert (len(first), len(others), len(again), len(mixed)) == (2, 2, 0, 1)


async def test_a_run_that_has_enough_by_a_later_prompt_begins_no_earlier_one(world: Build, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    here = world("Hi" + END)
    async for _ in run_episodes(here.agent, ["c"], output=output):
        pass

    assert await keys_of(run_episodes(here.agent, ["a", "b", "c"], output=output, min_finished=1)) == []


async def test_a_run_says_whether_it_was_cut_short(world: Build) -> None:
    here = world(lambda text, _: Turn(text="late" + END, delay=3600) if text == "slow" else "Hi" + END)

    whole = run_episodes(here.agent, ["a", "b"], concurrency=1, deadline=3600)
    late = run_episodes(here.agent, ["a", "slow", "b"], concurrency=1, deadline=0.3)
    enough = run_episodes(here.agent, ["a", "slow", "b"], concurrency=3, min_finished=1)
    for run in (whole, late, enough):
        async for _ in run:
            pass

    assert [run.cut_short for run in (whole, late, enough)] == [False, True, False]


async def test_a_run_that_is_paused_before_it_begins_begins_no_episode(world: Build) -> None:
    run = run_episodes(world("Hi" + END).agent, ["a"])
    run.pause()
    task = asyncio.create_task(keys_of(run))
    for _ in range(50):
        await asyncio.sleep(0.001)
    begun = run.metrics()["episodes_started"]
    run.resume()

    assert begun == 0
    assert len(await task) == 1


@pytest.mark.parametrize("prompts", ["Hi", b"Hi", {"prompt": "Hi"}, None, 7])
async def test_what_is_no_iterable_of_prompts_is_refused(world: Build, prompts: Any) -> None:
    with pytest.raises(SGLangConfigError, match="prompts must be an iterable of prompts"):
        run_episodes(world("Hi" + END).agent, prompts)


async def test_prompts_of_any_iterable_are_taken(world: Build) -> None:
    async def later() -> AsyncIterator[str]:
        yield "a"

    def plain() -> Iterator[str]:
        yield "a"

    for prompts in (later(), plain(), ("a",), {"a"}, {"a": 1}.keys()):
        assert len(await keys_of(run_episodes(world("Hi" + END).agent, prompts))) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reward": 1.0}, "reward must be a callable"),
        ({"agent_factory": 7}, "agent_factory must be a callable"),
        ({"retry_on": ["timeout", TerminationReason.TIMEOUT]}, "no TerminationReason"),
        ({"retry_on": "timeout"}, "must be a collection of TerminationReason"),
        ({"retry_on": TerminationReason.TIMEOUT}, "must be a collection of TerminationReason"),
        ({"invocation_state": [1]}, "invocation_state must be a mapping"),
        ({"limits": ["max_tool_iters"]}, "limits must be a mapping"),
    ],
)
async def test_what_cannot_be_meant_is_told_before_anything_is_paid_for(
    world: Build, options: dict[str, Any], words: str
) -> None:
    here = world("Hi" + END)

    with pytest.raises(SGLangConfigError, match=words):
        run_episodes(**{"agent_factory": here.agent, "prompts": ["a"], **options})

    assert not here.agents

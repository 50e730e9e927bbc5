"""A reward runs beside everything else, and what it does wrong is its own episode's ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strands import tool

from strands_sglang import TerminationReason, read_records
from strands_sglang.runner import Episode, run_episode, run_episodes

from .conftest import END, Reached, World, call

Build = Callable[..., World]


async def test_a_plain_reward_that_waits_for_the_loop_does_not_stop_it(world: Build) -> None:
    loop = asyncio.get_running_loop()

    async def judged() -> float:
        return 1.0

    def reward(episode: Episode) -> float:
        return asyncio.run_coroutine_threadsafe(judged(), loop).result(60)

    run = run_episodes(world("Hi" + END).agent, ["a", "b"], reward=reward)

    assert [episode.reward async for episode in run] == [1.0, 1.0]


async def test_a_plain_reward_that_hangs_costs_its_episode_only_the_reward(
    world: Build, late_once_reached: type[Reached]
) -> None:
    never = threading.Event()

    def reward(episode: Episode) -> float:
        late_once_reached.reached = True
        never.wait()
        return 1.0

    episode = await run_episode(world("Done." + END).agent, "Go", reward=reward, timeout=0.3)
    never.set()

    assert episode.termination.reason is TerminationReason.REWARD_ERROR
    assert (episode.answer, episode.reward) == ("Done.", None)


@pytest.mark.parametrize("error", [StopIteration(), KeyboardInterrupt(), SystemExit(3)])
async def test_whatever_a_plain_reward_raises_is_a_reward_error(world: Build, error: BaseException) -> None:
    def reward(episode: Episode) -> float:
        raise error

    episode = await run_episode(world("Done." + END).agent, "Go", reward=reward)

    assert episode.termination.reason is TerminationReason.REWARD_ERROR
    assert type(error).__name__ in episode.termination.detail


async def test_a_plain_function_may_return_what_is_to_be_awaited(world: Build) -> None:
    async def judge(episode: Episode) -> float:
        return 0.5

    episode = await run_episode(world("Done." + END).agent, "Go", reward=lambda episode: judge(episode))

    assert episode.reward == 0.5


def in_metadata(episode: Episode) -> None:
    episode.trajectory.metadata["score"] = np.float32(1)


def in_credit(episode: Episode) -> None:
    episode.trajectory.turns[0].credit["advantage"] = float("nan")


def as_reward(episode: Episode) -> None:
    episode.trajectory.reward = float("inf")


@pytest.mark.parametrize(
    ("write", "words"),
    [(in_metadata, "metadata.score is a float32"), (in_credit, "'advantage'"), (as_reward, "reward is inf")],
)
async def test_what_a_reward_writes_and_json_cannot_hold_is_its_episodes_ending(
    world: Build, tmp_path: Path, write: Callable[[Episode], None], words: str
) -> None:
    output = tmp_path / "out.jsonl"

    def reward(episode: Episode) -> float | None:
        if episode.prompt.content != "bad":
            return 1.0
        write(episode)
        return None

    run = run_episodes(world("Hi" + END).agent, ["a", "bad", "b"], concurrency=1, reward=reward, output=output)
    episodes = {episode.prompt.content: episode async for episode in run}

    bad = episodes.pop("bad")
    assert bad.termination.reason is TerminationReason.REWARD_ERROR
    assert words in bad.termination.detail
    assert [episode.reward for episode in episodes.values()] == [1.0, 1.0]
    assert {record.id for record in read_records(output)} == {
        episode.trajectory.id for episode in [bad, *episodes.values()]
    }


async def test_what_a_tool_writes_and_json_cannot_hold_is_its_episodes_ending(world: Build, tmp_path: Path) -> None:
    here = world(lambda text, turn: call("spoil", "{}") if (text, turn) == ("bad", 0) else "Hi" + END)

    @tool
    async def spoil() -> str:
        """Write what JSON does not have into the record of the only agent that calls this."""
        for agent in here.agents:
            model: Any = agent.model
            if model.trajectory.turns:
                model.trajectory.metadata["score"] = {1: np.float32(1)}
        return "spoilt"

    here.options = {"tools": [spoil]}
    output = tmp_path / "out.jsonl"

    run = run_episodes(here.agent, ["bad", "a"], concurrency=1, output=output)
    endings = {episode.prompt.content: episode.termination async for episode in run}

    assert endings["bad"].reason is TerminationReason.TOOL_ERROR
    assert "metadata.score" in endings["bad"].detail
    assert endings["a"].finished
    assert len(list(read_records(output))) == 2

"""A KeyboardInterrupt of a tool's own is its episode's; one that Ctrl-C raised is the process's."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from strands import tool

from strands_sglang import TerminationReason, read_records
from strands_sglang.runner import run_episode, run_episodes

from .conftest import END, World, call

Build = Callable[..., World]


async def test_a_tools_own_ends_no_other_episode_and_all_are_saved(world: Build, tmp_path: Path) -> None:
    @tool
    async def leave() -> str:
        """Raise what Ctrl-C raises."""
        raise KeyboardInterrupt

    here = world(lambda text, turn: call("leave", "{}") if (text, turn) == ("bad", 0) else "Hi" + END, tools=[leave])
    output = tmp_path / "out.jsonl"

    run = run_episodes(here.agent, ["a", "bad", "b"], output=output)
    endings = {episode.prompt.content: episode.termination.reason async for episode in run}

    assert endings.pop("bad") is TerminationReason.TOOL_ERROR
    assert set(endings.values()) == {TerminationReason.TASK_COMPLETE}
    assert len(list(read_records(output))) == 3


def test_one_that_ctrl_c_raised_within_a_tool_is_raised(world: Build) -> None:
    @tool
    async def interrupted() -> str:
        """Be interrupted twice; asyncio raises at the second time, right here."""
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return "never"

    here = world(call("interrupted", "{}"), tools=[interrupted])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_episode(here.agent, "Go"))

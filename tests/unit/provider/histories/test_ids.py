"""Ids of calls: one history never holds two calls of one id that the model did not give one id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strands import Agent
from strands.session import FileSessionManager

from .scene import Scene, build, use


def ids(agent: Agent) -> list[str]:
    blocks = [block for message in agent.messages for block in message["content"]]
    return [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]


def saved(on: Scene, folder: Path) -> Any:
    return on.agent(session_manager=FileSessionManager(session_id="s", storage_dir=str(folder)))


async def test_a_session_restored_at_a_new_provider_has_new_ids(tmp_path: Path) -> None:
    old, new = build(use("note"), "One."), build(use("note"), "Two.")
    await saved(old, tmp_path).invoke_async("First?")

    restored = saved(new, tmp_path)
    await restored.invoke_async("Second?")

    assert len(set(ids(restored))) == len(ids(restored)) == 2


async def test_a_reset_in_the_middle_of_an_agents_life_goes_on_with_new_ids() -> None:
    on = build(use("note"), "One.", use("note"), "Two.")
    agent = on.agent()
    await agent.invoke_async("First?")

    on.model.reset()
    await agent.invoke_async("Second?")

    assert len(set(ids(agent))) == len(ids(agent)) == 2

"""What one episode, one attempt or one run leaves behind is not found by another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import MessageAddedEvent
from strands.middleware import ExecuteToolStage

from strands_sglang import SGLangConfigError, SGLangModel, TerminationReason
from strands_sglang.engine import Refusal
from strands_sglang.runner import Episode, EpisodeContext, run_episode, run_episodes

from .conftest import END, World, call

Build = Callable[..., World]


async def test_a_model_that_the_factory_shares_serves_one_episode_and_is_refused_to_the_others(world: Build) -> None:
    here = world("Hi" + END)
    model = SGLangModel(client=here.client, tokenizer=here.tokenizer)

    run = run_episodes(lambda: Agent(model=model, callback_handler=None), ["a", "b", "c"], reward=lambda _: 1.0)
    episodes = [episode async for episode in run]

    finished = [episode for episode in episodes if episode.finished]
    assert len(finished) == 1
    assert len(finished[0].trajectory.turns) == 1
    for episode in episodes:
        if not episode.finished:
            assert episode.termination.reason is TerminationReason.SETUP_ERROR
            assert "model" in episode.termination.detail
            assert (episode.trajectory.turns, episode.reward) == ([], None)
            assert isinstance(episode.error, SGLangConfigError)


async def test_a_model_that_gave_no_answer_is_not_used_again_either_unless_it_was_reset(world: Build) -> None:
    here = world(lambda text, _: Refusal(status=500, body="x") if text == "a" else "Hi" + END)
    model = SGLangModel(client=here.client, tokenizer=here.tokenizer)

    def factory() -> Agent:
        return Agent(model=model, callback_handler=None, retry_strategy=None)

    first, second = await run_episode(factory, "a"), await run_episode(factory, "b")
    model.reset()
    third = await run_episode(factory, "b")

    assert [episode.termination.reason for episode in (first, second, third)] == [
        TerminationReason.SERVER_ERROR,
        TerminationReason.SETUP_ERROR,
        TerminationReason.TASK_COMPLETE,
    ]


async def test_a_model_that_is_reset_while_its_episode_runs_is_told(world: Build) -> None:
    here = world(lambda _, turn: call() if turn == 0 else "Hi" + END)
    model = SGLangModel(client=here.client, tokenizer=here.tokenizer)

    @tool
    async def add(a: int, b: int) -> str:
        """Add, while the factory makes another agent."""
        model.reset()
        return str(a + b)

    def factory() -> Agent:
        return Agent(model=model, tools=[add], callback_handler=None)

    episode = await run_episode(factory, "Go", reward=lambda _: 1.0)

    assert episode.termination.reason is TerminationReason.SETUP_ERROR
    assert "was reset" in episode.termination.detail
    assert (len(episode.trajectory.turns), episode.reward) == (1, None)


@pytest.mark.parametrize(
    "content", [[{"text": "Hi"}], [{"role": "user", "content": [{"text": "Hi"}]}]], ids=["blocks", "messages"]
)
async def test_what_hooks_write_into_a_prompt_is_found_by_no_other_episode_attempt_or_run(
    world: Build, content: list[dict[str, Any]]
) -> None:
    asked: list[str] = []

    def answering(text: str, _: int) -> Any:
        asked.append(text)
        return Refusal(status=500, body="x") if len(asked) == 1 else "Hi" + END

    here = world(answering)

    def factory() -> Agent:
        agent = here.agent()

        def extend(event: MessageAddedEvent) -> None:
            if event.message["role"] == "user":
                event.message["content"].append({"text": " more"})

        agent.hooks.add_callback(MessageAddedEvent, extend)
        return agent

    rows = [{"prompt": content, "label": 1}]
    before = copy.deepcopy(rows)

    keys = set()
    for _ in range(2):
        run = run_episodes(factory, rows, group_size=2, concurrency=1, retries=1, retry_delay=0)
        keys |= {episode.key async for episode in run}

    assert len(keys) == 1
    assert len(asked) == 5
    assert len(set(asked)) == 1
    assert rows == before


async def test_what_strands_adds_to_a_message_is_no_part_of_its_key(world: Build) -> None:
    message: dict[str, Any] = {"role": "user", "content": [{"text": "Hi"}]}
    added = {**message, "tracking_id": "7", "metadata": {"usage": {}}}

    keys = {(await run_episode(world("Hi" + END).agent, [each])).key for each in (message, added)}

    assert len(keys) == 1


async def test_rows_and_state_are_each_attempts_own(world: Build) -> None:
    here = world(lambda _, turn: call() if turn == 0 else "Hi" + END)
    rows = [{"prompt": "Go", "id": "1", "counts": {"seen": 0}}]
    state: dict[str, Any] = {"log": [], "shared": object()}
    found: list[Any] = []

    def factory(context: EpisodeContext) -> Agent:
        context.prompt.row["counts"]["seen"] += 1
        agent = here.agent()

        async def look(invocation: Any, run: Any) -> Any:
            found.append((list(invocation.invocation_state["log"]), invocation.invocation_state["shared"]))
            invocation.invocation_state["log"].append(1)
            async for event in run(invocation):
                yield event

        agent.add_middleware(ExecuteToolStage, look)
        return agent

    def reward(episode: Episode) -> float:
        return float(episode.prompt.row["counts"]["seen"])

    run = run_episodes(factory, rows, group_size=3, concurrency=1, reward=reward, invocation_state=state)
    rewards = [episode.reward async for episode in run]

    assert rewards == [1.0] * 3
    assert found == [([], state["shared"])] * 3
    assert rows == [{"prompt": "Go", "id": "1", "counts": {"seen": 0}}]
    assert state["log"] == []

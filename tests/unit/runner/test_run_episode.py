from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent, tool

from strands_sglang import SGLangConfigError, TerminationReason, Trajectory
from strands_sglang.engine import Refusal, Step, Turn
from strands_sglang.runner import Episode, EpisodeContext, run_episode

from .conftest import END, Reached, World, call

Build = Callable[..., World]


async def test_an_episode_holds_record_messages_ending_answer_and_numbers(world: Build) -> None:
    here = world(lambda _, turn: call() if turn == 0 else "It is 3." + END)

    episode = await run_episode(here.agent, "What is 1 + 2?")

    assert episode.termination.reason is TerminationReason.TASK_COMPLETE
    assert episode.answer == "It is 3."
    assert episode.finished
    assert [message["role"] for message in episode.messages] == ["user", "assistant", "user", "assistant"]
    assert episode.trajectory is here.agents[0].model.trajectory  # type: ignore[attr-defined]
    assert episode.trajectory.termination == episode.termination
    assert (episode.metrics["turns"], episode.metrics["tool_calls"], episode.metrics["invocations"]) == (2, 1, 1)
    assert episode.metrics["sampled_tokens"] == sum(len(turn.sampled) for turn in episode.trajectory.turns)
    assert len(episode.samples()) == 1


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Turn(text="Cut", finish="length"), TerminationReason.MAX_TOKENS),
        (Refusal(status=500, body="Internal Server Error"), TerminationReason.SERVER_ERROR),
        (Refusal(status=503), TerminationReason.THROTTLED),
        (Refusal(status=400, body={"error": {"message": "bad"}}), TerminationReason.BAD_REQUEST),
    ],
)
async def test_an_ending_is_never_raised(world: Build, step: Step, reason: TerminationReason) -> None:
    here = world(lambda _, turn: call() if turn == 0 else step)

    episode = await run_episode(here.agent, "Go")

    assert episode.termination.reason is reason
    assert episode.error is not None
    assert len(episode.trajectory.turns) == 1 + (reason is TerminationReason.MAX_TOKENS)
    assert bool(episode.samples()) is episode.termination.trainable


async def test_the_text_of_a_truncated_answer_is_there(world: Build) -> None:
    episode = await run_episode(world(lambda *_: Turn(text="Half an ans", finish="length")).agent, "Go")

    assert episode.answer == "Half an ans"


@pytest.mark.parametrize("tool_name", ["hang", "block"])
async def test_a_hanging_tool_is_timed_out_and_its_turn_kept(
    world: Build, tool_name: str, late_once_reached: type[Reached]
) -> None:
    here = world(call(tool_name, "{}"))

    episode = await run_episode(here.agent, "Go", timeout=0.3)

    assert episode.termination.reason is TerminationReason.TIMEOUT
    assert "0.3 s" in episode.termination.detail
    assert len(episode.trajectory.turns) == 1
    assert not episode.finished


async def test_a_timeout_ends_the_generation_on_the_server(world: Build, late_once_reached: type[Reached]) -> None:
    def answering(text: str, turn: int) -> Turn:
        late_once_reached.reached = True
        return Turn(text="late" + END, delay=3600)

    here = world(answering)

    episode = await run_episode(here.agent, "Go", timeout=0.3)

    assert episode.termination.reason is TerminationReason.TIMEOUT
    assert len(here.engine.aborts) == 1
    assert episode.trajectory.turns == []


async def test_what_does_not_let_itself_be_cancelled_is_left_behind(
    world: Build,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    late_once_reached: type[Reached],
) -> None:
    monkeypatch.setattr("strands_sglang.runner.attempt.GRACE", 0.1)
    release = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Catch everything."""
        late_once_reached.reached = True
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    here = world(call("stubborn", "{}"), tools=[stubborn])

    with caplog.at_level(logging.WARNING):
        episode = await run_episode(here.agent, "Go", timeout=0.3)
    release.set()
    while asyncio.all_tasks() != {asyncio.current_task()}:
        await asyncio.sleep(0.01)

    assert episode.termination.reason is TerminationReason.TIMEOUT
    assert "left behind" in caplog.text
    assert len(episode.trajectory.turns) == 1  # it asks for nothing more once it is let go


class EscapeError(BaseException):
    """What a test framework or an async library raises past `Exception`."""


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("of its own"), EscapeError("past it all")]
)
@pytest.mark.parametrize("synchronous", [False, True])
async def test_what_escapes_from_a_tool_ends_its_episode_and_nothing_else(
    world: Build, error: BaseException, synchronous: bool
) -> None:
    @tool(name="escape")
    async def escape() -> str:
        """Raise."""
        raise error

    @tool(name="escape")
    def escape_in_thread() -> str:
        """Raise."""
        raise error

    here = world(lambda _, turn: call("escape", "{}") if turn == 0 else "done" + END)
    here.options = {"tools": [escape_in_thread if synchronous else escape]}

    episode = await run_episode(here.agent, "Go")

    assert episode.termination.reason is TerminationReason.TOOL_ERROR
    assert type(error).__name__ in episode.termination.detail
    assert episode.messages[-1]["content"][0]["toolResult"]["status"] == "error"
    assert len(episode.trajectory.turns) == 1
    assert not episode.samples()


async def test_a_factory_that_fails_is_an_ending(world: Build) -> None:
    def broken() -> Agent:
        raise KeyError("no such environment")

    def leaves() -> Agent:
        sys.exit(1)

    def refused() -> Agent:
        raise ConnectionRefusedError("the sandbox is down")

    endings = [(await run_episode(factory, "Go")).termination for factory in (broken, leaves, refused)]

    assert [ending.reason for ending in endings] == [
        TerminationReason.SETUP_ERROR,
        TerminationReason.SETUP_ERROR,
        TerminationReason.CONNECTION_ERROR,
    ]


@pytest.mark.parametrize("error", [asyncio.CancelledError, ValueError])
async def test_a_task_that_cancels_itself_is_an_ending(error: type[BaseException]) -> None:
    async def factory() -> Agent:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        finally:
            if error is ValueError:
                raise ValueError("while it was cancelled")
        raise AssertionError

    episode = await run_episode(factory, "Go")

    assert episode.termination.reason is TerminationReason.CANCELLED
    assert not episode.finished


async def test_an_agent_without_our_model_is_refused_by_name(world: Build) -> None:
    episode = await run_episode(lambda: object(), "Go")

    assert isinstance(episode.error, SGLangConfigError)
    assert "it returned a object" in str(episode.error)
    assert episode.termination.reason is TerminationReason.SETUP_ERROR


async def test_an_agent_that_was_used_before_is_refused(world: Build) -> None:
    agent = world("Hi" + END).agent()

    first, second = [await run_episode(lambda: agent, "Go") for _ in range(2)]

    assert first.finished
    assert isinstance(second.error, SGLangConfigError)
    assert len(first.trajectory.turns) == 1


async def test_a_factory_may_be_asynchronous_and_see_what_it_is_called_for(world: Build) -> None:
    here, seen = world("Hi" + END), []

    async def factory(context: EpisodeContext) -> Agent:
        seen.append(context)
        return here.agent()

    await run_episode(factory, {"prompt": "Go", "id": 7, "label": "x"})

    assert (seen[0].key, seen[0].prompt.content, dict(seen[0].prompt.row)) == ("7", "Go", {"label": "x"})


async def test_limits_end_an_episode_without_an_error(world: Build) -> None:
    episode = await run_episode(world(call()).agent, "Go", limits={"max_tool_iters": 3})

    assert episode.termination.reason is TerminationReason.MAX_TOOL_ITERATIONS
    assert episode.error is None
    assert len(episode.trajectory.turns) == 3


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_reward_is_given_to_the_finished_episode(world: Build, asynchronous: bool) -> None:
    def plain(episode: Episode) -> float:
        return float("3" in episode.answer)

    async def later(episode: Episode) -> float:
        await asyncio.sleep(0)
        return plain(episode)

    episode = await run_episode(world("It is 3." + END).agent, "Go", reward=later if asynchronous else plain)

    assert episode.reward == 1.0


@pytest.mark.parametrize("given", [ValueError("no judge"), float("nan"), "a lot"])
async def test_a_reward_that_fails_is_an_ending_of_its_own_and_the_first_one_is_kept(world: Build, given: Any) -> None:
    def judge(episode: Episode) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    episode = await run_episode(world("Done." + END).agent, "Go", reward=judge)

    assert episode.termination.reason is TerminationReason.REWARD_ERROR
    assert episode.metrics["ended_before_reward"]["reason"] == "task_complete"
    assert episode.reward is None
    assert len(episode.trajectory.turns) == 1
    assert not episode.samples()


async def test_a_reward_that_hangs_costs_its_episode_only_the_reward(
    world: Build, late_once_reached: type[Reached]
) -> None:
    async def judge(episode: Episode) -> float:
        late_once_reached.reached = True
        await asyncio.Event().wait()
        return 1.0

    episode = await run_episode(world("Done." + END).agent, "Go", reward=judge, timeout=0.3)

    assert episode.termination.reason is TerminationReason.REWARD_ERROR
    assert episode.answer == "Done."


async def test_infrastructure_is_not_judged(world: Build) -> None:
    episode = await run_episode(world(lambda *_: Refusal(status=500, body="x")).agent, "Go", reward=lambda _: 1.0)

    assert episode.reward is None


async def test_a_retryable_ending_is_tried_again_with_a_fresh_agent_and_told(world: Build) -> None:
    asked = iter([Refusal(status=500, body="x"), Refusal(status=503), Turn(text="Done." + END)])
    here = world(lambda *_: next(asked))

    episode = await run_episode(here.agent, "Go", retries=3, retry_delay=0)

    assert episode.finished
    assert episode.retries == 2
    assert [attempt["reason"] for attempt in episode.metrics["attempts"]] == ["server_error", "throttled"]
    assert len(here.agents) == 3


async def test_what_is_not_retryable_is_not_tried_again(world: Build) -> None:
    here = world(lambda *_: Refusal(status=400, body={"error": {"message": "bad"}}))

    episode = await run_episode(here.agent, "Go", retries=3, retry_delay=0)

    assert episode.retries == 0
    assert len(here.agents) == 1


async def test_cancelling_the_caller_ends_the_generation_and_leaves_no_task(world: Build) -> None:
    here = world(lambda *_: Turn(text="late" + END, delay=3600))
    task = asyncio.create_task(run_episode(here.agent, "Go"))
    while not here.engine.requests:
        await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(here.engine.aborts) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_long_episode_goes_on_over_invocations_as_one_record_without_branches(world: Build) -> None:
    here = world(lambda _, turn: call() if turn < 50 else "Done." + END)

    episode = await run_episode(here.agent, "Go", turns_per_invocation=7)

    assert episode.answer == "Done."
    assert episode.metrics["invocations"] == 8
    assert len(episode.trajectory.branches) == 1
    assert len(episode.trajectory.turns) == 51
    prompts = here.engine.prompts
    for before, turn, after in zip(prompts, episode.trajectory.turns, prompts[1:], strict=False):
        assert after[: len(before) + len(turn.sampled)] == [*before, *turn.sampled.ids]
    assert len(episode.messages) == 102  # the default conversation manager would have kept 40 at the first seam


@pytest.mark.parametrize("limit", [{"max_tool_iters": 10}, {"max_model_calls": 10}, {"max_messages": 21}])
async def test_limits_count_across_the_seams_also_at_one(world: Build, limit: dict[str, int]) -> None:
    episodes = [
        await run_episode(world(call()).agent, "Go", turns_per_invocation=turns, limits=limit) for turns in (5, 3, None)
    ]

    assert [len(episode.trajectory.turns) for episode in episodes] == [10, 10, 10]
    assert len({episode.termination for episode in episodes}) == 1


async def test_state_of_the_invocation_lives_across_the_seams(world: Build) -> None:
    here = world(lambda _, turn: call() if turn < 4 else "Done." + END)

    episode = await run_episode(
        here.agent, "Go", turns_per_invocation=2, invocation_state={"request_state": {"kept": 1}}
    )

    assert episode.result.state["kept"] == 1
    assert episode.metrics["invocations"] == 3


async def test_what_an_episode_leaves_in_its_state_is_not_found_by_the_next(world: Build) -> None:
    state: dict[str, Any] = {"request_state": {}}

    episode = await run_episode(
        world(call()).agent, "Go", invocation_state=state, limits={"max_tool_iters": 1}, turns_per_invocation=None
    )

    assert episode.result.state["loop_limit"]["limit"] == "max_tool_iters"
    assert state == {"request_state": {}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": {"max_tool_itres": 3}}, "did you mean 'max_tool_iters'"),
        ({"limits": {"max_tool_iters": -1}}, "max_tool_iters"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"retries": -1}, "retries"),
        ({"turns_per_invocation": 0}, "turns_per_invocation"),
        ({"retry_delay": -1}, "retry_delay"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_runs(
    world: Build, options: dict[str, Any], words: str
) -> None:
    here = world("Hi" + END)

    with pytest.raises(SGLangConfigError, match=words):
        await run_episode(here.agent, "Go", **options)

    assert not here.agents


@pytest.mark.parametrize("prompt", [7, {"text": "no prompt"}, {"prompt": 7}, None, [1, 2], {"prompt": ["a"]}])
async def test_what_is_no_prompt_is_refused(world: Build, prompt: Any) -> None:
    with pytest.raises(SGLangConfigError, match="prompt"):
        await run_episode(world("Hi" + END).agent, prompt)


async def test_an_episode_is_read_back_from_its_record(world: Build) -> None:
    episode = await run_episode(
        world("Done." + END).agent, {"prompt": [{"text": "Go"}], "label": 3}, reward=lambda _: 0.5
    )

    line = json.dumps(episode.record().to_dict())
    again = Episode.of_record(Trajectory.from_dict(json.loads(line)))

    assert (again.answer, again.reward, again.key) == (episode.answer, 0.5, episode.key)
    assert again.prompt == episode.prompt
    assert again.termination == episode.termination
    assert [message["content"] for message in again.messages] == [message["content"] for message in episode.messages]
    assert again.metrics == episode.metrics

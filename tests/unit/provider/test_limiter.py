from __future__ import annotations

import pytest
from strands.types.exceptions import EventLoopException

from strands_sglang import LoopLimiter, TerminationReason, classify
from strands_sglang.engine import Turn
from strands_sglang.errors import (
    LoopLimitReachedError,
    MaxMessagesReachedError,
    MaxToolCallsReachedError,
    MaxToolIterationsReachedError,
    SGLangConfigError,
)

from .conftest import END, call
from .test_episode import Build, check_record

TWO_CALLS = call() + "\n" + call(arguments='{"expression": "1 + 1"}') + END


LIMITS = [
    ({"max_tool_iters": 2}, MaxToolIterationsReachedError, TerminationReason.MAX_TOOL_ITERATIONS),
    ({"max_tool_calls": 3}, MaxToolCallsReachedError, TerminationReason.MAX_TOOL_CALLS),
    ({"max_messages": 5}, MaxMessagesReachedError, TerminationReason.MAX_MESSAGES),
    ({"max_model_calls": 2}, LoopLimitReachedError, TerminationReason.MAX_MODEL_CALLS),
    ({"max_sampled_tokens": 60}, LoopLimitReachedError, TerminationReason.MAX_SAMPLED_TOKENS),
    ({"max_total_tokens": 400}, LoopLimitReachedError, TerminationReason.MAX_TOTAL_TOKENS),
]


@pytest.mark.parametrize(("limits", "error", "reason"), LIMITS)
async def test_a_limit_raises_at_a_message_boundary(
    stage: Build, limits: dict[str, int], error: type[LoopLimitReachedError], reason: TerminationReason
) -> None:
    on = stage(*[TWO_CALLS] * 4)
    limiter = LoopLimiter(**limits)  # type: ignore[arg-type]
    agent = on.agent(hooks=[limiter])

    with pytest.raises((EventLoopException, error)) as raised:
        await agent.invoke_async("Go")

    check_record(on)
    assert classify(raised.value).reason is reason
    assert "toolResult" in agent.messages[-1]["content"][0]
    assert (limiter.tool_iter_count, limiter.tool_call_count, limiter.message_count) == (2, 4, 5)


@pytest.mark.parametrize(("limits", "error", "reason"), LIMITS)
async def test_a_limit_stops_without_an_error_or_an_invented_message(
    stage: Build, limits: dict[str, int], error: type[LoopLimitReachedError], reason: TerminationReason
) -> None:
    on = stage(*[TWO_CALLS] * 2, "Going on." + END)
    agent = on.agent(hooks=[LoopLimiter(**limits, on_limit="stop")])

    result = await agent.invoke_async("Go")

    check_record(on)
    assert classify(result).reason is reason
    assert len(on.model.trajectory.turns) == 2
    assert "toolResult" in agent.messages[-1]["content"][0]


async def test_an_agent_that_was_stopped_goes_on_where_it_was(stage: Build) -> None:
    on = stage(TWO_CALLS, "Done." + END)
    limiter = LoopLimiter(max_tool_iters=1, on_limit="stop")
    agent = on.agent(hooks=[limiter])
    await agent.invoke_async("Go")

    limiter.reset()
    result = await agent.invoke_async(None)

    check_record(on)
    assert str(result).strip() == "Done."
    assert len(on.model.trajectory.branches) == 1


async def test_a_spent_budget_raises_before_the_first_answer(stage: Build) -> None:
    on = stage("One." + END)
    agent = on.agent(hooks=[LoopLimiter(max_messages=3, on_limit="stop")])
    await agent.invoke_async("First?")

    with pytest.raises(MaxMessagesReachedError):
        await agent.invoke_async("Second?")


async def test_seconds_are_counted_from_the_first_invocation(stage: Build) -> None:
    on = stage(Turn(text=TWO_CALLS, delay=0.1), "Done." + END)
    limiter = LoopLimiter(max_seconds=0.05, on_limit="stop")

    result = await on.agent(hooks=[limiter]).invoke_async("Go")

    assert classify(result).reason is TerminationReason.MAX_SECONDS


async def test_calls_beyond_the_parallel_limit_are_told_to_the_model(stage: Build) -> None:
    on = stage(TWO_CALLS, "Done." + END)
    limiter = LoopLimiter(max_parallel_tool_calls=1)

    await on.agent(hooks=[limiter]).invoke_async("Go")

    check_record(on)
    assert limiter.cancelled_tool_call_count == 1
    assert "this one was not executed" in on.text(on.prompts[1])


async def test_counters_go_on_until_reset(stage: Build) -> None:
    on = stage("One." + END, "Two." + END)
    limiter = LoopLimiter()
    agent = on.agent(hooks=[limiter])

    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")
    counted = limiter.message_count
    limiter.reset()

    assert (counted, limiter.message_count) == (4, 0)


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_limit_that_is_none_is_refused(limit: int) -> None:
    with pytest.raises(SGLangConfigError, match="max_tool_iters must be None or an integer"):
        LoopLimiter(max_tool_iters=limit)


def test_an_unknown_way_to_end_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="on_limit must be 'raise' or 'stop'"):
        LoopLimiter(on_limit="halt")  # type: ignore[arg-type]

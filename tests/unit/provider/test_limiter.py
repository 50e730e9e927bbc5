from __future__ import annotations

import pytest
from strands.types.exceptions import EventLoopException

from strands_sglang import LoopLimiter, classify
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


@pytest.mark.parametrize(
    ("limits", "error", "turns"),
    [
        ({"max_tool_iters": 2}, MaxToolIterationsReachedError, 2),
        ({"max_tool_calls": 3}, MaxToolCallsReachedError, 2),
        ({"max_messages": 5}, MaxMessagesReachedError, 2),
    ],
)
async def test_a_limit_ends_the_loop_at_a_message_boundary(
    stage: Build, limits: dict[str, int], error: type[LoopLimitReachedError], turns: int
) -> None:
    on = stage(*[TWO_CALLS] * 4)
    limiter = LoopLimiter(**limits)
    agent = on.agent(hooks=[limiter])

    with pytest.raises((EventLoopException, error)) as raised:
        await agent.invoke_async("Go")

    check_record(on)
    assert len(on.model.trajectory.turns) == turns
    assert classify(raised.value).detail.startswith(error.__name__)
    assert "toolResult" in agent.messages[-1]["content"][0]
    assert (limiter.tool_iter_count, limiter.tool_call_count, limiter.message_count) == (2, 4, 5)


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

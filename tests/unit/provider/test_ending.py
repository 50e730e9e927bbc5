from __future__ import annotations

import asyncio

import pytest
from strands.types.exceptions import EventLoopException, MaxTokensReachedException

from strands_sglang import TerminationReason, classify, errors
from strands_sglang.engine import Refusal, Turn

from .conftest import END, call
from .test_episode import Build


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MaxTokensReachedException("cut"), TerminationReason.MAX_TOKENS),
        (errors.MaxToolIterationsReachedError("enough", limit="max_tool_iters"), TerminationReason.MAX_TOOL_ITERATIONS),
        (errors.SGLangTimeoutError("late"), TerminationReason.TIMEOUT),
        (errors.SGLangConnectionError("gone"), TerminationReason.CONNECTION_ERROR),
        (errors.SGLangHTTPError("teapot", status=418), TerminationReason.BAD_REQUEST),
        (errors.SGLangServerError("oops", status=500), TerminationReason.SERVER_ERROR),
        (RecursionError(), TerminationReason.RECURSION_DEPTH),
        (TimeoutError(), TerminationReason.TIMEOUT),
        (asyncio.CancelledError(), TerminationReason.CANCELLED),
        (ValueError("a mistake in the agent's own code"), TerminationReason.UNCLASSIFIED),
    ],
)
def test_an_error_is_classified_however_deep_it_is_wrapped(error: BaseException, reason: TerminationReason) -> None:
    wrapped = EventLoopException(EventLoopException(error))  # type: ignore[arg-type]
    caused = RuntimeError("outer")
    caused.__cause__ = error

    found = [classify(outcome).reason for outcome in (error, wrapped, caused, BaseExceptionGroup("many", [error]))]

    assert found == [reason] * 4


def test_a_class_whose_name_sounds_like_a_timeout_is_none() -> None:
    class SessionTimeoutPolicyError(Exception):
        pass

    assert classify(SessionTimeoutPolicyError()).reason is TerminationReason.UNCLASSIFIED


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (["Done." + END], TerminationReason.TASK_COMPLETE),
        ([Turn(text="Half", finish="length")], TerminationReason.MAX_TOKENS),
        ([call() + END, Refusal(status=500, body="Internal Server Error")], TerminationReason.SERVER_ERROR),
        ([call() + END, Refusal(status=503)], TerminationReason.THROTTLED),
    ],
)
async def test_endings_of_real_episodes(stage: Build, steps: list[str], reason: TerminationReason) -> None:
    agent = stage(*steps).agent(retry_strategy=None)

    try:
        ending = classify(await agent.invoke_async("Go"))
    except Exception as error:
        ending = classify(error)

    assert ending.reason is reason


def test_infrastructure_is_sampled_again_and_not_trained() -> None:
    ending = classify(errors.SGLangThrottledError("busy", status=503))

    assert ending.retryable
    assert not ending.trainable

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from strands import tool
from strands.agent import AgentResult
from strands.hooks.events import BeforeToolCallEvent
from strands.interrupt import Interrupt, InterruptException
from strands.telemetry.metrics import EventLoopMetrics
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    MCPClientInitializationError,
    ModelThrottledException,
    StructuredOutputException,
)

from strands_sglang import LoopLimiter, Termination, TerminationReason, classify, errors
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
        (KeyboardInterrupt(), TerminationReason.CANCELLED),
        (ContextWindowOverflowException("full"), TerminationReason.CONTEXT_OVERFLOW),
        (ModelThrottledException("busy"), TerminationReason.THROTTLED),
        (StructuredOutputException("no"), TerminationReason.STRUCTURED_OUTPUT_FAILED),
        (errors.SGLangAbortedError("aborted"), TerminationReason.ABORTED),
        (errors.SGLangGenerationError("NaN"), TerminationReason.SERVER_ERROR),
        (errors.SGLangConfigError("no such option"), TerminationReason.SETUP_ERROR),
        (errors.HistoryDivergedError("changed"), TerminationReason.HISTORY_DIVERGED),
        (errors.ControlTokenError("refused", literal="<x>"), TerminationReason.TOKENIZATION_ERROR),
        (errors.LoopLimitReachedError("enough", limit="max_failed_calls"), TerminationReason.PARSE_FAILURE),
        (errors.LoopLimitReachedError("a subclass of someone's own"), TerminationReason.HOST_LIMIT),
        (InterruptException(Interrupt("1", "ask")), TerminationReason.INTERRUPT),
        (MCPClientInitializationError("no tools"), TerminationReason.SETUP_ERROR),
        (ValueError("a mistake in the agent's own code"), TerminationReason.UNCLASSIFIED),
    ],
)
def test_an_error_is_classified_however_deep_it_is_wrapped(error: BaseException, reason: TerminationReason) -> None:
    wrapped = EventLoopException(EventLoopException(error))  # type: ignore[arg-type]
    caused = RuntimeError("outer")
    caused.__cause__ = error

    handled = RuntimeError("while handling it")
    handled.__context__ = error

    group = BaseExceptionGroup("many", [asyncio.CancelledError(), error])
    found = [classify(outcome).reason for outcome in (error, wrapped, caused, handled, group)]

    # A task group cancels its other tasks: that one of them says so tells nothing.
    assert found[:4] == [reason] * 4
    assert found[4] is reason or reason is TerminationReason.UNCLASSIFIED


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


RESULTS = {
    "end_turn": TerminationReason.TASK_COMPLETE,
    "stop_sequence": TerminationReason.STOP_SEQUENCE,
    "max_tokens": TerminationReason.MAX_TOKENS,
    "cancelled": TerminationReason.CANCELLED,
    "interrupt": TerminationReason.INTERRUPT,
    "content_filtered": TerminationReason.GUARDRAIL,
    "guardrail_intervened": TerminationReason.GUARDRAIL,
    "limit_turns": TerminationReason.HOST_LIMIT,
    "a reason of a later release": TerminationReason.UNCLASSIFIED,
}


def result_of(stop_reason: str, *calls: str) -> AgentResult:
    content: Any = [{"toolUse": {"toolUseId": "1", "name": name, "input": {}}} for name in calls]
    message: Any = {"role": "assistant", "content": content}
    return AgentResult(stop_reason, message, EventLoopMetrics(), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(("stop_reason", "reason"), RESULTS.items())
def test_a_result_is_classified_by_its_stop_reason(stop_reason: str, reason: TerminationReason) -> None:
    assert classify(result_of(stop_reason)).reason is reason


def test_a_result_that_ends_on_unreadable_calls_alone_is_a_parse_failure() -> None:
    assert classify(result_of("tool_use", "invalid_tool_call")).reason is TerminationReason.PARSE_FAILURE
    assert classify(result_of("tool_use", "invalid_tool_call", "add")).reason is TerminationReason.TASK_COMPLETE


def test_an_error_whose_text_cannot_be_had_is_classified_all_the_same() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert classify(BrokenError()).reason is TerminationReason.UNCLASSIFIED


def test_an_error_that_escapes_from_around_a_tool_is_told_from_one_of_the_server(stage: Build) -> None:
    def refuse(event: BeforeToolCallEvent) -> None:
        raise TimeoutError("the sandbox gave no answer")

    on = stage(call() + END)
    agent = on.agent()
    agent.add_hook(refuse, BeforeToolCallEvent)

    with pytest.raises(EventLoopException) as raised:
        agent("Go")

    assert classify(raised.value).reason is TerminationReason.TOOL_ERROR


async def test_unreadable_calls_end_an_episode_where_the_limiter_says_so(stage: Build) -> None:
    on = stage(*[call(arguments="{oops") + END] * 2, "Never." + END)
    agent = on.agent(hooks=[LoopLimiter(max_failed_calls=2, on_limit="stop")])

    ending = classify(await agent.invoke_async("Go"))

    assert ending.reason is TerminationReason.PARSE_FAILURE
    assert ending.trainable


async def test_a_tool_that_raises_ends_nothing(stage: Build) -> None:
    @tool
    def broken() -> str:
        """Fail."""
        raise ConnectionError("the tool's own")

    agent = stage(call("broken", "{}") + END, "Done." + END).agent(tools=[broken])

    assert classify(await agent.invoke_async("Go")).reason is TerminationReason.TASK_COMPLETE


def test_every_reason_is_an_ending_of_the_episode_or_a_fault_and_never_both() -> None:
    for reason in TerminationReason:
        ending = Termination(reason=reason)
        assert not (ending.retryable and ending.finished)
        assert ending.finished or not ending.trainable

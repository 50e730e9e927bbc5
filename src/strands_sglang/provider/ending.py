"""Any ending of an agent's invocation -> why it ended, by type, never by the letters of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from strands.agent import AgentResult
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    ModelThrottledException,
    StructuredOutputException,
)

from strands_sglang import errors
from strands_sglang.termination import LOOP_LIMIT_STATE, OF_LOOP_LIMIT, Termination, TerminationReason

_OF_RESULT = {
    "end_turn": TerminationReason.TASK_COMPLETE,
    # An invocation that ends so succeeded by structured output, or was stopped by a hook after the tools had run.
    "tool_use": TerminationReason.TASK_COMPLETE,
    "stop_sequence": TerminationReason.STOP_SEQUENCE,
    "max_tokens": TerminationReason.MAX_TOKENS,
    "cancelled": TerminationReason.CANCELLED,
    "interrupt": TerminationReason.INTERRUPT,
    "checkpoint": TerminationReason.INTERRUPT,
    "content_filtered": TerminationReason.GUARDRAIL,
    "guardrail_intervened": TerminationReason.GUARDRAIL,
    "limit_turns": TerminationReason.HOST_LIMIT,
    "limit_output_tokens": TerminationReason.HOST_LIMIT,
    "limit_total_tokens": TerminationReason.HOST_LIMIT,
}

# In this order: a class stands before those it inherits from.
_OF_ERROR: tuple[tuple[type[BaseException], TerminationReason], ...] = (
    (MaxTokensReachedException, TerminationReason.MAX_TOKENS),
    (ContextWindowOverflowException, TerminationReason.CONTEXT_OVERFLOW),
    (errors.SGLangContextLengthError, TerminationReason.CONTEXT_OVERFLOW),
    (ModelThrottledException, TerminationReason.THROTTLED),
    (errors.SGLangThrottledError, TerminationReason.THROTTLED),
    (errors.SGLangAbortedError, TerminationReason.ABORTED),
    (errors.SGLangTimeoutError, TerminationReason.TIMEOUT),
    (errors.SGLangConnectionError, TerminationReason.CONNECTION_ERROR),
    (errors.SGLangServerError, TerminationReason.SERVER_ERROR),
    (errors.SGLangGenerationError, TerminationReason.SERVER_ERROR),
    (errors.SGLangDecodingError, TerminationReason.SERVER_ERROR),
    (errors.SGLangHTTPError, TerminationReason.BAD_REQUEST),
    (errors.TokenizationError, TerminationReason.TOKENIZATION_ERROR),
    (errors.HistoryDivergedError, TerminationReason.HISTORY_DIVERGED),
    (StructuredOutputException, TerminationReason.STRUCTURED_OUTPUT_FAILED),
    (RecursionError, TerminationReason.RECURSION_DEPTH),
    (asyncio.CancelledError, TerminationReason.CANCELLED),
    (TimeoutError, TerminationReason.TIMEOUT),
    (ConnectionError, TerminationReason.CONNECTION_ERROR),
)


def classify(outcome: AgentResult | BaseException) -> Termination:
    """Say why an invocation ended.

    Args:
        outcome: What `agent.invoke_async` returned or raised.

    Returns:
        The reason, with the words of the innermost error that tells it.
    """
    if isinstance(outcome, AgentResult):
        return _of_result(outcome)
    for error in _chain(outcome):
        if isinstance(error, errors.LoopLimitReachedError):
            reason = OF_LOOP_LIMIT.get(error.limit, TerminationReason.UNCLASSIFIED)
            return Termination(reason=reason, detail=f"{type(error).__name__}: {error}")
        for kind, reason in _OF_ERROR:
            if isinstance(error, kind):
                return Termination(reason=reason, detail=f"{type(error).__name__}: {error}")
    return Termination(reason=TerminationReason.UNCLASSIFIED, detail=f"{type(outcome).__name__}: {outcome}")


def _of_result(result: AgentResult) -> Termination:
    """Say why an invocation that returned has ended."""
    stopped = result.state.get(LOOP_LIMIT_STATE) if isinstance(result.state, dict) else None
    if result.stop_reason == "cancelled" and stopped:
        return Termination(reason=OF_LOOP_LIMIT[stopped["limit"]], detail=f"{stopped['limit']}={stopped['value']}")
    reason = _OF_RESULT.get(result.stop_reason, TerminationReason.UNCLASSIFIED)
    return Termination(reason=reason, detail=result.stop_reason)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, outermost first: Strands' wrapper, groups, causes."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, EventLoopException):
            waiting.append(current.original_exception)
        elif isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        else:
            yield current
        if current.__cause__ is not None:
            waiting.append(current.__cause__)

"""Any ending of an agent's invocation -> why it ended, by type, never by the letters of a name.

An error is looked at with all that it wraps: Strands' wrapper, groups, causes, and the errors it was raised in the
handling of. The outermost one that tells a reason decides; one that only says "cancelled" decides where no other tells.
Nothing is raised here, whatever the outcome is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from strands.agent import AgentResult
from strands.interrupt import InterruptException
from strands.tools import executors
from strands.types.exceptions import (
    ConcurrencyException,
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    MCPClientInitializationError,
    ModelThrottledException,
    StructuredOutputException,
    ToolProviderException,
)

from strands_sglang import errors
from strands_sglang.termination import LOOP_LIMIT_STATE, OF_LOOP_LIMIT, Termination, TerminationReason

from .messages import INVALID_TOOL_CALL

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
    (errors.SGLangConfigError, TerminationReason.SETUP_ERROR),
    (StructuredOutputException, TerminationReason.STRUCTURED_OUTPUT_FAILED),
    (InterruptException, TerminationReason.INTERRUPT),
    (MCPClientInitializationError, TerminationReason.SETUP_ERROR),
    (ToolProviderException, TerminationReason.SETUP_ERROR),
    (ConcurrencyException, TerminationReason.SETUP_ERROR),
    (RecursionError, TerminationReason.RECURSION_DEPTH),
)
# Of Python itself: raised in a tool they say nothing about the server.
_OF_PLAIN_ERROR: tuple[tuple[type[BaseException], TerminationReason], ...] = (
    (TimeoutError, TerminationReason.TIMEOUT),
    (ConnectionError, TerminationReason.CONNECTION_ERROR),
)
_CANCELLED = (asyncio.CancelledError, KeyboardInterrupt)


def classify(outcome: AgentResult | BaseException) -> Termination:
    """Say why an invocation ended.

    Args:
        outcome: What `agent.invoke_async` returned or raised.

    Returns:
        The reason, with the words of the outermost error that tells it.
    """
    if isinstance(outcome, AgentResult):
        return _of_result(outcome)
    chain = list(_chain(outcome))
    for error in chain:
        reason = _reason_of(error)
        if reason is not None:
            return Termination(reason=reason, detail=described(error))
    for error in chain:
        if isinstance(error, _CANCELLED):
            return Termination(reason=TerminationReason.CANCELLED, detail=described(error))
    return Termination(reason=TerminationReason.UNCLASSIFIED, detail=described(chain[0] if chain else outcome))


def described(error: BaseException) -> str:
    """Return an error's class and words on one line, as the detail of a termination."""
    try:
        words = str(error)
    except Exception as broken:
        words = f"its text cannot be had: {type(broken).__name__}"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _of_result(result: AgentResult) -> Termination:
    """Say why an invocation that returned has ended."""
    stopped = result.state.get(LOOP_LIMIT_STATE) if isinstance(result.state, dict) else None
    if result.stop_reason == "cancelled" and stopped:
        return Termination(reason=OF_LOOP_LIMIT[stopped["limit"]], detail=f"{stopped['limit']}={stopped['value']}")
    reason = _OF_RESULT.get(result.stop_reason, TerminationReason.UNCLASSIFIED)
    if reason is TerminationReason.TASK_COMPLETE and _only_failed_calls(result):
        reason = TerminationReason.PARSE_FAILURE
    return Termination(reason=reason, detail=result.stop_reason)


def _only_failed_calls(result: AgentResult) -> bool:
    """Whether the last answer was nothing but call attempts that could not be read."""
    calls = [block["toolUse"]["name"] for block in result.message.get("content", ()) if "toolUse" in block]
    return bool(calls) and all(name == INVALID_TOOL_CALL for name in calls)


def _reason_of(error: BaseException) -> TerminationReason | None:
    """Return the reason that an error by itself tells, or None."""
    if isinstance(error, errors.LoopLimitReachedError):
        return OF_LOOP_LIMIT.get(error.limit, TerminationReason.HOST_LIMIT)
    for kind, reason in _OF_ERROR:
        if isinstance(error, kind):
            return reason
    if _passed_tools(error):
        return TerminationReason.TOOL_ERROR
    for kind, reason in _OF_PLAIN_ERROR:
        if isinstance(error, kind):
            return reason
    return None


def _passed_tools(error: BaseException) -> bool:
    """Whether an error came out of Strands' execution of tools, past its conversion to an error result."""
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(executors.__name__):
            # A cancelled episode is cancelled wherever it is at that time.
            return not isinstance(error, _CANCELLED)
        trace = trace.tb_next
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, outermost first: Strands' wrapper, groups, causes, contexts."""
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
        elif current.__context__ is not None and not current.__suppress_context__:
            waiting.append(current.__context__)

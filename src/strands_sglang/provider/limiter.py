"""`LoopLimiter`: a hook that ends an agent loop at a message boundary.

It counts what the agent adds to its history and stops only after a whole tool turn, so that the record ends with a
complete message and needs no cutting. It never looks into the record and works with any provider.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

from strands.hooks import HookOrder, HookProvider, HookRegistry
from strands.hooks.events import (
    AfterModelCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    MessageAddedEvent,
)

from strands_sglang.errors import (
    LoopLimitReachedError,
    MaxMessagesReachedError,
    MaxToolCallsReachedError,
    MaxToolIterationsReachedError,
    SGLangConfigError,
)
from strands_sglang.termination import LOOP_LIMIT_STATE

from .messages import INVALID_TOOL_CALL

_ERRORS: dict[str, type[LoopLimitReachedError]] = {
    "max_tool_iters": MaxToolIterationsReachedError,
    "max_tool_calls": MaxToolCallsReachedError,
    "max_messages": MaxMessagesReachedError,
}


class LoopLimiter(HookProvider):
    """Bound an agent's loop: iterations, calls, messages, model calls, tokens, seconds.

    An iteration is one answer with calls, their execution and their results; parallel calls of one answer are one
    iteration. All limits are checked after the results of a tool turn, `max_messages` after any user message. With
    `on_limit="raise"` an error of `LoopLimitReachedError` ends the invocation; with "stop" it returns normally with the
    stop reason "cancelled", nothing is added to the history, and `result.state["loop_limit"]` names the limit. A budget
    that is spent before the first answer of an invocation raises in either case: Strands would add a text of its own.
    Counters go on over several invocations until `reset()`. Since a turn is only ever ended whole, a limit of 0 ends an
    episode where a limit of 1 does; `max_parallel_tool_calls=0` executes no call at all.

    Its callbacks run last on "before" and "added" events and first on "after" events, so that other hooks' edits of
    messages and results are done when it decides.

    Example:
        >>> limiter = LoopLimiter(max_tool_iters=5)  # Agent(model=model, tools=[...], hooks=[limiter])
        >>> limiter.tool_iter_count
        0

    Attributes:
        tool_iter_count: Answers with calls so far.
        tool_call_count: Calls so far, cancelled ones included.
        message_count: Messages added so far.
        cancelled_tool_call_count: Calls that were not executed because of `max_parallel_tool_calls`.
        model_call_count: Answers so far, discarded ones included.
        sampled_token_count: Tokens sampled so far.
        total_token_count: Tokens read and sampled so far, each call's whole prompt counted.
        failed_call_count: Call attempts so far that could not be read.
    """

    def __init__(
        self,
        max_tool_iters: int | None = None,
        max_tool_calls: int | None = None,
        max_parallel_tool_calls: int | None = None,
        max_messages: int | None = None,
        *,
        max_model_calls: int | None = None,
        max_sampled_tokens: int | None = None,
        max_total_tokens: int | None = None,
        max_seconds: float | None = None,
        max_failed_calls: int | None = None,
        on_limit: Literal["raise", "stop"] = "raise",
    ) -> None:
        """Create a limiter; None means no limit.

        Args:
            max_tool_iters: Answers with calls allowed.
            max_tool_calls: Calls allowed; the last answer's parallel calls may go beyond it.
            max_parallel_tool_calls: Calls executed per answer; the model reads an error result for each further one.
            max_messages: Messages of all roles allowed; checked when a user message was added.
            max_model_calls: Answers allowed.
            max_sampled_tokens: Sampled tokens allowed; the last answer may go beyond it.
            max_total_tokens: Read and sampled tokens allowed, summed over all calls.
            max_seconds: Wall-clock seconds allowed since the first invocation. A running generation is not cut.
            max_failed_calls: Call attempts that cannot be read (see `invalid_tool_call`) allowed.
            on_limit: How to end: "raise" an error, or "stop" without one.

        Raises:
            SGLangConfigError: If a limit is not a number of at least 0, or `on_limit` is neither.
        """
        if on_limit not in ("raise", "stop"):
            raise SGLangConfigError(f"on_limit must be 'raise' or 'stop', got {on_limit!r}")
        self.max_tool_iters = _limit("max_tool_iters", max_tool_iters)
        self.max_tool_calls = _limit("max_tool_calls", max_tool_calls)
        self.max_parallel_tool_calls = _limit("max_parallel_tool_calls", max_parallel_tool_calls)
        self.max_messages = _limit("max_messages", max_messages)
        self.max_model_calls = _limit("max_model_calls", max_model_calls)
        self.max_sampled_tokens = _limit("max_sampled_tokens", max_sampled_tokens)
        self.max_total_tokens = _limit("max_total_tokens", max_total_tokens)
        self.max_seconds = _limit("max_seconds", max_seconds, whole=False)
        self.max_failed_calls = _limit("max_failed_calls", max_failed_calls)
        self.on_limit = on_limit
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero, for a new episode."""
        self.tool_iter_count = 0
        self.tool_call_count = 0
        self.message_count = 0
        self.cancelled_tool_call_count = 0
        self.model_call_count = 0
        self.sampled_token_count = 0
        self.total_token_count = 0
        self.failed_call_count = 0
        self._calls_of_answer = 0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the first invocation, 0 before it."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register with an agent; Strands calls this."""
        last = HookOrder.SDK_LAST
        registry.add_callback(BeforeInvocationEvent, self._start_clock, order=last)
        registry.add_callback(AfterModelCallEvent, self._count_model_call, order=last)
        registry.add_callback(BeforeToolCallEvent, self._limit_parallel_calls, order=last)
        registry.add_callback(AfterToolsEvent, self._stop_after_tools, order=last)
        registry.add_callback(MessageAddedEvent, self._count_message, order=last)

    def _start_clock(self, event: BeforeInvocationEvent) -> None:
        """Begin to count seconds with the first invocation."""
        if self._began is None:
            self._began = time.monotonic()

    def _count_model_call(self, event: AfterModelCallEvent) -> None:
        """Count an answer and its tokens."""
        if event.stop_response is None:
            return
        self.model_call_count += 1
        usage = event.stop_response.message.get("metadata", {}).get("usage", {})
        self.sampled_token_count += usage.get("outputTokens", 0)
        self.total_token_count += usage.get("totalTokens", 0)

    def _limit_parallel_calls(self, event: BeforeToolCallEvent) -> None:
        """Cancel a call beyond the parallel limit; the model reads why."""
        self._calls_of_answer += 1
        limit = self.max_parallel_tool_calls
        if limit is not None and self._calls_of_answer > limit:
            self.cancelled_tool_call_count += 1
            event.cancel_tool = f"At most {limit} tool calls per answer are executed; this one was not executed."

    def _stop_after_tools(self, event: AfterToolsEvent) -> None:
        """End the invocation before the next model call, with nothing added to the history."""
        results = any("toolResult" in block for block in event.message["content"])
        if self.on_limit == "raise" or not results:  # an interrupted batch has no results yet
            return
        reached = next(self._reached(tool_turn=True, message_count=self.message_count + 1), None)
        if reached is not None:
            name, value = reached
            state = event.invocation_state.setdefault("request_state", {})
            state[LOOP_LIMIT_STATE] = {"limit": name, "value": value}
            event.agent.cancel(after_current_tools=True)

    def _count_message(self, event: MessageAddedEvent) -> None:
        """Count a message; raise after a user message that reaches a limit."""
        message = event.message
        self.message_count += 1
        if message["role"] == "assistant":
            calls = [block["toolUse"]["name"] for block in message["content"] if "toolUse" in block]
            self.tool_iter_count += bool(calls)
            self.tool_call_count += len(calls)
            self.failed_call_count += calls.count(INVALID_TOOL_CALL)
            self._calls_of_answer = 0
            return
        tool_turn = any("toolResult" in block for block in message["content"])
        if self.on_limit == "stop" and tool_turn:
            return
        # A budget that is spent before the first answer cannot end an invocation quietly: Strands would add a text.
        for name, value in self._reached(tool_turn=tool_turn, message_count=self.message_count):
            raise _ERRORS.get(name, LoopLimitReachedError)(f"the limit {name}={value} was reached", limit=name)

    def _reached(self, *, tool_turn: bool, message_count: int) -> Iterator[tuple[str, float]]:
        """Yield each limit that is reached, with its value."""
        counts: dict[str, float] = {"max_messages": message_count}
        if tool_turn:
            counts = {
                "max_tool_iters": self.tool_iter_count,
                "max_tool_calls": self.tool_call_count,
                **counts,
                "max_model_calls": self.model_call_count,
                "max_sampled_tokens": self.sampled_token_count,
                "max_total_tokens": self.total_token_count,
                "max_seconds": self.seconds,
                "max_failed_calls": self.failed_call_count,
            }
        for name, count in counts.items():
            limit = getattr(self, name)
            if limit is not None and count >= limit:
                yield name, limit


def _limit(name: str, limit: Any, *, whole: bool = True) -> Any:
    """Return a limit that is None or a number of at least 0."""
    number = isinstance(limit, int if whole else int | float) and not isinstance(limit, bool)
    if limit is not None and not (number and limit >= 0):
        kind = "an integer" if whole else "a number"
        raise SGLangConfigError(f"{name} must be None or {kind} of at least 0, got {limit!r}")
    return limit

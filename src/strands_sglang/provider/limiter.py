"""`LoopLimiter`: a hook that ends an agent loop at a message boundary.

It counts what the agent adds to its history and stops only after a whole tool turn, so that the record ends with a
complete message and needs no cutting. It never looks into the record and works with any provider.
"""

from __future__ import annotations

from typing import Any

from strands.hooks import HookProvider, HookRegistry
from strands.hooks.events import BeforeToolCallEvent, MessageAddedEvent

from strands_sglang.errors import (
    MaxMessagesReachedError,
    MaxToolCallsReachedError,
    MaxToolIterationsReachedError,
    SGLangConfigError,
)


class LoopLimiter(HookProvider):
    """Bound an agent's tool iterations, tool calls, parallel calls and messages.

    An iteration is one answer with calls, their execution and their results; parallel calls of one answer are one
    iteration. Limits raise when the results (for `max_messages`, any user message) have been added. Counters go on
    over several invocations until `reset()`.

    Example:
        >>> limiter = LoopLimiter(max_tool_iters=5)  # Agent(model=model, tools=[...], hooks=[limiter])
        >>> limiter.tool_iter_count
        0

    Attributes:
        tool_iter_count: Answers with calls so far.
        tool_call_count: Calls so far, cancelled ones included.
        message_count: Messages added so far.
        cancelled_tool_call_count: Calls that were not executed because of `max_parallel_tool_calls`.
    """

    def __init__(
        self,
        max_tool_iters: int | None = None,
        max_tool_calls: int | None = None,
        max_parallel_tool_calls: int | None = None,
        max_messages: int | None = None,
    ) -> None:
        """Create a limiter; None means no limit.

        Args:
            max_tool_iters: Answers with calls allowed.
            max_tool_calls: Calls allowed; the last answer's parallel calls may go beyond it.
            max_parallel_tool_calls: Calls executed per answer; the model reads an error result for each further one.
            max_messages: Messages of all roles allowed; checked when a user message was added.

        Raises:
            SGLangConfigError: If a limit is not an integer of at least 0.
        """
        self.max_tool_iters = _limit("max_tool_iters", max_tool_iters)
        self.max_tool_calls = _limit("max_tool_calls", max_tool_calls)
        self.max_parallel_tool_calls = _limit("max_parallel_tool_calls", max_parallel_tool_calls)
        self.max_messages = _limit("max_messages", max_messages)
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero, for a new episode."""
        self.tool_iter_count = 0
        self.tool_call_count = 0
        self.message_count = 0
        self.cancelled_tool_call_count = 0
        self._calls_of_answer = 0

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register with an agent; Strands calls this."""
        registry.add_callback(MessageAddedEvent, self._count_message)
        registry.add_callback(BeforeToolCallEvent, self._limit_parallel_calls)

    def _count_message(self, event: MessageAddedEvent) -> None:
        """Count a message; raise after a user message that reaches a limit."""
        message = event.message
        self.message_count += 1
        if message["role"] == "assistant":
            calls = sum("toolUse" in block for block in message["content"])
            self.tool_iter_count += calls > 0
            self.tool_call_count += calls
            self._calls_of_answer = 0
            return
        if any("toolResult" in block for block in message["content"]):
            if _reached(self.tool_iter_count, self.max_tool_iters):
                raise MaxToolIterationsReachedError(f"the limit of {self.max_tool_iters} tool iterations was reached")
            if _reached(self.tool_call_count, self.max_tool_calls):
                raise MaxToolCallsReachedError(f"the limit of {self.max_tool_calls} tool calls was reached")
        if _reached(self.message_count, self.max_messages):
            raise MaxMessagesReachedError(f"the limit of {self.max_messages} messages was reached")

    def _limit_parallel_calls(self, event: BeforeToolCallEvent) -> None:
        """Cancel a call beyond the parallel limit; the model reads why."""
        self._calls_of_answer += 1
        limit = self.max_parallel_tool_calls
        if limit is not None and self._calls_of_answer > limit:
            self.cancelled_tool_call_count += 1
            event.cancel_tool = f"At most {limit} tool calls per answer are executed; this one was not executed."


def _limit(name: str, limit: int | None) -> int | None:
    """Return a limit that is None or an integer of at least 0."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise SGLangConfigError(f"{name} must be None or an integer of at least 0, got {limit!r}")
    return limit


def _reached(count: int, limit: int | None) -> bool:
    """Whether a count has reached its limit."""
    return limit is not None and count >= limit

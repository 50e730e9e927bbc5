"""Why an episode ended.

A reason says what happened; what each one means for reward and sampling stands at its member, and as a table in
docs/episodes.md. Every reason is in exactly one of three kinds: an ending of the policy's or the task's doing
(`trainable`), one that is to be left out, and a fault of infrastructure or set-up, which says nothing about the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LOOP_LIMIT_STATE = "loop_limit"
"""Key of `result.state` under which `LoopLimiter(on_limit="stop")` leaves `{"limit": name, "value": value}`."""


class TerminationReason(StrEnum):
    """Why an episode ended."""

    TASK_COMPLETE = "task_complete"
    """The model ended its turn without a call. Reward it."""
    STOP_SEQUENCE = "stop_sequence"
    """A stop string of the sampling parameters ended the last turn. Reward it as the task wants."""
    MAX_TOKENS = "max_tokens"
    """A turn was cut at its token budget. Exact, but unfinished: mask it or give the reward of a failure."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The next prompt no longer fits. What is recorded is exact: as for `MAX_TOKENS`."""
    MAX_TOOL_ITERATIONS = "max_tool_iterations"
    """`LoopLimiter` ended it after a whole tool turn. Exact: reward as the task wants."""
    MAX_TOOL_CALLS = "max_tool_calls"
    """`LoopLimiter` ended it after a whole tool turn. Exact: reward as the task wants."""
    MAX_MESSAGES = "max_messages"
    """`LoopLimiter` ended it at a message boundary. Exact: reward as the task wants."""
    MAX_MODEL_CALLS = "max_model_calls"
    """`LoopLimiter` ended it after a whole tool turn. Exact: reward as the task wants."""
    MAX_SAMPLED_TOKENS = "max_sampled_tokens"
    """`LoopLimiter` ended it after a whole tool turn. Exact: as for `MAX_TOKENS`."""
    MAX_TOTAL_TOKENS = "max_total_tokens"
    """`LoopLimiter` ended it after a whole tool turn. Exact: as for `MAX_TOKENS`."""
    MAX_SECONDS = "max_seconds"
    """`LoopLimiter` ended it after a whole tool turn. Exact, but how far it came depends on the machine."""
    HOST_LIMIT = "host_limit"
    """One of Strands' own `limits` ended it at a message boundary. Exact: reward as the task wants."""
    RECURSION_DEPTH = "recursion_depth"
    """Strands' recursive loop reached Python's recursion limit. Exact up to the last turn; use shorter invocations."""
    INTERRUPT = "interrupt"
    """A tool or hook asked for a human. Not an ending: resume it, or leave it out."""
    GUARDRAIL = "guardrail"
    """The host's guardrail or content filter ended it. Leave it out unless the task says otherwise."""
    CANCELLED = "cancelled"
    """The host cancelled it. Leave it out, or sample it again."""
    ABORTED = "aborted"
    """The server aborted a generation and it could not be resumed. Sample it again."""
    TIMEOUT = "timeout"
    """No answer within the deadline. Infrastructure: sample it again, never train it as a failure."""
    CONNECTION_ERROR = "connection_error"
    """The server did not answer. Infrastructure: sample it again."""
    SERVER_ERROR = "server_error"
    """The server failed. Infrastructure: sample it again."""
    THROTTLED = "throttled"
    """The server stayed busy for all retries. Infrastructure: sample it again, with less concurrency."""
    WORKER_LOST = "worker_lost"
    """The process that ran it died, more than once. Infrastructure: sample it again, and look at what kills it."""
    BAD_REQUEST = "bad_request"
    """The server refused the request. A mistake in the set-up: mend it before sampling on."""
    TOKENIZATION_ERROR = "tokenization_error"
    """Messages could not be turned into ids without guessing. A mistake in the set-up, or content that is refused."""
    HISTORY_DIVERGED = "history_diverged"
    """The host changed the history and `on_divergence` is "raise". What is recorded is exact."""
    STRUCTURED_OUTPUT_FAILED = "structured_output_failed"
    """The model gave no valid structured output. Reward it as a failure."""
    PARSE_FAILURE = "parse_failure"
    """It ended on call attempts that could not be read. Exact: reward it as a failure of format."""
    TOOL_ERROR = "tool_error"
    """An exception escaped from a tool, or from a hook around it, that Strands does not turn into an error result
    (`SystemExit`, a cancelled future). The environment's fault: leave it out, and mend the tool."""
    SETUP_ERROR = "setup_error"
    """The agent could not be made, or an option cannot be meant. Nothing to train: mend it before sampling on."""
    REWARD_ERROR = "reward_error"
    """The episode ended, but its reward could not be computed. The record is exact: reward it later, or leave it
    out."""
    UNCLASSIFIED = "unclassified"
    """An error that no other reason names, such as one of the agent's own code. Look at it."""


_RETRYABLE = frozenset(
    {
        TerminationReason.ABORTED,
        TerminationReason.CANCELLED,
        TerminationReason.CONNECTION_ERROR,
        TerminationReason.SERVER_ERROR,
        TerminationReason.THROTTLED,
        TerminationReason.TIMEOUT,
        TerminationReason.WORKER_LOST,
    }
)
_TRAINABLE = frozenset(
    {
        TerminationReason.CONTEXT_OVERFLOW,
        TerminationReason.HISTORY_DIVERGED,
        TerminationReason.HOST_LIMIT,
        TerminationReason.MAX_MESSAGES,
        TerminationReason.MAX_MODEL_CALLS,
        TerminationReason.MAX_SAMPLED_TOKENS,
        TerminationReason.MAX_SECONDS,
        TerminationReason.MAX_TOKENS,
        TerminationReason.MAX_TOTAL_TOKENS,
        TerminationReason.MAX_TOOL_CALLS,
        TerminationReason.MAX_TOOL_ITERATIONS,
        TerminationReason.PARSE_FAILURE,
        TerminationReason.RECURSION_DEPTH,
        TerminationReason.STOP_SEQUENCE,
        TerminationReason.STRUCTURED_OUTPUT_FAILED,
        TerminationReason.TASK_COMPLETE,
    }
)

_LEFT_OUT = frozenset({TerminationReason.GUARDRAIL, TerminationReason.INTERRUPT})

OF_LOOP_LIMIT = {
    "max_tool_iters": TerminationReason.MAX_TOOL_ITERATIONS,
    "max_tool_calls": TerminationReason.MAX_TOOL_CALLS,
    "max_messages": TerminationReason.MAX_MESSAGES,
    "max_model_calls": TerminationReason.MAX_MODEL_CALLS,
    "max_sampled_tokens": TerminationReason.MAX_SAMPLED_TOKENS,
    "max_total_tokens": TerminationReason.MAX_TOTAL_TOKENS,
    "max_seconds": TerminationReason.MAX_SECONDS,
    "max_failed_calls": TerminationReason.PARSE_FAILURE,
}
"""The reason for each limit of `LoopLimiter`, by the limit's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """Why an episode ended, and what may follow from it.

    Attributes:
        reason: Why it ended.
        detail: The words of the error or the host's stop reason.
    """

    reason: TerminationReason
    detail: str = ""

    @property
    def retryable(self) -> bool:
        """Whether the same episode may end otherwise when it is sampled again."""
        return self.reason in _RETRYABLE

    @property
    def trainable(self) -> bool:
        """Whether the ending is the policy's or the task's doing, so that its reward says something."""
        return self.reason in _TRAINABLE

    @property
    def finished(self) -> bool:
        """Whether the episode came to an end of its own; false where a fault or a stop from outside ended it.

        A run that is resumed samples again what did not finish.
        """
        return self.reason in _TRAINABLE or self.reason in _LEFT_OUT

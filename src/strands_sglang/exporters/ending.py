"""How an episode ended, in the four words that trainers know.

Owns the mapping of every `TerminationReason` to an `Ending`; a test holds that it is complete. Where nobody said why
the episode ended, the finish reason of the row's last turn tells whether it was cut.
"""

from __future__ import annotations

from enum import StrEnum

from strands_sglang.termination import TerminationReason as Reason

from .row import Row


class Ending(StrEnum):
    """How an episode ended, to a trainer; the values are slime's."""

    COMPLETED = "completed"
    """The model came to an end of its own."""
    TRUNCATED = "truncated"
    """A budget or limit cut it; what is there is exact."""
    ABORTED = "aborted"
    """Infrastructure cut it: sample it again."""
    FAILED = "failed"
    """It cannot be used as it is: an error of the set-up, the environment or the agent's code, or one to leave out."""


ENDINGS: dict[Reason, Ending] = {
    Reason.TASK_COMPLETE: Ending.COMPLETED,
    Reason.STOP_SEQUENCE: Ending.COMPLETED,
    Reason.STRUCTURED_OUTPUT_FAILED: Ending.COMPLETED,
    Reason.PARSE_FAILURE: Ending.COMPLETED,
    Reason.MAX_TOKENS: Ending.TRUNCATED,
    Reason.CONTEXT_OVERFLOW: Ending.TRUNCATED,
    Reason.MAX_TOOL_ITERATIONS: Ending.TRUNCATED,
    Reason.MAX_TOOL_CALLS: Ending.TRUNCATED,
    Reason.MAX_MESSAGES: Ending.TRUNCATED,
    Reason.MAX_MODEL_CALLS: Ending.TRUNCATED,
    Reason.MAX_SAMPLED_TOKENS: Ending.TRUNCATED,
    Reason.MAX_TOTAL_TOKENS: Ending.TRUNCATED,
    Reason.MAX_SECONDS: Ending.TRUNCATED,
    Reason.HOST_LIMIT: Ending.TRUNCATED,
    Reason.RECURSION_DEPTH: Ending.TRUNCATED,
    Reason.HISTORY_DIVERGED: Ending.TRUNCATED,
    Reason.ABORTED: Ending.ABORTED,
    Reason.CANCELLED: Ending.ABORTED,
    Reason.TIMEOUT: Ending.ABORTED,
    Reason.CONNECTION_ERROR: Ending.ABORTED,
    Reason.SERVER_ERROR: Ending.ABORTED,
    Reason.THROTTLED: Ending.ABORTED,
    Reason.WORKER_LOST: Ending.ABORTED,
    Reason.INTERRUPT: Ending.FAILED,
    Reason.GUARDRAIL: Ending.FAILED,
    Reason.BAD_REQUEST: Ending.FAILED,
    Reason.TOKENIZATION_ERROR: Ending.FAILED,
    Reason.TOOL_ERROR: Ending.FAILED,
    Reason.SETUP_ERROR: Ending.FAILED,
    Reason.REWARD_ERROR: Ending.FAILED,
    Reason.UNCLASSIFIED: Ending.FAILED,
}
"""What each reason is to a trainer."""


def ending_of(row: Row) -> Ending:
    """Return how the episode of a row ended."""
    if row.episode.termination is not None:
        return ENDINGS[row.episode.termination.reason]
    finish = row.sample.turns[-1].sampled.facts.get("finish_reason")
    return Ending.TRUNCATED if finish == "length" else Ending.COMPLETED

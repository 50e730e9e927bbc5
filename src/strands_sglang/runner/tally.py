"""The counters of a run, and what they come to.

Numbers only ever grow while a run goes on, but for `running`. They count every attempt, also those that were retried.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.termination import TerminationReason

from .episode import Episode


@dataclass(slots=True, kw_only=True, eq=False)
class Tally:
    """The counters.

    Attributes:
        running: Episodes that run now.
        started: Episodes begun.
        skipped: Episodes that an earlier run had finished.
        ended: Episodes that ended, by reason; without those stopped from outside.
        stopped: Episodes stopped from outside before their end.
        retries: Attempts that were followed by another.
        lost: Episodes begun again because the process that ran them died.
        turns: Answers of the model.
        sampled_tokens: Tokens of those answers.
        tool_calls: Tool calls executed.
        aborts: Generations that the server aborted and the client carried on.
        failed_calls: Call attempts that could not be read.
        reward_sum: Sum of the rewards given.
        rewarded: Episodes that were given one.
        began: When the run began, on the monotonic clock.
    """

    running: int = 0
    started: int = 0
    skipped: int = 0
    ended: Counter[TerminationReason] = field(default_factory=Counter)
    stopped: int = 0
    retries: int = 0
    lost: int = 0
    turns: int = 0
    sampled_tokens: int = 0
    tool_calls: int = 0
    aborts: int = 0
    failed_calls: int = 0
    reward_sum: float = 0.0
    rewarded: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    def ended_with(self, episode: Episode) -> None:
        """Count how an episode ended."""
        if episode.partial:
            self.stopped += 1
        else:
            self.ended[episode.termination.reason] += 1
        self.aborts += episode.metrics.get("aborts", 0)
        self.failed_calls += episode.metrics.get("failed_calls", 0)
        if episode.reward is not None:
            self.rewarded += 1
            self.reward_sum += episode.reward

    def metrics(self) -> dict[str, Any]:
        """Return everything as plain numbers, for a tracker; endings as "ended/<reason>"."""
        seconds = self.seconds
        ended = sum(self.ended.values())
        return {
            "seconds": seconds,
            "episodes": ended,
            "episodes_running": self.running,
            "episodes_started": self.started,
            "episodes_skipped": self.skipped,
            "episodes_stopped": self.stopped,
            "episodes_per_second": ended / seconds if seconds else 0.0,
            "retries": self.retries,
            "episodes_lost": self.lost,
            "turns": self.turns,
            "sampled_tokens": self.sampled_tokens,
            "sampled_tokens_per_second": self.sampled_tokens / seconds if seconds else 0.0,
            "tool_calls": self.tool_calls,
            "failed_calls": self.failed_calls,
            "aborts": self.aborts,
            "mean_reward": self.reward_sum / self.rewarded if self.rewarded else None,
            **{f"ended/{reason.value}": count for reason, count in sorted(self.ended.items())},
        }

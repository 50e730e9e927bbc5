"""What the turns of one episode add up to."""

from __future__ import annotations

from typing import Any

from strands_sglang.trajectory import Trajectory


def numbers_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return the counts of an episode's turns, of all its conversations and branches.

    Args:
        trajectory: The record.
    """
    facts = [turn.sampled.facts for turn in trajectory.turns]
    calls = [call for fact in facts for call in fact.get("calls") or ()]
    return {
        "turns": len(trajectory.turns),
        "sampled_tokens": sum(len(turn.sampled) for turn in trajectory.turns),
        "prompt_tokens": sum(fact.get("prompt_tokens") or 0 for fact in facts),
        "failed_calls": sum(call.get("status") != "ok" for call in calls),
        "server_retries": sum(fact.get("retries") or 0 for fact in facts),
        "aborts": sum(fact.get("resumptions") or 0 for fact in facts),
        "generation_seconds": sum(fact.get("latency") or 0.0 for fact in facts),
    }

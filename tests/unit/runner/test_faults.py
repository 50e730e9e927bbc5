"""A fifth of the episodes meet a fault: each ending is told right, nothing is lost, nobody waits for another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from strands import tool

from strands_sglang import TerminationReason, read_records
from strands_sglang.engine import Drop, Refusal, Turn
from strands_sglang.runner import Episode, run_episodes

from .conftest import END, World, add, call, fail, hang

Build = Callable[..., World]
EPISODES = 50

# What is met after the first tool turn, and how the episode ends by it.
FAULTS: dict[int, tuple[str, TerminationReason]] = {
    0: ("a tool raises", TerminationReason.TASK_COMPLETE),
    1: ("a tool hangs", TerminationReason.TIMEOUT),
    2: ("the server fails", TerminationReason.SERVER_ERROR),
    3: ("the server aborts", TerminationReason.TASK_COMPLETE),
    4: ("a call is malformed", TerminationReason.TASK_COMPLETE),
    5: ("the connection breaks", TerminationReason.CONNECTION_ERROR),
    6: ("the server is busy", TerminationReason.THROTTLED),
    7: ("the answer is cut", TerminationReason.MAX_TOKENS),
    8: ("a tool leaves the process", TerminationReason.TOOL_ERROR),
    9: ("the answer is no answer", TerminationReason.SERVER_ERROR),
}


def fault_of(number: int) -> int | None:
    """Every fifth episode meets one."""
    return number // 5 % len(FAULTS) if number % 5 == 0 else None


def answering(aborted: set[str]) -> Callable[[str, int], Any]:
    def answer(text: str, turn: int) -> Any:
        fault = fault_of(int(text))
        if turn == 0:
            return call()
        if turn == 2 or fault is None:
            return f"Done {text}." + END
        if fault == 3 and text not in aborted:
            aborted.add(text)
            return Turn(text="Do", finish="abort")
        return {
            0: call("fail", "{}"),
            1: call("hang", "{}"),
            2: Refusal(status=500, body="x"),
            3: "ne." + END,
            4: call(arguments='{"a": 1,'),
            5: Drop(),
            6: Refusal(status=503),
            7: Turn(text="Half", finish="length"),
            8: call("leave", "{}"),
            9: Refusal(status=200, body="<html>"),
        }[fault]

    return answer


def is_right(episode: Episode) -> bool:
    fault = fault_of(int(episode.prompt.content))
    expected = TerminationReason.TASK_COMPLETE if fault is None else FAULTS[fault][1]
    return episode.termination.reason is expected


@tool
async def leave() -> str:
    """Leave the process."""
    raise SystemExit(1)


async def test_faults_are_told_right_and_cost_nobody_else_anything(world: Build, tmp_path: Path) -> None:
    here = world(answering(set()), tools=[add, fail, hang, leave])
    output = tmp_path / "out.jsonl"
    prompts = [str(number) for number in range(EPISODES)]
    run = run_episodes(here.agent, prompts, concurrency=32, timeout=0.5, output=output)
    hanging = sum(fault_of(number) == 1 for number in range(EPISODES))

    def clock() -> float:
        """Time passes once only those that hang are left: nobody else waits for it, and no test for a machine."""
        return 1e9 if run.metrics()["episodes"] >= EPISODES - hanging else 0.0

    run._player._clock = clock  # type: ignore[attr-defined]

    episodes = [episode async for episode in run]

    assert [(episode.prompt.content, episode.termination) for episode in episodes if not is_right(episode)] == []
    assert sorted(int(episode.prompt.content) for episode in episodes) == list(range(EPISODES))
    saved = {record.id: record for record in read_records(output)}
    assert saved == {episode.trajectory.id: episode.trajectory for episode in episodes}
    assert run.metrics()["aborts"] == 1
    assert all(episode.trajectory.turns for episode in episodes)

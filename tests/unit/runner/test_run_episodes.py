from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from strands import Agent

from strands_sglang import SGLangConfigError, TerminationReason, read_records
from strands_sglang.engine import Refusal, Turn
from strands_sglang.runner import Episode, EpisodeContext, run_episodes

from .conftest import END, World, call

Build = Callable[..., World]
SLOW = Turn(text="late" + END, delay=3600)


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"Question {number}", "id": number} for number in range(count)]


def pairs(episodes: list[Episode]) -> list[tuple[str, int]]:
    return sorted((episode.key, episode.group_index) for episode in episodes)


async def nothing_is_left() -> None:
    """Wait until only this test runs."""
    async with asyncio.timeout(60):
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.005)


async def test_every_prompt_gives_its_group_and_never_more_run_than_allowed(world: Build) -> None:
    async def answering(text: str, turn: int) -> str:
        await asyncio.sleep(0.001)
        return call() if turn == 0 else text + END

    here = world(answering)

    run = run_episodes(here.agent, numbered(10), group_size=3, concurrency=4)
    episodes = [episode async for episode in run]

    assert pairs(episodes) == sorted((str(number), index) for number in range(10) for index in range(3))
    assert here.most_live <= 4
    assert {episode.group_id for episode in episodes} == {str(number) for number in range(10)}
    assert all(episode.trajectory.group_index == episode.group_index for episode in episodes)
    assert all(episode.answer == f"Question {episode.key}" for episode in episodes)
    assert run.metrics()["ended/task_complete"] == 30
    assert (run.metrics()["turns"], run.metrics()["tool_calls"]) == (60, 30)
    await nothing_is_left()


async def test_equal_prompts_are_two_groups(world: Build) -> None:
    run = run_episodes(world("Hi" + END).agent, ["Same", "Same", "Other"], group_size=2)

    groups = Counter([episode.group_id async for episode in run])

    assert sorted(groups.values()) == [2, 2, 2]


async def test_one_that_fails_or_hangs_costs_the_others_nothing(world: Build) -> None:
    """Each episode but the first three answers at once; those raise in the factory, hang, and are refused."""

    def answering(text: str, turn: int) -> Any:
        return (
            Refusal(status=500, body="x")
            if text == "Question 2"
            else call("hang", "{}")
            if text == "Question 1"
            else text + END
        )

    here = world(answering)

    def factory(context: EpisodeContext) -> Agent:
        if context.key == "0":
            raise RuntimeError("no agent today")
        return here.agent()

    run = run_episodes(factory, numbered(12), concurrency=3, timeout=0.5)
    # Time passes once only the one that hangs is left.
    run._player._clock = lambda: 1e9 if run.metrics()["episodes"] == 11 else 0.0  # type: ignore[attr-defined]
    episodes = [episode async for episode in run]

    endings = {episode.key: episode.termination.reason for episode in episodes}
    assert endings.pop("0") is TerminationReason.SETUP_ERROR
    assert endings.pop("1") is TerminationReason.TIMEOUT
    assert endings.pop("2") is TerminationReason.SERVER_ERROR
    assert len(endings) == 9
    assert set(endings.values()) == {TerminationReason.TASK_COMPLETE}


async def test_tools_that_block_their_threads_hold_up_no_other_tool(world: Build) -> None:
    """More tools block for ever than Python's own executor has threads."""
    blocked = min(32, (os.cpu_count() or 1) + 4) + 2

    def answering(text: str, turn: int) -> str:
        return call("block", "{}") if text.startswith("Block") else (call() if turn == 0 else "Done." + END)

    here = world(answering)
    prompts = [f"Block {number}" for number in range(blocked)] + ["Work"]

    async with run_episodes(here.agent, prompts, concurrency=blocked + 1) as run:
        first = await anext(run)

    assert first.answer == "Done."
    await nothing_is_left()


async def test_prompts_are_read_only_as_far_as_episodes_begin(world: Build) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"Question {read}"

    taken = 0
    async for _ in run_episodes(world("Hi" + END).agent, endless(), concurrency=2):
        taken += 1
        if taken == 10:
            break

    assert read <= 10 + 2 + 2 * 2  # those that run, and those that wait to be taken
    await nothing_is_left()


async def test_prompts_may_come_asynchronously_and_late(world: Build) -> None:
    async def trickle() -> AsyncIterator[str]:
        for number in range(5):
            await asyncio.sleep(0.001)
            yield f"Question {number}"

    answers = [episode.key async for episode in run_episodes(world("Hi" + END).agent, trickle())]

    assert len(answers) == 5


async def test_leaving_the_loop_ends_the_rest_on_the_server(world: Build) -> None:
    here = world(lambda text, _: "Hi" + END if text == "Question 0" else SLOW)

    async for episode in run_episodes(here.agent, numbered(5), concurrency=5):
        assert episode.key == "0"
        while len(here.engine.requests) < 5:
            await asyncio.sleep(0.005)
        break

    await nothing_is_left()
    assert len(here.engine.aborts) == 4


async def test_an_error_of_the_consumer_ends_the_rest(world: Build) -> None:
    here = world(lambda text, _: "Hi" + END if text == "Question 0" else SLOW)

    async def consume() -> None:
        async for _ in run_episodes(here.agent, numbered(5), concurrency=5):
            raise ValueError("the consumer's own")

    with pytest.raises(ValueError, match="own"):
        await consume()

    await nothing_is_left()


async def test_cancelling_the_consumer_ends_everything_before_it_is_over(world: Build, tmp_path: Path) -> None:
    here = world(lambda *_: SLOW)
    output = tmp_path / "out.jsonl"

    async def consume() -> None:
        async for _ in run_episodes(here.agent, numbered(3), concurrency=3, output=output):
            pass

    task = asyncio.create_task(consume())
    while len(here.engine.requests) < 3:
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await nothing_is_left()
    assert len(here.engine.aborts) == 3
    saved = [Episode.of_record(record) for record in read_records(output)]
    assert [episode.partial for episode in saved] == [True] * 3
    assert {episode.termination.reason for episode in saved} == {TerminationReason.CANCELLED}


async def test_a_slow_consumer_holds_the_run_up(world: Build) -> None:
    here = world("Hi" + END)

    async with run_episodes(here.agent, numbered(100), concurrency=2) as run:
        await anext(run)
        for _ in range(200):
            await asyncio.sleep(0)
        begun = run.metrics()["episodes_started"]

    assert begun <= 1 + 2 * 2


async def test_a_prompt_source_that_fails_ends_the_run_after_what_was_begun(world: Build) -> None:
    def prompts() -> Iterator[Any]:
        yield "Fine"
        raise OSError("the file is gone")

    taken = []

    async def consume() -> None:
        async for episode in run_episodes(world("Hi" + END).agent, prompts()):
            taken.append(episode)

    with pytest.raises(OSError, match="the file is gone"):
        await consume()

    assert len(taken) == 1
    await nothing_is_left()


async def test_enough_finished_episodes_end_the_rest_and_its_records_are_kept(world: Build, tmp_path: Path) -> None:
    slow = {"Question 1", "Question 3"}
    here = world(lambda text, turn: SLOW if text in slow and turn else (call() if turn == 0 else "Hi" + END))
    output = tmp_path / "out.jsonl"

    run = run_episodes(here.agent, numbered(20), concurrency=4, min_finished=6, output=output)
    episodes = [episode async for episode in run]

    assert len(episodes) >= 6
    assert not any(episode.partial for episode in episodes)
    saved = [Episode.of_record(record) for record in read_records(output)]
    partial = {episode.key: len(episode.trajectory.turns) for episode in saved if episode.partial}
    assert {key: partial[key] for key in ("1", "3")} == {"1": 1, "3": 1}
    assert run.metrics()["episodes_stopped"] == len(partial)
    assert len(saved) == len(episodes) + len(partial)


async def test_enough_whole_groups_end_the_rest(world: Build) -> None:
    here = world(lambda text, _: SLOW if text == "Question 0" else "Hi" + END)

    run = run_episodes(here.agent, numbered(9), group_size=2, concurrency=4, min_groups=2, yield_partial=True)
    episodes = [episode async for episode in run]

    whole = Counter(episode.key for episode in episodes if episode.finished)
    assert sum(count == 2 for count in whole.values()) >= 2
    assert {episode.key for episode in episodes if episode.partial} >= {"0"}


async def test_a_group_that_is_whole_ends_its_stragglers_only(world: Build) -> None:
    asked: Counter[str] = Counter()

    def answering(text: str, _: int) -> Any:
        asked[text] += 1
        return SLOW if asked[text] == 1 else "Hi" + END

    here = world(answering)

    run = run_episodes(here.agent, numbered(4), group_size=4, concurrency=8, min_per_group=3, yield_partial=True)
    episodes = [episode async for episode in run]

    finished = Counter(episode.key for episode in episodes if episode.finished)
    assert finished == {str(number): 3 for number in range(4)}
    assert sum(episode.partial for episode in episodes) == 4


async def test_a_deadline_ends_the_run(world: Build) -> None:
    here = world(lambda *_: SLOW)

    run = run_episodes(here.agent, numbered(4), concurrency=2, deadline=0.3, yield_partial=True)
    episodes = [episode async for episode in run]

    assert {episode.partial for episode in episodes} == {True}
    assert "deadline of 0.3 s" in episodes[0].termination.detail
    assert run.metrics()["episodes_started"] <= 2


async def test_a_finished_episode_is_saved_before_it_is_given_out(world: Build, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    seen = 0

    async for episode in run_episodes(world("Hi" + END).agent, numbered(5), concurrency=2, output=output):
        saved = {record.id for record in read_records(output, strict=False)}
        assert episode.trajectory.id in saved
        seen += 1

    assert seen == 5


async def test_a_resumed_run_repeats_what_did_not_finish_and_nothing_else(world: Build, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    failing = {"Question 1", "Question 4"}
    here = world(lambda text, _: Refusal(status=500, body="x") if text in failing else "Hi" + END)

    first = [episode async for episode in run_episodes(here.agent, numbered(6), group_size=2, output=output)]
    failing.clear()
    with output.open("ab") as file:
        file.write(b'{"format":"strands-sglang/trajectory","vers')  # a writer that was killed
    run = run_episodes(here.agent, numbered(7)[::-1], group_size=2, output=output)
    second = [episode async for episode in run]

    assert len(first) == 12
    assert pairs(second) == [(key, index) for key in ("1", "4", "6") for index in (0, 1)]
    assert run.metrics()["episodes_skipped"] == 8
    finished = [Episode.of_record(record) for record in read_records(output)]
    assert pairs([episode for episode in finished if episode.finished]) == [
        (str(number), index) for number in range(7) for index in (0, 1)
    ]


async def test_a_file_with_records_is_not_gone_on_from_unless_told(world: Build, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    here = world("Hi" + END)
    async for _ in run_episodes(here.agent, ["Go"], output=output):
        pass
    before = output.read_bytes()

    with pytest.raises(SGLangConfigError, match="already holds records"):
        async for _ in run_episodes(here.agent, ["Go"], output=output, resume=False):
            pass

    assert output.read_bytes() == before
    await nothing_is_left()


async def test_pausing_holds_requests_and_clocks_until_resumed(world: Build) -> None:
    here = world(lambda _, turn: call() if turn < 3 else "Hi" + END)
    run = run_episodes(here.agent, numbered(3), concurrency=1, timeout=30)

    async with run:
        await anext(run)
        with run.paused():
            for _ in range(50):
                await asyncio.sleep(0.001)
            before = len(here.engine.requests)
            for _ in range(50):
                await asyncio.sleep(0.001)
            held = len(here.engine.requests)
        rest = [episode async for episode in run]

    assert held == before
    assert len(rest) == 2


async def test_the_first_interrupt_ends_the_run_in_order(world: Build, tmp_path: Path) -> None:
    proceed = asyncio.Event()

    async def answering(text: str, turn: int) -> str:
        await proceed.wait()
        return "Hi" + END

    here = world(answering)
    output = tmp_path / "out.jsonl"
    run = run_episodes(here.agent, numbered(10), concurrency=2, output=output)
    before = signal.getsignal(signal.SIGINT)
    episodes = []

    async def interrupt() -> None:
        while len(here.engine.requests) < 2:
            await asyncio.sleep(0.001)
        signal.raise_signal(signal.SIGINT)
        while not run.interrupted:
            await asyncio.sleep(0.001)
        proceed.set()

    task = asyncio.create_task(interrupt())
    async for episode in run:
        episodes.append(episode)
    await task

    assert len(episodes) == 2
    assert run.interrupted
    assert len(list(read_records(output))) == 2
    assert signal.getsignal(signal.SIGINT) is before


async def test_the_second_interrupt_is_raised_once_everything_is_saved(world: Build, tmp_path: Path) -> None:
    here = world(lambda *_: SLOW)
    output = tmp_path / "out.jsonl"
    run = run_episodes(here.agent, numbered(10), concurrency=2, output=output)

    async def interrupt() -> None:
        while len(here.engine.requests) < 2:
            await asyncio.sleep(0.001)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(interrupt())
    with pytest.raises(KeyboardInterrupt):
        async for _ in run:
            pass
    await task

    assert [Episode.of_record(record).partial for record in read_records(output)] == [True, True]
    assert len(here.engine.aborts) == 2


async def test_a_handler_of_someone_else_is_kept(world: Build) -> None:
    before = signal.getsignal(signal.SIGINT)
    calls = []
    signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        async for _ in run_episodes(world("Hi" + END).agent, ["Go"]):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert calls == [1]


async def test_a_run_is_iterated_over_once(world: Build) -> None:
    run = run_episodes(world("Hi" + END).agent, ["Go"])
    async for _ in run:
        pass

    with pytest.raises(SGLangConfigError, match="iterated over once"):
        async for _ in run:
            pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"group_size": 0}, "group_size"),
        ({"min_per_group": 3, "group_size": 2}, "no group would be whole"),
        ({"deadline": -1}, "deadline"),
        ({"progress": "loud"}, "progress"),
        ({"limits": {"turns": 3}}, "no limit is named 'turns'"),
    ],
)
def test_what_cannot_be_meant_is_refused(world: Build, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SGLangConfigError, match=words):
        run_episodes(world("Hi" + END).agent, [], **options)

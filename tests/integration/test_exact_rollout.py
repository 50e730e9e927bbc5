"""The record of an episode on the real server is exact to the token (guarantees G1 to G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .episodes import (
    ATTEMPTS,
    CUT_SHORT,
    TOLERANCE,
    Episode,
    Served,
    assert_record_is_what_went_over_the_wire,
    episode,
    largest_difference,
    score,
)

QUESTIONS = ("What is 25 * 17?", "What is 12 * 7 and what is 30 - 4?", "What is 81 / 9?")
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 300}
SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 300}


def calls_of_each_turn(episode: Episode) -> list[int]:
    """Return the number of tool calls in each answer of the model."""
    answers = [message for message in episode.agent.messages if message["role"] == "assistant"]
    return [sum("toolUse" in block for block in answer["content"]) for answer in answers]


async def test_an_episode_of_several_turns_and_parallel_calls_is_recorded_exactly(
    served: Served, measure: Callable[[str, str], None]
) -> None:
    async with episode(served, sampling_params=GREEDY) as run:
        for question in QUESTIONS:
            await run.agent.invoke_async(question)
        rollout = run.model.rollout

    calls = calls_of_each_turn(run)
    assert len(calls) == len(run.exchanges) >= 2 * len(QUESTIONS)
    assert max(calls) >= 2, "no answer with parallel calls"
    for result in ("425", "84", "26", "9"):
        assert result in run.text_of(served.tokenizer)
    assert_record_is_what_went_over_the_wire(rollout, run.exchanges)
    # Greedy tokens have the log-probabilities of temperature 1.
    difference = largest_difference(served.url, rollout)
    assert difference < TOLERANCE
    measure("largest logprob difference of the greedy episode, re-scored in one pass", f"{difference:.1e}")


async def test_sampled_episodes_at_once_are_recorded_exactly(
    served: Served, measure: Callable[[str, str], None]
) -> None:
    async def play() -> Episode:
        async with episode(served, sampling_params=SAMPLED) as run:
            for question in QUESTIONS:
                try:
                    await run.agent.invoke_async(question)
                except CUT_SHORT:
                    break
            return run

    runs: list[Episode] = []
    for _ in range(ATTEMPTS):
        runs += await asyncio.gather(*(play() for _ in range(8)))
        if max(max(calls_of_each_turn(run)) for run in runs) >= 2:
            break
    else:
        pytest.fail("no answer with parallel calls")

    for run in runs:
        assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)
    differences = [largest_difference(served.url, run.model.rollout) for run in runs]
    assert max(differences) < TOLERANCE
    sampled = sum(sum(run.model.rollout.loss_mask) for run in runs)
    measure(
        f"largest logprob difference of {sampled} tokens sampled at temperature 1, re-scored in one pass",
        f"{max(differences):.1e}",
    )


async def test_thinking_turned_on_or_off_is_recorded_exactly(served: Served) -> None:
    for thinking in (True, False):
        async with episode(served, sampling_params=GREEDY, enable_thinking=thinking) as run:
            for question in QUESTIONS:
                await run.agent.invoke_async(question)

        assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)
        assert largest_difference(served.url, run.model.rollout) < TOLERANCE


async def test_prompt_logprobs_are_those_of_the_second_pass(served: Served) -> None:
    async with episode(served, sampling_params=GREEDY, return_prompt_logprob=True) as run:
        for question in QUESTIONS:
            await run.agent.invoke_async(question)

    rollout = run.model.rollout
    scores = score(served.url, rollout.token_ids)
    assert rollout.logprobs[0] is None
    for recorded, again in zip(rollout.logprobs[1:], scores[1:], strict=True):
        assert recorded == pytest.approx(again, abs=TOLERANCE)

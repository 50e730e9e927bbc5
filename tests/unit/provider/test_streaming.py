"""`stream=True`: text arrives as it is sampled, and everything else is as without it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang.engine import Turn

from .conftest import END, Stage, call
from .test_episode import ANSWERS, Build, check_record

LONG = "This is a long answer that goes on for a while. " * 20


async def events_of(on: Stage, prompt: str) -> list[dict[str, Any]]:
    return [event async for event in on.agent().stream_async(prompt) if "event" in event]


async def test_text_arrives_in_pieces(stage: Build) -> None:
    on = stage(Turn(text=LONG + END, token_delay=0.0005), stream=True)

    events = await events_of(on, "Go")

    pieces = [
        event["event"]["contentBlockDelta"]["delta"]["text"]
        for event in events
        if "text" in event["event"].get("contentBlockDelta", {}).get("delta", {})
    ]
    assert len(pieces) > 5
    assert "".join(pieces) == LONG
    check_record(on)


async def test_without_it_text_comes_in_one_piece(stage: Build) -> None:
    on = stage(LONG + END)

    events = await events_of(on, "Go")

    assert sum("contentBlockDelta" in event["event"] for event in events) == 1


async def test_a_call_after_shown_text_is_a_block_of_its_own(stage: Build) -> None:
    on = stage("<think>\n" + LONG + "\n</think>\n\n" + LONG + "\n" + call() + END, "Done." + END, stream=True)
    agent = on.agent()

    await agent.invoke_async("Go")

    kinds = [next(iter(block)) for block in agent.messages[1]["content"]]
    assert kinds == ["reasoningContent", "text", "toolUse"]
    check_record(on)


async def test_leaving_early_records_nothing_and_ends_the_generation(stage: Build) -> None:
    on = stage(Turn(text=LONG + END, token_delay=0.01), "Again." + END, stream=True)
    agent = on.agent()
    async for event in agent.stream_async("Go"):
        if "data" in event:
            break

    assert len(on.model.rollout) == 0


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(answers=ANSWERS, thinking=st.sampled_from([None, True]))
async def test_messages_and_record_are_the_same_as_without_it(
    stage: Build, answers: list[tuple[str, str]], thinking: bool | None
) -> None:
    seen = []
    for streams in (False, True):
        steps = [
            Turn(text=text * 3 or "x", finish="length") if end == "cut" else Turn(text=text * 3 + end)
            for text, end in answers
        ]
        on = stage(*steps, *["Done." + END] * 4, stream=streams, enable_thinking=thinking)
        on.model.trajectory.id = "0" * 32  # ids of calls are made from it
        agent = on.agent()
        for _ in range(2):
            try:
                await agent.invoke_async("Go on")
            except MaxTokensReachedException:
                continue
        check_record(on)
        rollout = on.model.rollout
        contents = [message["content"] for message in agent.messages]
        seen.append((contents, rollout.token_ids, rollout.loss_mask, rollout.logprobs))

    assert seen[0] == seen[1]

"""Whole agent episodes over a scripted engine: what was sent, what is recorded, what the host got."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    ModelThrottledException,
)

from strands_sglang.engine import Drop, Refusal, Turn
from strands_sglang.errors import SGLangAbortedError, SGLangConnectionError, SGLangDecodingError, SGLangGenerationError
from strands_sglang.trajectory import TurnFate

from .conftest import END, Stage, call

Build = Callable[..., Stage]
TOO_LONG = "The input (5000 tokens) is longer than the model's context length (2048 tokens)."


def check_record(stage: Stage) -> None:
    """G1, G2, G4 and G5 against the engine's own log."""
    rollout = stage.model.rollout
    for turn, request in zip(stage.model.trajectory.turns, stage.engine.requests, strict=True):
        path = turn.rollout().token_ids
        assert path[: len(path) - len(turn.sampled)] == request["input_ids"]
    sampled = [token for turn in stage.model.trajectory.turns for token in turn.sampled.ids]
    assert [token for token, mask in zip(rollout.token_ids, rollout.loss_mask, strict=True) if mask] == sampled
    assert len(rollout.token_ids) == len(rollout.loss_mask) == len(rollout.logprobs)
    assert all((value is None) == (not mask) for value, mask in zip(rollout.logprobs, rollout.loss_mask, strict=True))
    for earlier, later in zip(stage.prompts, stage.prompts[1:], strict=False):
        assert later[: len(earlier)] == earlier


async def test_an_episode_with_a_tool_leaves_an_exact_record(stage: Build) -> None:
    on = stage(call() + END, "25 * 17 = 425." + END)

    result = await on.agent().invoke_async("What is 25 * 17?")

    assert str(result).strip() == "25 * 17 = 425."
    assert result.stop_reason == "end_turn"
    check_record(on)
    assert on.text(on.model.rollout.token_ids).endswith(
        "<|im_start|>user\nWhat is 25 * 17?<|im_end|>\n<|im_start|>assistant\n"
        + call()
        + "<|im_end|>\n<|im_start|>user\n<tool_response>\n425\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n25 * 17 = 425.<|im_end|>"
    )


async def test_parallel_calls_get_their_results_in_call_order(stage: Build) -> None:
    on = stage(call() + "\n" + call(arguments='{"expression": "1 + 1"}') + END, "425 and 2." + END)

    await on.agent().invoke_async("Two things?")

    check_record(on)
    assert "<tool_response>\n425\n</tool_response>\n<tool_response>\n2\n</tool_response>" in on.text(on.prompts[1])


async def test_several_questions_stay_one_branch(stage: Build) -> None:
    on = stage("One." + END, call() + END, "Two." + END, "Three." + END)
    agent = on.agent(system_prompt="Be brief.")

    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    check_record(on)
    assert len(on.model.trajectory.branches) == 1


def test_a_synchronous_agent_can_be_called_twice(stage: Build) -> None:
    on = stage("One." + END, "Two." + END)
    agent = on.agent()

    agent("First?")
    agent("Second?")

    check_record(on)


async def test_a_malformed_call_runs_nothing_and_the_model_is_told(stage: Build) -> None:
    on = stage(call("careless", '{"note": "x"') + END, "I see." + END)

    agent = on.agent()
    await agent.invoke_async("Go")

    check_record(on)
    assert on.model.tool_parse_errors == {"careless": 1}
    assert not any("ran with" in str(message) for message in agent.messages)
    assert "The tool call was not executed" in on.text(on.prompts[1])


async def test_well_formed_calls_beside_a_malformed_one_run(stage: Build) -> None:
    on = stage(call() + "\n" + call("careless", "[1]") + "\n" + call("careless", "{}") + END, "Done." + END)

    await on.agent().invoke_async("Go")

    check_record(on)
    told = on.text(on.prompts[1])
    assert told.index("425") < told.index("was not executed") < told.index("ran with default")


async def test_reasoning_text_and_calls_are_blocks_of_their_own(stage: Build) -> None:
    on = stage("<think>\nI need it.\n</think>\n\nOne moment.\n" + call() + END, "425." + END)

    agent = on.agent()
    await agent.invoke_async("Go")

    check_record(on)
    kinds = [next(iter(block)) for block in agent.messages[1]["content"]]
    assert kinds == ["reasoningContent", "text", "toolUse"]
    assert agent.messages[1]["content"][1]["text"].strip() == "One moment."


async def test_an_opened_think_block_is_told_from_the_prompt(stage: Build) -> None:
    on = stage("I think.\n</think>\n\nDone." + END, enable_thinking=True)

    agent = on.agent()
    await agent.invoke_async("Go")

    assert on.text(on.prompts[0]).endswith("<think>\n")
    assert agent.messages[1]["content"][0]["reasoningContent"]["reasoningText"]["text"].strip() == "I think."
    assert agent.messages[1]["content"][1]["text"].strip() == "Done."


async def test_a_cut_call_is_never_executed_and_the_turn_is_closed(stage: Build) -> None:
    on = stage(Turn(text='<tool_call>\n{"name": "careless", "arguments": {', finish="length"), "Sorry." + END)
    agent = on.agent()

    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")
    await agent.invoke_async("Go on")

    check_record(on)
    assert not any("ran with" in str(message) for message in agent.messages)
    assert '"arguments": {<|im_end|>\n<|im_start|>user\nGo on' in on.text(on.prompts[1])
    assert on.model.trajectory.turns[0].sampled.facts["finish_reason"] == "length"


async def test_an_abort_is_never_taken_for_an_ending(stage: Build) -> None:
    on = stage(*[Turn(text="Half an ans", finish="abort") for _ in range(50)])

    with pytest.raises(SGLangAbortedError):
        await on.agent().invoke_async("Go")

    assert len(on.model.rollout) == 0


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Refusal(status=400, body={"error": {"message": TOO_LONG}}), ContextWindowOverflowException),
        (Refusal(status=503), ModelThrottledException),
        (Refusal(status=200, body="<html>hello</html>"), SGLangDecodingError),
        (Turn(text="x" + END, logprobs=[-0.1]), SGLangDecodingError),
        (Turn(text="x" + END, without=["output_token_logprobs"]), SGLangDecodingError),
        (Turn(text="x" + END, finish={"type": "stop", "matched": "NaN happened"}), SGLangGenerationError),
        (Drop(), SGLangConnectionError),
    ],
)  # fmt: skip
async def test_a_failed_turn_leaves_the_record_as_it_was(
    stage: Build, step: Turn | Refusal | Drop, error: type[Exception]
) -> None:
    on = stage("One." + END, step, "Two." + END)
    agent = on.agent(retry_strategy=None, conversation_manager=NullConversationManager())
    await agent.invoke_async("First?")
    before = on.model.rollout

    with pytest.raises((error, EventLoopException)):
        await agent.invoke_async("Second?")

    assert on.model.rollout == before
    agent.messages.pop()
    await agent.invoke_async("Second?")
    assert len(on.model.trajectory.branches) == 1


async def begun(on: Stage) -> None:
    """Wait until the first request has reached the engine."""
    while not on.prompts:
        await asyncio.sleep(0.01)


async def test_a_cancelled_task_leaves_the_record_as_it_was(stage: Build) -> None:
    on = stage(Turn(text="late" + END, delay=3600))
    task = asyncio.create_task(on.agent().invoke_async("Go"))
    await begun(on)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(on.model.rollout) == 0


async def test_the_hosts_cancel_signal_ends_a_generation(stage: Build) -> None:
    on = stage(Turn(text="late" + END, delay=3600))
    agent = on.agent()
    task = asyncio.create_task(agent.invoke_async("Go"))
    await begun(on)

    agent.cancel()
    result = await task

    assert result.stop_reason == "cancelled"
    assert len(on.model.rollout) == 0


async def test_a_changed_history_starts_a_branch_from_the_deepest_turn_that_agrees(stage: Build) -> None:
    on = stage("One." + END, "Two." + END, "Two again." + END)
    agent = on.agent()
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")
    agent.messages[2]["content"][0]["text"] = "Another?"
    agent.messages.pop()

    await agent.invoke_async(None)

    first, second, third = on.model.trajectory.turns
    assert third.parent is first
    assert second.fate is TurnFate.KEPT
    assert on.prompts[2][: len(first.rollout())] == first.rollout().token_ids
    samples = on.model.trajectory.samples()
    assert [sum(sample.loss_mask) for sample in samples] == [
        len(first.sampled) + len(second.sampled),
        len(third.sampled),
    ]


async def test_an_answer_that_was_thrown_away_is_marked(stage: Build) -> None:
    on = stage("Bad." + END, "Good." + END)
    agent = on.agent()
    await agent.invoke_async("Go")
    agent.messages.pop()

    await agent.invoke_async(None)

    assert [turn.fate for turn in on.model.trajectory.turns] == [TurnFate.DISCARDED, TurnFate.KEPT]
    assert on.prompts[0] == on.prompts[1]
    assert on.text(on.model.rollout.token_ids).endswith("Good." + END)


async def test_types_that_compare_equal_are_still_told_apart(stage: Build) -> None:
    on = stage(call("careless", '{"note": 1}') + END, "Done." + END, "Again." + END)
    agent = on.agent()
    await agent.invoke_async("Go")
    agent.messages[1]["content"][0]["toolUse"]["input"]["note"] = True

    await agent.invoke_async("More")

    assert on.model.trajectory.turns[2].parent is None


async def test_another_agent_on_the_same_provider_has_its_own_conversation(stage: Build) -> None:
    on = stage("Main one." + END, "Other." + END, "Main two." + END)
    main, other = on.agent(), on.agent(system_prompt="You are another one.")

    await main.invoke_async("First?")
    await other.invoke_async("Question?")
    await main.invoke_async("Second?")

    assert on.text(on.model.rollout.token_ids).count("Main") == 2
    assert "Other." not in on.text(on.model.rollout.token_ids)
    samples = on.model.trajectory.samples(include_side_calls=True)
    assert sorted(sample.lineage for sample in samples) == ["agent", "main"]


async def test_reset_begins_a_new_episode(stage: Build) -> None:
    on = stage("One." + END, "Two." + END)
    await on.agent().invoke_async("First?")

    on.model.reset()
    await on.agent().invoke_async("First?")

    assert on.prompts[0] == on.prompts[1]
    assert len(on.model.trajectory.turns) == 1


async def test_usage_counts_tokens_as_the_record_does(stage: Build) -> None:
    on = stage("One." + END)

    result = await on.agent().invoke_async("First?")

    rollout = on.model.rollout
    assert result.metrics.accumulated_usage["inputTokens"] == rollout.initial_prompt_length
    assert result.metrics.accumulated_usage["outputTokens"] == sum(rollout.loss_mask)


# Pieces that a model may write, well-formed or not, in any order.
PIECES = st.sampled_from(
    [
        "Hello", " ", "\n", "\n\n", "é", "<think>\n", "</think>\n\n", "<tool_call>\n", "\n</tool_call>", call(),
        call("nope"), call("bad name!"), call("careless", "{}"), call("careless", "[]"),
        call("careless", '{"note": 1.0}'),
        "<tool_response>", '{"a": 1}', "<|im_start|>",
    ]
)  # fmt: skip
ANSWERS = st.lists(st.tuples(st.lists(PIECES, max_size=5).map("".join), st.sampled_from([END, END, "cut"])), max_size=4)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(answers=ANSWERS, thinking=st.sampled_from([None, True, False]))
async def test_whatever_the_model_writes_the_episode_stays_one_exact_branch(
    stage: Build, answers: list[tuple[str, str]], thinking: bool | None
) -> None:
    steps = [
        Turn(text=text or "x", finish="length") if end == "cut" else Turn(text=text + end) for text, end in answers
    ]
    on = stage(*steps, *["Done." + END] * 6, enable_thinking=thinking)
    agent: Agent = on.agent()

    for _ in range(3):
        try:
            await agent.invoke_async("Go on")
        except MaxTokensReachedException:
            continue

    check_record(on)
    assert len(on.model.trajectory.branches) == 1

"""Answers cut by length, and going on with them."""

from __future__ import annotations

import pytest
from strands.agent.conversation_manager import NullConversationManager
from strands.types.exceptions import ContextWindowOverflowException, MaxTokensReachedException

from strands_sglang import get_tokenizer
from strands_sglang.engine import TINY_MODEL, Turn

from .conftest import END, call
from .test_episode import Build, check_record

IDS = get_tokenizer(TINY_MODEL).encode("One moment.\n" + call() + END, add_special_tokens=False)


@pytest.mark.parametrize("cut", range(1, len(IDS), 4))
@pytest.mark.parametrize("streams", [False, True])
async def test_a_cut_call_is_continued_from_its_own_tokens_and_then_runs(stage: Build, cut: int, streams: bool) -> None:
    on = stage(
        Turn(ids=IDS[:cut], finish="length"),
        Turn(ids=IDS[cut:]),
        "425." + END,
        "Bye." + END,
        continue_truncated=True,
        stream=streams,
    )
    agent = on.agent()
    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")

    result = await agent.invoke_async(None)
    await agent.invoke_async("Thanks")

    check_record(on)
    assert str(result).strip() == "425."
    assert on.prompts[1] == on.model.trajectory.turns[0].rollout().token_ids
    assert on.text(on.prompts[2]).count("<tool_response>\n425\n</tool_response>") == 1
    assert len(on.model.trajectory.branches) == 1
    assert "<|im_end|>\n<|im_start|>user\nThanks" in on.text(on.prompts[3])


async def test_cut_text_is_continued_twice(stage: Build) -> None:
    on = stage(
        Turn(text="<think>\nI th", finish="length"),
        Turn(text="ink.\n</think>\n\nThe answer", finish="length"),
        " is 425." + END,
        continue_truncated=True,
    )
    agent = on.agent()
    for prompt in ("Go", None):
        with pytest.raises(MaxTokensReachedException):
            await agent.invoke_async(prompt)

    await agent.invoke_async(None)

    check_record(on)
    whole = "".join(block.get("text", "") for message in agent.messages[1:] for block in message["content"])
    assert whole == "The answer is 425."


async def test_without_it_a_cut_turn_is_closed_and_another_begins(stage: Build) -> None:
    on = stage(Turn(text="The answer", finish="length"), " is 425." + END)
    agent = on.agent()
    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")

    await agent.invoke_async(None)

    check_record(on)
    assert on.text(on.prompts[1]).endswith("The answer<|im_end|>\n<|im_start|>assistant\n")


async def test_a_prompt_that_does_not_fit_is_refused_before_it_is_sent(stage: Build) -> None:
    on = stage(context_window_limit=100)

    with pytest.raises(ContextWindowOverflowException, match=r"has \d+ tokens and the context window 100"):
        await on.agent(conversation_manager=NullConversationManager()).invoke_async("Go")

    assert on.engine.requests == []


async def test_tokens_are_counted_exactly_where_a_limit_is_set(stage: Build) -> None:
    on = stage("Hello." + END, context_window_limit=1000)
    agent = on.agent(system_prompt="Be brief.")
    await agent.invoke_async("Go")

    counted = await on.model.count_tokens(agent.messages[:1], agent.tool_registry.get_all_tool_specs(), "Be brief.")

    assert counted == len(on.prompts[0])


async def test_messages_that_are_no_conversation_are_estimated(stage: Build) -> None:
    on = stage(context_window_limit=1000)

    counted = await on.model.count_tokens([{"role": "user", "content": [{"video": {}}]}])  # type: ignore[typeddict-item]

    assert counted == 0

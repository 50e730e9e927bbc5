"""Conversation managers: windows, shortened results, summaries."""

from __future__ import annotations

import pytest
from strands import Agent, ModelRetryStrategy, tool
from strands.agent.conversation_manager import (
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.types.exceptions import ContextWindowOverflowException

from strands_sglang.engine import Refusal

from .scene import Mode, build, calm, use

TOO_LONG = Refusal(
    status=400,
    body={"error": {"message": "The input (5000 tokens) is longer than the model's context length (2048 tokens)."}},
)


@tool
def read(page: str) -> str:
    """Read a page."""
    return f"page {page}: " + "word " * 200


async def test_a_window_at_the_end_of_an_invocation_starts_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", use("note", text="x"), "Three.", mode=mode)
    agent = on.agent(conversation_manager=SlidingWindowConversationManager(window_size=2))

    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert on.parents == [None, 0, None, 2]
    assert "First?" in on.prompt(1)
    assert "First?" not in on.prompt(2)
    assert on.fates == "kkkk"
    assert on.shown == [use("note", text="x"), "Three."]


async def test_a_window_before_each_call_starts_a_branch_within_an_invocation(mode: Mode) -> None:
    calls = [use("look_up", topic=f"t{n}") for n in range(4)]
    on = build(*calls, "Done.", mode=mode)
    agent = on.agent(conversation_manager=SlidingWindowConversationManager(window_size=4, per_turn=True))

    await agent.invoke_async("Go")

    on.check()
    assert len(on.turns) == 5
    assert None in on.parents[1:]
    assert on.fates == "kkkkk"
    assert on.shown[-1] == "Done."


async def test_a_pinned_first_message_is_no_sign_that_answers_were_thrown_away(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", "Four.", mode=mode)
    agent = on.agent(conversation_manager=SlidingWindowConversationManager(window_size=3, pin_first=1))

    for question in ("First?", "Second?", "Third?", "Fourth?"):
        await agent.invoke_async(question)

    on.check()
    assert "First?" in on.prompt(3)
    assert "One." not in on.prompt(3)
    assert on.fates == "kkkk"


async def test_on_overflow_a_shortened_result_is_what_is_sent(mode: Mode) -> None:
    on = build(use("read", page="1"), TOO_LONG, "Done.", mode=mode)
    agent = on.agent(tools=[read], conversation_manager=SlidingWindowConversationManager())

    await agent.invoke_async("Read")

    on.check()
    assert "[truncated: " in on.prompt(2)
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_a_result_that_was_answered_and_is_shortened_starts_a_branch(mode: Mode) -> None:
    on = build(use("read", page="1"), "Read.", TOO_LONG, "Again.", mode=mode)
    agent = on.agent(tools=[read], conversation_manager=SlidingWindowConversationManager())
    await agent.invoke_async("Read")

    await agent.invoke_async("What was it?")

    on.check()
    assert "[truncated: " in on.prompt(3)
    assert on.parents == [None, 0, 0]
    assert on.fates == "kkk"
    assert on.shown == [use("read", page="1"), "Again."]


async def test_on_overflow_a_trimmed_history_starts_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", TOO_LONG, "Three.", mode=mode)
    agent = on.agent(conversation_manager=SlidingWindowConversationManager())

    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert "First?" not in on.prompt(3)
    assert on.parents == [None, 0, None]
    assert on.shown == ["Three."]


async def test_an_overflow_that_is_known_beforehand_sends_nothing(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent(tools=[], conversation_manager=SlidingWindowConversationManager())
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)
    on.model.update_config(context_window_limit=len(on.model.rollout) + 4)

    await agent.invoke_async("Third?")

    on.check()
    assert len(on.prompts) == 3
    assert "First?" not in on.prompt(2)
    assert on.fates == "kkk"


async def test_a_server_that_is_busy_is_asked_again_without_a_trace(mode: Mode) -> None:
    on = build("One.", Refusal(status=503), Refusal(status=503), "Two.", mode=mode)
    agent = on.agent(retry_strategy=ModelRetryStrategy(max_attempts=4, initial_delay=0, max_delay=0))
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)

    on.check()
    assert len(on.prompts) == 4
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_a_manager_that_changes_nothing_lets_the_overflow_through(mode: Mode) -> None:
    on = build("One.", TOO_LONG, "Two.", mode=mode)
    agent = on.agent(conversation_manager=NullConversationManager())
    await agent.invoke_async("First?")

    with pytest.raises(ContextWindowOverflowException, match="5000 tokens"):
        await agent.invoke_async("Second?")
    await agent.invoke_async(None)

    on.check()
    assert on.parents == [None, 0]


async def test_on_overflow_a_summary_is_a_side_call_and_then_starts_a_branch(mode: Mode) -> None:
    on = build(
        "One.", use("look_up", topic="x"), "Two.", TOO_LONG, "They asked twice.", "Three.", mode=mode
    )  # fmt: skip
    agent = on.agent(conversation_manager=SummarizingConversationManager(preserve_recent_messages=2))
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert on.lineages == "mmmsm"
    assert on.parents[-2:] == [None, None]
    assert "Please summarize this conversation." in on.prompt(4)
    assert "They asked twice." in on.prompt(5)
    assert on.fates == "kkkkk"
    assert on.shown == ["Three."]
    assert [sample.lineage for sample in on.model.trajectory.samples()] == ["main", "main"]


async def test_a_summary_by_an_agent_of_its_own_is_that_agents(mode: Mode) -> None:
    on = build("One.", "Two.", TOO_LONG, "They asked twice.", "Three.", mode=mode)
    writer = Agent(model=on.model, callback_handler=None, system_prompt="Summarise.")
    manager = SummarizingConversationManager(preserve_recent_messages=2, summarization_agent=writer)
    agent = on.agent(conversation_manager=manager)
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert on.lineages == "mmam"
    assert "They asked twice." in on.prompt(4)
    assert on.shown == ["Three."]


@calm
async def test_a_summary_in_advance_is_a_side_call_too(mode: Mode) -> None:
    on = build("One.", "Two.", "They asked twice.", "Three.", mode=mode, context_window_limit=100_000)
    manager = SummarizingConversationManager(
        preserve_recent_messages=2, proactive_compression={"compression_threshold": 0.1}
    )
    agent = on.agent(conversation_manager=manager)
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)
    on.model.update_config(context_window_limit=len(on.model.rollout) + 300)

    await agent.invoke_async("Third?")

    on.check()
    assert on.lineages == "mmsm"
    assert "They asked twice." in on.prompt(3)
    assert on.shown == ["Three."]


async def test_a_summary_that_fails_leaves_the_record_as_it_was(mode: Mode) -> None:
    on = build("One.", "Two.", TOO_LONG, Refusal(status=500), "Three.", mode=mode)
    agent = on.agent(conversation_manager=SummarizingConversationManager(preserve_recent_messages=2))
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)

    with pytest.raises(Exception, match="500") as raised:
        await agent.invoke_async("Third?")
    await agent.invoke_async(None)

    assert isinstance(raised.value.__cause__, ContextWindowOverflowException)
    on.check()
    assert on.lineages == "mmm"
    assert on.parents == [None, 0, 1]


@calm
async def test_raising_on_divergence_names_the_message(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode, on_divergence="raise")
    agent = on.agent(conversation_manager=SlidingWindowConversationManager(window_size=2))
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    with pytest.raises(Exception, match="message 0") as raised:
        await agent.invoke_async("Third?")

    assert type(raised.value).__name__ == "HistoryDivergedError"
    on.check()
    assert on.parents == [None, 0]

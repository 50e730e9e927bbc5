"""The context manager's strategies, the offloader, and contexts that the model itself cuts down."""

from __future__ import annotations

from typing import Any

from strands import tool
from strands._context_manager.context_manager import ContextManager
from strands._context_manager.strategies.offload import Offload
from strands.vended_plugins.context_offloader import ContextOffloader, InMemoryStorage

from .scene import Mode, build, note, use
from .test_managers import TOO_LONG

LIMIT = 100_000


@tool
def read(page: str) -> str:
    """Read a page."""
    return f"page {page}: " + "word " * 400


def managed(*strategies: Any) -> ContextManager:
    return ContextManager(strategies=list(strategies), stash=False)


async def test_results_that_are_truncated_as_they_come_only_grow_the_history(mode: Mode) -> None:
    on = build(use("read", page="1"), "Done.", "More.", mode=mode, context_window_limit=LIMIT)
    truncate = Offload.truncate("tool_results", {"preview_tokens": 20}).when(threshold=100)
    agent = on.agent(tools=[read], context_manager=managed(truncate))

    await agent.invoke_async("Read")
    await agent.invoke_async("More?")

    on.check()
    assert on.prompt(1).count("word") < 400
    assert on.parents == [None, 0, 1]


async def test_results_that_the_offloader_shortens_only_grow_the_history(mode: Mode) -> None:
    on = build(use("read", page="1"), "Done.", "More.", mode=mode, context_window_limit=LIMIT)
    offloader = ContextOffloader(storage=InMemoryStorage(), max_result_tokens=100, preview_tokens=20)
    agent = on.agent(tools=[read], plugins=[offloader])

    await agent.invoke_async("Read")
    await agent.invoke_async("More?")

    on.check()
    assert on.prompt(1).count("word") < 400
    assert on.parents == [None, 0, 1]


async def test_old_results_that_are_dropped_start_a_branch(mode: Mode) -> None:
    pages = [use("read", page=f"{n}") for n in range(3)]
    on = build(*pages, "Done.", mode=mode, context_window_limit=LIMIT)
    drop = Offload.drop("tool_results").when(threshold=50, preserve_recent=1)
    agent = on.agent(tools=[read], context_manager=managed(drop))

    await agent.invoke_async("Read three")

    on.check()
    assert "[Dropped]" in on.prompt(2)
    assert on.parents == [None, 0, 0, 0]
    assert on.fates == "kkkk"
    assert on.shown == [pages[0], "Done."]


async def test_messages_that_are_dropped_for_a_marker_start_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", TOO_LONG, "Three.", "Four.", mode=mode, context_window_limit=LIMIT)
    drop = Offload.drop("*").when(utilization=0.9, preserve_recent=1)
    agent = on.agent(context_manager=managed(drop))

    for question in ("First?", "Second?", "Third?", "Fourth?"):
        await agent.invoke_async(question)

    on.check()
    assert "[Dropped: " in on.prompt(3)
    assert on.parents == [None, 0, None, 2]
    assert "d" not in on.fates
    assert on.shown == ["Three.", "Four."]


async def test_a_summarised_history_is_a_side_call_and_a_branch(mode: Mode) -> None:
    on = build(
        "One.", "Two.", TOO_LONG, "They asked twice.", "Three.", mode=mode, context_window_limit=LIMIT
    )  # fmt: skip
    summarize = Offload.summarize("*").when(utilization=0.9, preserve_recent=1)
    agent = on.agent(context_manager=managed(summarize))

    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert on.lineages == "mmsm"
    assert "They asked twice." in on.prompt(4)
    assert "d" not in on.fates
    assert on.shown == ["Three."]


async def test_the_status_of_an_agentic_context_is_part_of_each_prompt(mode: Mode) -> None:
    on = build(use("note"), "Done.", "More.", mode=mode, context_window_limit=LIMIT)
    agent = on.agent(tools=[note], context_manager="agentic")

    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert all("<context-status>" in on.prompt(index) for index in range(3))
    # What was added to one call is gone in the next: each prompt is a branch of its own, and nothing was thrown away.
    assert on.parents == [None, None, None]
    assert on.fates == "kkk"
    assert len(on.model.trajectory.samples()) == 3


async def test_a_context_that_the_model_truncates_starts_a_branch(mode: Mode) -> None:
    drop = use("truncate_context", keep_recent=2)
    on = build("One.", "Two.", drop, "Done.", mode=mode, context_window_limit=LIMIT)
    agent = on.agent(tools=[note], context_manager="agentic")

    for question in ("First?", "Second?", "Cut it"):
        await agent.invoke_async(question)

    on.check()
    assert "First?" in on.prompt(3)
    assert "One." not in on.prompt(3)
    assert on.fates == "kkkk"
    assert on.shown == ["Done."]


async def test_a_context_that_the_model_summarises_is_a_side_call_and_a_branch(mode: Mode) -> None:
    cut = use("summarize_context", keep_recent=2, summary_ratio=0.8)
    on = build("One.", "Two.", cut, "They asked twice.", "Done.", mode=mode, context_window_limit=LIMIT)
    agent = on.agent(tools=[note], context_manager="agentic")

    for question in ("First?", "Second?", "Cut it"):
        await agent.invoke_async(question)

    on.check()
    assert on.lineages == "mmmsm"
    assert "They asked twice." in on.prompt(4)
    assert on.shown == ["Done."]

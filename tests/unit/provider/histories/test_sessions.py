"""Histories that are saved, restored, put back, interrupted, or begun anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import BeforeModelCallEvent, BeforeToolCallEvent, BeforeToolsEvent
from strands.session import FileSessionManager
from strands.types.exceptions import EventLoopException

from .scene import Mode, Scene, build, look_up, note, use


def saved(on: Scene, folder: Path, **options: Any) -> Agent:
    return on.agent(session_manager=FileSessionManager(session_id="s", storage_dir=str(folder)), **options)


# --- sessions and snapshots --------------------------------------------------------------------------------


async def test_a_session_restored_at_the_same_provider_goes_on_where_it_was(mode: Mode, tmp_path: Path) -> None:
    on = build(use("note"), "One.", "Two.", use("note"), "Three.", mode=mode)
    await saved(on, tmp_path).invoke_async("First?")

    restored = saved(on, tmp_path)
    await restored.invoke_async("Second?")
    await restored.invoke_async("Third?")

    on.check()
    assert on.parents == [None, 0, 1, 2, 3]
    assert on.lineages == "mmmmm"
    assert on.shown == [use("note"), "One.", "Two.", use("note"), "Three."]


async def test_a_session_restored_at_a_new_provider_is_rendered_whole(mode: Mode, tmp_path: Path) -> None:
    old = build(use("note"), "One.", mode=mode)
    await saved(old, tmp_path).invoke_async("First?")
    new = build(use("note"), "Two.", "Three.", mode=mode)

    restored = saved(new, tmp_path)
    await restored.invoke_async("Second?")
    await restored.invoke_async("Third?")

    new.check()
    assert "One." in new.prompt(0)
    assert new.parents == [None, 0, 1]


async def test_two_agents_of_one_session_are_two(mode: Mode, tmp_path: Path) -> None:
    on = build("a1", "b1", "a2", "b2", mode=mode)
    ada = saved(on, tmp_path, agent_id="ada")
    bob = on.agent(session_manager=FileSessionManager(session_id="s", storage_dir=str(tmp_path)), agent_id="bob")

    for question in ("1?", "2?"):
        await ada.invoke_async(question)
        await bob.invoke_async(question)

    on.check()
    assert on.lineages == "mama"
    assert on.parents == [None, None, 0, 1]
    assert on.shown == ["a1", "a2"]


async def test_a_snapshot_that_is_loaded_goes_on_from_there(mode: Mode) -> None:
    on = build("One.", "Two.", "Other.", "More.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    snapshot = agent.take_snapshot(preset="session")
    await agent.invoke_async("Second?")

    agent.load_snapshot(snapshot)
    await agent.invoke_async("Another?")
    await agent.invoke_async("More?")

    on.check()
    assert on.parents == [None, 0, 0, 2]
    assert on.fates == "kkkk"
    assert on.shown == ["One.", "Other.", "More."]
    assert [sum(sample.loss_mask) for sample in on.model.trajectory.samples()] == [
        len(on.turns[0].sampled) + len(on.turns[1].sampled),
        len(on.turns[2].sampled) + len(on.turns[3].sampled),
    ]


async def test_the_same_question_after_a_snapshot_was_loaded_is_another_one(mode: Mode) -> None:
    on = build("One.", "Two.", "Again.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    snapshot = agent.take_snapshot(preset="session")
    await agent.invoke_async("Second?")

    agent.load_snapshot(snapshot)
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, 0, 0]
    assert on.fates == "kkk"


async def test_a_snapshot_with_an_open_question_asks_it_again(mode: Mode) -> None:
    on = build(use("note"), "Bad.", use("note"), "Good.", mode=mode)
    agent = on.agent()
    snapshots: list[Any] = []

    def before(event: BeforeModelCallEvent) -> None:
        snapshots.append(agent.take_snapshot(preset="session"))

    agent.add_hook(before, BeforeModelCallEvent)
    await agent.invoke_async("Go")
    agent.load_snapshot(snapshots[0])
    await agent.invoke_async(None)

    on.check()
    assert on.parents == [None, 0, None, 2]
    assert on.fates == "ddkk"
    assert on.shown == [use("note"), "Good."]


async def test_a_snapshot_loaded_by_another_agent_goes_on_in_its_conversation(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    first, second = on.agent(), on.agent()
    await first.invoke_async("First?")

    second.load_snapshot(first.take_snapshot(preset="session"))
    await second.invoke_async("Second?")
    await second.invoke_async("Third?")

    on.check()
    assert on.parents == [None, 0, 1]
    assert on.lineages == "mmm"
    assert on.shown == ["One.", "Two.", "Three."]


# --- interrupts --------------------------------------------------------------------------------------------


def approve(event: BeforeToolCallEvent) -> None:
    if event.tool_use["name"] == "look_up" and event.interrupt("approve", reason="look up?") != "yes":
        event.cancel_tool = "Not approved."


def answers(result: Any, response: str) -> Any:
    return [{"interruptResponse": {"interruptId": each.id, "response": response}} for each in result.interrupts]


@pytest.mark.parametrize("response", ["yes", "no"])
async def test_an_interrupted_tool_turn_goes_on_after_the_response(mode: Mode, response: str) -> None:
    both = use("look_up", topic="rain") + "\n" + use("note", text="a")
    on = build(both, "Done.", "More.", mode=mode)
    agent = on.agent(hooks=[approve])
    result = await agent.invoke_async("Go")
    assert result.stop_reason == "interrupt"

    await agent.invoke_async(answers(result, response))
    await agent.invoke_async("More?")

    on.check()
    assert ("All about rain." in on.prompt(1)) == (response == "yes")
    # The finished result comes first in the message; a template pairs by order, so the calls' order is what is sent.
    assert on.prompt(1).rindex("Noted: a") > on.prompt(1).rindex("rain." if response == "yes" else "Not approved.")
    assert on.parents == [None, 0, 1]
    assert on.fates == "kkk"


async def test_an_interrupt_before_any_tool_runs(mode: Mode) -> None:
    def ask(event: BeforeToolsEvent) -> None:
        if event.interrupt("approve", reason="all of it?") != "yes":
            event.cancel = "None of it."

    both = use("look_up", topic="rain") + "\n" + use("note", text="a")
    on = build(both, "Done.", mode=mode)
    agent = on.agent(hooks=[ask])
    result = await agent.invoke_async("Go")

    await agent.invoke_async(answers(result, "no"))

    on.check()
    assert on.prompt(1).count("None of it.") == 2
    assert on.parents == [None, 0]


async def test_an_interrupted_session_goes_on_in_another_agent(mode: Mode, tmp_path: Path) -> None:
    on = build(use("look_up", topic="rain"), "Done.", mode=mode)
    result = await saved(on, tmp_path, hooks=[approve]).invoke_async("Go")

    restored = saved(on, tmp_path, hooks=[approve])
    await restored.invoke_async(answers(result, "yes"))

    on.check()
    assert on.parents == [None, 0]
    assert on.lineages == "mm"
    assert on.shown == [use("look_up", topic="rain"), "Done."]


async def test_a_tool_that_interrupts_itself(mode: Mode) -> None:
    @tool(context=True)
    def ask(question: str, tool_context: Any) -> str:
        """Ask the user."""
        return f"They say {tool_context.interrupt('ask', reason=question)}."

    on = build(use("ask", question="Sure?"), "Done.", mode=mode)
    agent = on.agent(tools=[ask])
    result = await agent.invoke_async("Go")

    await agent.invoke_async(answers(result, "so"))

    on.check()
    assert "They say so." in on.prompt(1)
    assert on.parents == [None, 0]


async def test_checkpoints_between_model_and_tools_change_nothing(mode: Mode) -> None:
    on = build(use("note"), "Done.", mode=mode)
    agent = on.agent(checkpointing=True)
    result = await agent.invoke_async("Go")
    positions = []
    while result.stop_reason == "checkpoint":
        assert result.checkpoint is not None
        positions.append(result.checkpoint.position)
        resume: Any = {"checkpointResume": {"checkpoint": result.checkpoint.to_dict()}}
        result = await agent.invoke_async(resume)

    assert positions == ["after_model", "after_tools"]
    on.check()
    assert on.parents == [None, 0]


async def test_a_question_after_a_call_that_was_never_run_answers_it_first(mode: Mode) -> None:
    on = build(use("note"), "Two.", mode=mode)
    agent = on.agent()
    armed = [True]

    def fail(event: BeforeToolsEvent) -> None:
        if armed:
            armed.clear()
            raise RuntimeError

    agent.add_hook(fail, BeforeToolsEvent)
    with pytest.raises(EventLoopException):
        await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert "Tool was interrupted." in on.prompt(1)
    assert on.parents == [None, 0]
    assert on.fates == "kk"


# --- new episodes ------------------------------------------------------------------------------------------


async def test_messages_that_are_cleared_begin_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", "Four.", mode=mode)
    agent = on.agent()
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)

    agent.messages.clear()
    await agent.invoke_async("First?")
    await agent.invoke_async("Fourth?")

    on.check()
    assert on.prompts[0] == on.prompts[2]
    assert on.parents == [None, 0, None, 2]
    # The same question as at first, but asked anew: the first answer to it was used.
    assert on.fates == "kkkk"
    assert on.shown == ["Three.", "Four."]


async def test_a_longer_list_of_examples_is_no_continuation(mode: Mode) -> None:
    shots: Any = [
        {"role": role, "content": [{"text": text}]}
        for role, text in [("user", "a?"), ("assistant", "A."), ("user", "b?"), ("assistant", "B.")]
    ]
    on = build("One.", "Two.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    agent.messages[:] = shots
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, None]
    assert on.fates == "kk"


async def test_a_new_agent_without_a_reset_is_another_agent_of_the_episode(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode)
    await on.agent().invoke_async("First?")

    await on.agent(tools=[look_up, note]).invoke_async("First?")

    on.check()
    assert on.lineages == "ma"
    assert on.fates == "kk"
    assert on.shown == ["One."]


async def test_a_reset_begins_an_episode_of_its_own(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    on.model.reset()
    await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    assert on.lineages == "mm"
    assert on.parents == [None, 0]
    assert "One." in on.prompt(1)
    assert on.shown == ["Two.", "Three."]

"""What is there for one call only, or from one call on: injected context, middleware, system prompt, tool list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel
from strands import tool
from strands.hooks import BeforeModelCallEvent
from strands.memory import MemoryManager
from strands.middleware.stages import InvokeModelContext, InvokeModelStage
from strands.vended_memory_stores.test_memory_store import TestMemoryStore
from strands.vended_plugins.context_injector import ContextInjector
from strands.vended_plugins.skills import AgentSkills, Skill

from .scene import Mode, build, look_up, note, use


class City(BaseModel):
    """A city."""

    name: str


@tool
def measure(length: int) -> str:
    """Measure something."""
    return f"{length} long"


async def test_text_injected_into_a_question_is_sent_in_that_call_only(mode: Mode) -> None:
    on = build(use("note"), "Done.", "More.", mode=mode)
    injector = ContextInjector(lambda context: f"<now>{len(context.messages)}</now>")
    agent = on.agent(plugins=[injector])

    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert ["<now>" in on.prompt(index) for index in range(3)] == [True, False, True]
    # The question was answered with the injected text; without it, it is another question.
    assert on.parents == [None, None, 1]
    assert on.fates == "kkk"
    assert on.lineages == "mmm"


async def test_text_injected_into_every_turn_makes_each_a_branch(mode: Mode) -> None:
    on = build(use("note"), use("look_up", topic="x"), "Done.", mode=mode)
    injector = ContextInjector(lambda context: f"<now>{len(context.messages)}</now>", trigger="everyTurn")

    await on.agent(plugins=[injector]).invoke_async("Go")

    on.check()
    assert all("<now>" in on.prompt(index) for index in range(3))
    assert on.parents == [None, None, None]
    assert on.fates == "kkk"
    assert [sum(sample.loss_mask) for sample in on.model.trajectory.samples()] == [len(t.sampled) for t in on.turns]


async def test_injected_text_that_stays_the_same_is_still_gone_in_the_next_call(mode: Mode) -> None:
    on = build(use("note"), "Done.", mode=mode)
    agent = on.agent(plugins=[ContextInjector(lambda _: "<hint>be kind</hint>", trigger="everyTurn")])

    await agent.invoke_async("Go")

    on.check()
    assert on.prompt(1).count("<hint>") == 1


async def test_memories_that_are_injected_are_sent(mode: Mode) -> None:
    store = TestMemoryStore(name="notes", persist=False)
    await store.add("The user likes rain.")
    on = build("Take an umbrella.", "More.", mode=mode)
    agent = on.agent(memory_manager=MemoryManager(stores=[store]))

    await agent.invoke_async("What about rain?")
    await agent.invoke_async("And rain tomorrow?")

    on.check()
    assert "The user likes rain." in on.prompt(0)
    assert on.parents == [None, None]
    assert on.fates == "kk"


async def test_middleware_may_change_anything_of_one_call(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent(system_prompt="Be brief.")

    async def change(context: InvokeModelContext) -> InvokeModelContext:
        if len(context.messages) != 3:
            return context
        messages: Any = [*context.messages[:-1], {"role": "user", "content": [{"text": "Quite another question?"}]}]
        return replace(context, messages=messages, system_prompt="Be long.", tool_specs=context.tool_specs[:1])

    agent.add_middleware(InvokeModelStage.Input, change)
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    assert "Quite another question?" in on.prompt(1)
    assert "Be long." in on.prompt(1)
    # The third call holds "Second?" again, which the model never read: it goes on from the first turn.
    assert on.parents == [None, None, 0]
    assert on.fates == "kkk"
    assert on.shown == ["One.", "Three."]


async def test_a_choice_of_tool_by_middleware_constrains_one_call_and_changes_no_prompt(mode: Mode) -> None:
    on = build("One.", use("note"), "Two.", mode=mode)
    agent = on.agent()

    async def force(context: InvokeModelContext) -> InvokeModelContext:
        choice: Any = {"tool": {"name": "note"}}
        return replace(context, tool_choice=choice) if len(context.messages) == 3 else context

    agent.add_middleware(InvokeModelStage.Input, force)
    for question in ("First?", "Second?"):
        await agent.invoke_async(question)

    on.check()
    params = [turn.sampled.facts["sampling_params"] for turn in on.turns]
    assert ["structural_tag" in each for each in params] == [False, True, False]
    assert on.parents == [None, 0, 1]


async def test_a_system_prompt_that_was_changed_starts_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent(system_prompt="Be brief.")
    await agent.invoke_async("First?")

    agent.system_prompt = "Be long."
    await agent.invoke_async("Second?")
    agent.system_prompt = [{"text": "Be long."}, {"cachePoint": {"type": "default"}}]
    await agent.invoke_async("Third?")

    on.check()
    assert "Be long." in on.prompt(1)
    # A cache point has no part in a prompt, so the last change is none.
    assert on.parents == [None, None, 1]
    assert on.fates == "kkk"
    assert on.shown == ["Two.", "Three."]


async def test_skills_are_part_of_the_system_prompt(mode: Mode) -> None:
    skill = Skill(name="counting", description="How to count.", instructions="One, two, three.")
    on = build(use("skills", skill_name="counting"), "Counted.", "More.", mode=mode)
    agent = on.agent(plugins=[AgentSkills(skills=[skill])])

    await agent.invoke_async("Count")
    await agent.invoke_async("More?")

    on.check()
    assert "How to count." in on.prompt(0)
    assert "One, two, three." in on.prompt(1)
    assert on.fates == "kkk"


async def test_a_tool_that_is_registered_at_run_time_starts_a_branch(mode: Mode) -> None:
    on = build("One.", "Two.", use("measure", length=3), "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    agent.tool_registry.process_tools([measure])
    await agent.invoke_async("Third?")

    on.check()
    assert "Measure something." in on.prompt(2)
    assert on.parents == [None, 0, None, 2]
    assert on.fates == "kkkk"


async def test_a_tool_that_is_registered_by_a_hook_is_on_offer_in_that_call(mode: Mode) -> None:
    on = build(use("note"), "Done.", mode=mode)

    def offer(event: BeforeModelCallEvent) -> None:
        if len(event.agent.messages) == 3:
            event.agent.tool_registry.process_tools([measure])

    await on.agent(hooks=[offer]).invoke_async("Go")

    on.check()
    assert "Measure something." not in on.prompt(0)
    assert "Measure something." in on.prompt(1)


async def test_a_structured_output_tool_is_on_offer_in_its_invocation_only(mode: Mode) -> None:
    on = build("One.", use("City", name="Oslo"), "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    result = await agent.invoke_async("Which?", structured_output_model=City)
    await agent.invoke_async("Third?")

    assert result.structured_output == City(name="Oslo")
    on.check()
    assert ['"City"' in on.prompt(index).partition("</tools>")[0] for index in range(3)] == [False, True, False]
    # With the old tool list the first turn agrees again; what was sampled under the other list is rendered anew.
    assert on.parents == [None, None, 0]
    assert on.fates == "kkk"


async def test_a_forced_structured_output_stays_on_the_branch(mode: Mode) -> None:
    on = build("It is Oslo.", '{"name": "Oslo"}', mode=mode)

    result = await on.agent().invoke_async("Which?", structured_output_model=City)

    assert result.structured_output == City(name="Oslo")
    on.check()
    assert on.parents == [None, 0]
    assert on.shown == ["It is Oslo.", '{"name": "Oslo"}']


async def test_options_of_the_template_that_were_changed_take_effect() -> None:
    on = build("One.", "Hm.\n</think>\n\nTwo.")
    agent = on.agent()
    await agent.invoke_async("First?")

    on.model.update_config(enable_thinking=True, chat_template_kwargs={"preserve_thinking": True})
    await agent.invoke_async("Second?")

    on.check()
    assert on.prompt(1).endswith("<think>\n")
    assert on.parents == [None, None]


@pytest.mark.parametrize(
    ("change", "named"),
    [("system_prompt", "system prompt or tools"), ("thinking", "options of the chat template")],
)
async def test_raising_on_divergence_names_what_changed(change: str, named: str) -> None:
    on = build("One.", on_divergence="raise")
    agent = on.agent(tools=[look_up, note])
    await agent.invoke_async("First?")

    if change == "system_prompt":
        agent.system_prompt = "Be brief."
    else:
        on.model.update_config(enable_thinking=True)
    with pytest.raises(Exception, match=named):
        await agent.invoke_async("Second?")

    on.check()

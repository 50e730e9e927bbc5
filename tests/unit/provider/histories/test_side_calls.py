"""Calls beside the agent's own loop on the same provider: judges, steering, memory, routing, structured output."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from strands.memory import ExtractionConfig, InvocationTrigger, MemoryManager, ModelExtractor
from strands.models.routing import ClassifierStrategy, ModelRouter, RoutingCandidate
from strands.vended_memory_stores.test_memory_store import TestMemoryStore
from strands.vended_plugins.goal import GoalLoop
from strands.vended_plugins.steering import LLMSteeringHandler

from strands_sglang.engine import Refusal

from .scene import Mode, build, use


class City(BaseModel):
    """A city."""

    name: str


def steering(decision: str) -> str:
    return use("_LLMSteering", decision=decision, reason="Say more.")


async def test_an_llm_that_steers_calls_is_another_agent(mode: Mode) -> None:
    on = build(
        use("note"), steering("guide"), use("note", text="more"), steering("proceed"), "Done.", mode=mode
    )  # fmt: skip
    agent = on.agent(plugins=[LLMSteeringHandler(system_prompt="Be strict.", context_providers=[])])

    await agent.invoke_async("Go")

    on.check()
    assert "Say more." in on.prompt(2)
    assert on.lineages == "mamam"
    assert on.parents == [None, None, 0, None, 2]
    assert on.shown == [use("note"), use("note", text="more"), "Done."]
    assert len(on.model.trajectory.samples()) == 1


@pytest.mark.parametrize("preserve", [True, False], ids=["preserve", "restore"])
async def test_attempts_at_a_goal_and_their_judge(mode: Mode, preserve: bool) -> None:
    verdicts = [
        use("JudgeOutcome", passed=passed, feedback=f"Say more {n}.") for n, passed in enumerate([False, False, True])
    ]
    tries = [[use("note"), "Bad."], ["Worse."], [use("note"), "Good."]]
    steps = [step for attempt, verdict in zip(tries, verdicts, strict=True) for step in (*attempt, verdict)]
    on = build(*steps, mode=mode)
    agent = on.agent(plugins=[GoalLoop("Be good.", max_attempts=4, preserve_context=preserve)])

    await agent.invoke_async("Go")

    on.check()
    assert on.lineages == "mmamamma"
    if preserve:
        assert on.fates == "kkkkkkkk"
        assert on.parents == [None, 0, None, 1, None, 3, 5, None]
        assert on.shown == [use("note"), "Bad.", "Worse.", use("note"), "Good."]
    else:
        # The host went back to the question each time: what it got so far was thrown away.
        assert on.fates == "ddkdkkkk"
        assert on.parents == [None, 0, None, None, None, None, 5, None]
        assert on.shown == [use("note"), "Good."]


async def test_attempts_at_a_goal_that_a_function_judges(mode: Mode) -> None:
    on = build("Bad.", "Worse.", "Good.", "Good, too.", mode=mode)
    good: Any = lambda response, _: "Good" in str(response)  # noqa: E731 - one expression
    goal = GoalLoop(good, max_attempts=4, preserve_context=False)
    agent = on.agent(plugins=[goal])

    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert on.fates == "ddkk"
    assert on.parents == [None, None, None, 2]


async def test_memories_are_extracted_by_side_calls(mode: Mode) -> None:
    facts = '[{"content": "Likes rain."}]'
    on = build("One.", facts, "Two.", facts, mode=mode)
    store = TestMemoryStore(
        name="notes",
        persist=False,
        extraction=ExtractionConfig(trigger=InvocationTrigger(), extractor=ModelExtractor()),
    )
    memory = MemoryManager(stores=[store], injection=False)
    agent = on.agent(memory_manager=memory)

    for question in ("I like rain.", "Really."):
        await agent.invoke_async(question)
        await memory.flush()

    on.check()
    assert [entry.content for entry in await store.search("rain")]
    assert on.lineages == "msms"
    assert on.parents == [None, None, 0, None]
    assert on.shown == ["One.", "Two."]


async def test_a_router_that_fails_over_goes_on_at_another_provider_with_what_the_agent_holds(mode: Mode) -> None:
    first = build("One.", Refusal(status=500), "Four.", mode=mode)
    second = build(use("note"), "Two.", mode=mode)

    class Turns:
        async def select(self, context: Any, **_: Any) -> Any:
            if context.attempts and context.attempts[-1].exception is None:
                return None
            return context.candidates[1] if context.attempts else context.candidates[0]

    router = ModelRouter([first.model, second.model], strategy=Turns())
    agent = first.agent(model=router)

    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    first.check()
    second.check()
    assert second.parents == [None, 0]
    assert "One." in second.prompt(0)
    # Back at the first one, what the other said is part of the prompt after its own turn.
    assert "Two." in first.prompt(2)
    assert first.parents == [None, 0]


async def test_a_classifier_before_the_first_call_is_no_main_conversation(mode: Mode) -> None:
    on = build('{"candidate_index": 0}', "One.", '{"candidate_index": 0}', "Two.", mode=mode)
    candidates = [RoutingCandidate(on.model, name="a"), RoutingCandidate(build().model, name="b")]
    agent = on.agent(model=ModelRouter(candidates, strategy=ClassifierStrategy(on.model)))

    for question in ("First?", "Second?"):
        await agent.invoke_async(question)

    on.check()
    assert on.lineages == "smsm"
    assert on.shown == ["One.", "Two."]


async def test_legacy_structured_output_records_nothing_in_the_loop(mode: Mode) -> None:
    on = build("One.", '{"name": "Oslo"}', "Two.", '{"name": "Rome"}', mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    with pytest.warns(DeprecationWarning, match="structured_output"):
        one = await agent.structured_output_async(City, "Which?")
    await agent.invoke_async("Second?")
    with pytest.warns(DeprecationWarning, match="structured_output"):
        two = await agent.structured_output_async(City)

    assert (one.name, two.name) == ("Oslo", "Rome")
    on.check()
    assert on.lineages == "msms"
    assert on.parents == [None, None, 0, None]
    assert on.shown == ["One.", "Two."]


async def test_calls_of_the_model_itself_go_on_where_they_are_continued(mode: Mode) -> None:
    on = build("One.", "Two.", "Other.", "Three.", mode=mode)

    async def ask(messages: Any) -> Any:
        text = ""
        async for event in on.model.stream(messages):
            text += event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
        thought = (
            [{"reasoningContent": {"reasoningText": {"text": f"Thought {len(on.turns) - 1}."}}}]
            if mode.thinking
            else []
        )
        return {"role": "assistant", "content": [*thought, {"text": text}]}

    def question(text: str) -> Any:
        return {"role": "user", "content": [{"text": text}]}

    history = [question("First?")]
    history += [await ask(history), question("Second?")]
    await ask(history)
    await ask([question("Quite another one?")])
    await ask([*history[:2], question("Third?")])

    on.check()
    assert on.lineages == "mmss"
    # A side call goes on from the newest turn only: any other would be a branch of a conversation that is not its own.
    assert on.parents == [None, 0, None, None]
    assert on.shown == ["One.", "Two."]


async def test_side_calls_at_once_do_not_mix(mode: Mode) -> None:
    on = build("One.", *['{"name": "Oslo"}'] * 3, mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    async def ask(text: str) -> None:
        async for _ in on.model.structured_output(City, [{"role": "user", "content": [{"text": text}]}]):
            pass

    await asyncio.gather(*(ask(f"{n}?") for n in range(3)))

    on.check()
    assert on.lineages == "msss"
    assert len({turn.conversation for turn in on.turns}) == 4

"""Several agents on one provider: in turn, at once, one as another's tool, in graphs and swarms."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from strands import Agent, tool
from strands.multiagent import GraphBuilder, Swarm
from strands.types.agent import ConcurrentInvocationMode

from strands_sglang.engine import Step, Turn

from .scene import Mode, Scene, build, direct, note, sampled, use


def cast(parts: dict[str, list[str]], *, mode: Mode, delay: float = 0.0) -> Scene:
    """A scene in which whoever's name stands in the prompt says its next line."""
    waiting = {name: iter(lines) for name, lines in parts.items()}

    def choose(prompt: str, number: int) -> Step:
        name = next(name for name in parts if f"You are {name}." in prompt)
        return Turn(text=sampled(next(waiting[name]), number, mode), delay=delay)

    return direct(choose, mode=mode)


def named(on: Scene, name: str, **options: Any) -> Agent:
    return on.agent(name=name, system_prompt=f"You are {name}.", **options)


def lines(on: Scene) -> dict[int, list[str]]:
    """What was said in each conversation, in order."""
    said: dict[int, list[str]] = {}
    for turn in on.turns:
        said.setdefault(turn.conversation, []).append(on.said(turn))
    return said


async def test_agents_in_turn_have_conversations_of_their_own(mode: Mode) -> None:
    on = build("a1", "b1", "a2", use("note"), "b2", "a3", mode=mode)
    ada, bob = named(on, "Ada"), named(on, "Bob")

    for agent, question in ((ada, "1?"), (bob, "1?"), (ada, "2?"), (bob, "2?"), (ada, "3?")):
        await agent.invoke_async(question)

    on.check()
    assert lines(on) == {0: ["a1", "a2", "a3"], 1: ["b1", use("note"), "b2"]}
    assert on.lineages == "mamaam"
    assert on.parents == [None, None, 0, 1, 3, 2]
    assert on.shown == ["a1", "a2", "a3"]
    assert [sample.lineage for sample in on.model.trajectory.samples()] == ["main"]


async def test_agents_that_are_equal_in_everything_have_conversations_of_their_own(mode: Mode) -> None:
    on = build("a1", "b1", "a2", "b2", mode=mode)
    first, second = on.agent(), on.agent()

    for question in ("1?", "2?"):
        await first.invoke_async(question)
        await second.invoke_async(question)

    on.check()
    assert lines(on) == {0: ["a1", "a2"], 1: ["b1", "b2"]}
    assert on.fates == "kkkk"
    assert on.shown == ["a1", "a2"]


async def test_agents_at_once_do_not_mix(mode: Mode) -> None:
    parts = {name: [f"{name} {n}" if n != 1 else use("note", text=name) for n in range(4)] for name in ("Ada", "Bob")}
    on = cast(parts, mode=mode, delay=0.01)
    agents = [named(on, name) for name in parts]

    async def talk(agent: Agent) -> None:
        for question in range(3):
            await agent.invoke_async(f"{question}?")

    await asyncio.gather(*(talk(agent) for agent in agents))

    on.check()
    assert sorted(lines(on).values()) == sorted(parts.values())
    assert on.branches == 2
    assert sorted({turn.lineage for turn in on.turns}) == ["agent", "main"]
    assert on.shown == parts["Ada"]


async def test_parallel_nodes_of_a_graph_do_not_mix(mode: Mode) -> None:
    parts = {
        "Ada": [use("note", text="a"), "Ada is done."],
        "Bob": [use("note", text="b"), use("note", text="c"), "Bob is done."],
        "Eve": ["All done."],
    }
    on = cast(parts, mode=mode, delay=0.01)
    builder = GraphBuilder()
    ada, bob, eve = (builder.add_node(named(on, name), name) for name in parts)
    builder.add_edge(ada, eve)
    builder.add_edge(bob, eve)
    builder.set_max_node_executions(9)

    await builder.build().invoke_async("Go")

    on.check()
    assert sorted(lines(on).values()) == sorted(parts.values())
    assert on.branches == 3
    assert "Ada is done." in on.text(on.turns[-1].rollout().token_ids)


async def test_one_agent_invoked_twice_at_once_sends_what_it_holds(mode: Mode) -> None:
    on = build(*[f"Answer {n}." for n in range(4)], mode=mode)
    agent = on.agent(concurrent_invocation_mode=ConcurrentInvocationMode.UNSAFE_REENTRANT)

    await asyncio.gather(agent.invoke_async("First?"), agent.invoke_async("Second?"))
    await agent.invoke_async("Third?")

    on.check()
    assert len(on.turns) == 3
    assert on.lineages == "mmm"
    # Both answers stand in the history, so neither was thrown away.
    assert on.fates == "kkk"


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
async def test_an_agent_as_a_tool_begins_anew_with_each_call(mode: Mode, own: bool) -> None:
    ask = use("expert", input="Why?")
    texts = {
        "main": [ask, ask, use("expert", input="How?"), "Done."],
        "expert": ["Because.", "Because, really.", "So."],
    }
    if own:
        on, inner = build(*texts["main"], mode=mode), build(*texts["expert"], mode=mode)
    else:
        order = [ask, "Because.", ask, "Because, really.", texts["main"][2], "So.", "Done."]
        on = inner = build(*order, mode=mode)
    expert = inner.agent(name="expert", system_prompt="You know.", tools=[])
    main = on.agent(tools=[expert.as_tool(name="expert", description="Knows.")])

    await main.invoke_async("Ask")

    on.check()
    inner.check()
    assert on.shown == texts["main"]
    experts = [turn for turn in inner.turns if inner.said(turn) in texts["expert"]]
    assert [turn.parent for turn in experts] == [None, None, None]
    # The same question was asked anew, not asked again: the first answer to it was read by the main agent.
    assert [turn.fate for turn in experts] == ["kept"] * 3
    assert {turn.lineage for turn in experts} == {"main" if own else "agent"}


async def test_an_agent_as_a_tool_may_keep_its_context(mode: Mode) -> None:
    on = build(use("expert", input="a?"), "1", use("expert", input="b?"), "2", "Done.", mode=mode)
    expert = on.agent(name="expert", system_prompt="You know.", tools=[])
    tool_of = expert.as_tool(name="expert", description="Knows.", preserve_context=True)

    await on.agent(tools=[tool_of]).invoke_async("Ask")

    on.check()
    assert lines(on)[1] == ["1", "2"]
    assert on.parents == [None, None, 0, 1, 2]


async def test_an_agent_that_delegates_ends_with_the_answer_of_the_other(mode: Mode) -> None:
    on = build(use("expert", input="a?"), "It is so.", "More.", mode=mode)
    expert = on.agent(name="expert", system_prompt="You know.", tools=[])
    main = on.agent(tools=[expert.as_tool(name="expert", description="Knows.", delegate=True)])

    await main.invoke_async("Ask")
    await main.invoke_async("More?")

    on.check()
    assert on.prompt(2).count("It is so.") == 2  # as the result, and as the main agent's own answer
    assert on.lineages == "mam"
    assert on.parents == [None, None, 0]


async def test_agents_in_threads_of_their_own_do_not_mix(mode: Mode) -> None:
    names = ("Ada", "Bob", "Cyd")
    parts = {"Main": ["\n".join(use("ask", who=name) for name in names), "Done."]}
    parts |= {name: [use("note", text=name), f"{name} says so."] for name in names}
    on = cast(parts, mode=mode, delay=0.01)
    experts = {name: named(on, name) for name in names}

    @tool
    def ask(who: str) -> str:
        """Ask someone."""
        return str(experts[who]("Well?"))

    await named(on, "Main", tools=[ask]).invoke_async("Ask all")

    on.check()
    assert sorted(lines(on).values()) == sorted(parts.values())
    assert on.shown == parts["Main"]


async def test_a_swarm_that_returns_to_a_node_begins_there_anew(mode: Mode) -> None:
    to = {name: use("handoff_to_agent", agent_name=name, message=f"Over to {name}.") for name in ("Ada", "Bob")}
    on = cast({"Ada": [to["Bob"], "Handed over.", "Ada is done."], "Bob": [to["Ada"], "Handed back."]}, mode=mode)
    swarm = Swarm([named(on, "Ada", tools=[note]), named(on, "Bob", tools=[note])], max_handoffs=5)

    await swarm.invoke_async("Go")

    on.check()
    assert len({turn.conversation for turn in on.turns}) == 2
    assert "d" not in on.fates
    assert on.shown[-1] == "Ada is done."


@pytest.mark.parametrize("reset", [True, False])
async def test_a_graph_that_revisits_a_node(mode: Mode, reset: bool) -> None:
    on = cast({"Ada": ["Draft.", "Better."], "Bob": ["Again.", "Fine."]}, mode=mode)
    builder = GraphBuilder()
    ada, bob = (builder.add_node(named(on, name), name) for name in ("Ada", "Bob"))
    builder.add_edge(ada, bob)
    builder.add_edge(bob, ada, condition=lambda state: "Again." in str(state.results["Bob"].result))
    builder.set_entry_point("Ada")
    builder.reset_on_revisit(reset)
    builder.set_max_node_executions(6)

    await builder.build().invoke_async("Write")

    on.check()
    assert lines(on) == {0: ["Draft.", "Better."], 1: ["Again.", "Fine."]}
    assert on.parents == ([None, None, None, None] if reset else [None, None, 0, 1])
    assert on.fates == "kkkk"


async def test_agents_on_one_list_of_messages_share_one_history(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    messages: list[Any] = []
    first, second = on.agent(messages=messages), on.agent(messages=messages)

    await first.invoke_async("First?")
    await second.invoke_async("Second?")
    await first.invoke_async("Third?")

    on.check()
    assert on.parents == [None, 0, 1]
    assert on.lineages == "mmm"
    assert on.shown == ["One.", "Two.", "Three."]


@pytest.mark.parametrize("at_once", [True, False])
async def test_of_several_agents_that_go_on_from_one_point_only_the_first_takes_over(mode: Mode, at_once: bool) -> None:
    # Equal answers to one and the same question: nothing but the agent tells the copies apart.
    on = build("One.", *["Two."] * 3, *["Three."] * 3, mode=mode)
    first = on.agent()
    await first.invoke_async("First?")
    asked: Any = [*first.messages, {"role": "user", "content": [{"text": "Second?"}], "tracking_id": "q"}]
    copies = [on.agent(messages=copy.deepcopy(asked)) for _ in range(3)]

    for question in (None, "Third?"):
        if at_once:
            await asyncio.gather(*(each.invoke_async(question) for each in copies))
        else:
            for each in copies:
                await each.invoke_async(question)

    on.check()
    assert on.lineages == "m" + "maa" * 2
    assert on.fates == "k" * 7
    assert on.shown == ["One.", "Two.", "Three."]


async def test_an_agent_that_is_given_the_history_of_a_running_loop_is_another_one(mode: Mode) -> None:
    on = build(use("fork"), "Inner.", "Done.", mode=mode)

    @tool
    async def fork() -> str:
        """Think aside."""
        inner = on.agent(tools=[fork], messages=[*main.messages, {"role": "user", "content": [{"text": "Aside?"}]}])
        results = {"toolResult": {"toolUseId": "x", "status": "success", "content": []}}
        inner.messages[-1]["content"].insert(0, results)  # type: ignore[arg-type]
        return str(await inner.invoke_async(None))

    main = on.agent(tools=[fork])
    await main.invoke_async("Go")

    on.check()
    assert on.lineages == "mam"
    assert on.shown == [use("fork"), "Done."]


def test_a_synchronous_agent_goes_on_over_several_event_loops(mode: Mode) -> None:
    on = build("One.", use("note"), "Two.", mode=mode)
    agent = on.agent()

    agent("First?")
    agent("Second?")

    on.check()
    assert on.parents == [None, 0, 1]

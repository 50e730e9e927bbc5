"""Strands' own features on the real server: every branch of every trajectory is what the server would score.

Histories that managers cut, agents that share a provider, graphs, interrupts, sessions: whatever the host does to its
messages, the recorded log-probabilities of each branch equal those of a second pass over its tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.hooks.events import BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.session.file_session_manager import FileSessionManager

from strands_sglang import LoopLimiter, SGLangClient, SGLangModel
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.trajectory import Lineage

from .episodes import MAX_TOOL_ITERATIONS, TOLERANCE, Served, calculator, largest_difference

SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 200}


@asynccontextmanager
async def provider(served: Served, **config: Any) -> AsyncIterator[SGLangModel]:
    async with SGLangClient(served.url) as client:
        yield SGLangModel(
            client=client,
            tokenizer=served.tokenizer,
            tool_parser=get_tool_parser(served.tool_parser),
            **{"sampling_params": SAMPLED, **config},
        )


def agent(model: SGLangModel, **options: Any) -> Agent:
    limiter = LoopLimiter(max_tool_iters=MAX_TOOL_ITERATIONS, on_limit="stop")
    defaults = {"tools": [calculator], "hooks": [limiter], "callback_handler": None}
    return Agent(model=model, **{**defaults, **options})


def check_trajectory(served: Served, model: SGLangModel, measure: Callable[[str, str], None], name: str) -> None:
    """Re-score every branch, and give each sampled token to exactly one sample."""
    worst = max(largest_difference(served.url, branch) for branch in model.trajectory.branches)
    assert worst < TOLERANCE
    measure(f"largest logprob difference, {name}", f"{worst:.1e}")
    samples = model.trajectory.samples(include_side_calls=True, include_discarded=True)
    trained = sum(sum(sample.loss_mask) for sample in samples)
    assert trained == sum(len(turn.sampled) for turn in model.trajectory.turns)


async def test_a_sliding_window_over_thirty_questions(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served) as model:
        host = agent(model, conversation_manager=SlidingWindowConversationManager(window_size=6))
        for number in range(30):
            await host.invoke_async(f"What is {number} + {number * 7}?")

    assert len(model.trajectory.branches) > 5
    assert len(host.messages) <= 6
    check_trajectory(served, model, measure, "sliding window")


async def test_a_summarising_manager(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served, context_window_limit=1000) as model:
        manager = SummarizingConversationManager(
            summary_ratio=0.5, preserve_recent_messages=2, summarization_system_prompt="Be brief."
        )
        host = agent(model, conversation_manager=manager)
        for number in range(14):
            await host.invoke_async(f"What is {number} + {number * 7}?")

    lineages = [turn.lineage for turn in model.trajectory.turns]
    assert Lineage.SIDE_CALL in lineages
    assert all(sample.lineage is Lineage.MAIN for sample in model.trajectory.samples())
    check_trajectory(served, model, measure, "summarising")


async def test_an_agent_as_the_tool_of_another(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served, sampling_params={**SAMPLED, "temperature": 0.0}) as model:

        @tool(name="calculator")
        async def delegate(expression: str) -> str:
            """Evaluate an arithmetic expression."""
            return str(await agent(model).invoke_async(f"What is {expression}?"))

        await agent(model, tools=[delegate]).invoke_async("What is 25 * 17?")

    assert {turn.lineage for turn in model.trajectory.turns} == {Lineage.MAIN, Lineage.AGENT}
    check_trajectory(served, model, measure, "agent as tool")


async def test_a_graph_with_two_nodes_at_once(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served) as model:
        builder = GraphBuilder()
        for name in ("left", "right"):
            builder.add_node(agent(model, name=name), name)
            builder.set_entry_point(name)
        builder.set_execution_timeout(120)
        await builder.build().invoke_async("What is 25 * 17?")

    assert {turn.conversation for turn in model.trajectory.turns} == {0, 1}
    check_trajectory(served, model, measure, "graph")


async def test_a_swarm(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served) as model:
        swarm = Swarm([agent(model, name="first"), agent(model, name="second")], execution_timeout=120)
        await swarm.invoke_async("What is 25 * 17?")
        await swarm.invoke_async("What is 12 + 30?")

    check_trajectory(served, model, measure, "swarm")


async def test_an_interrupt_and_its_resumption(served: Served, measure: Callable[[str, str], None]) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval", reason="may it run?")

    async with provider(served, sampling_params={**SAMPLED, "temperature": 0.0}) as model:
        host = agent(model)
        host.add_hook(ask, BeforeToolCallEvent)
        result = await host.invoke_async("What is 25 * 17?")
        assert result.stop_reason == "interrupt"
        answers = [
            {"interruptResponse": {"interruptId": interrupt.id, "response": "yes"}}
            for interrupt in result.interrupts or ()
        ]
        await host.invoke_async(answers)  # type: ignore[arg-type]  # plain dicts

    assert len(model.trajectory.branches) == 1
    check_trajectory(served, model, measure, "interrupt")


async def test_a_session_saved_and_restored(
    served: Served, measure: Callable[[str, str], None], tmp_path: Path
) -> None:
    for question in ("What is 25 * 17?", "Now add 5."):
        async with provider(served) as model:
            manager = FileSessionManager(session_id="one", storage_dir=str(tmp_path))
            host = agent(model, session_manager=manager, agent_id="host")
            await host.invoke_async(question)

    assert "25 * 17" in served.tokenizer.decode(model.rollout.token_ids)
    check_trajectory(served, model, measure, "restored session")


class Verdict(BaseModel):
    """A verdict on a calculation."""

    right: bool
    grade: Literal["good", "bad"]


@pytest.mark.parametrize("thinking", [None, True, False])
async def test_structured_output(served: Served, measure: Callable[[str, str], None], thinking: bool | None) -> None:
    async with provider(served, enable_thinking=thinking) as model:
        result = await agent(model, tools=[]).invoke_async("Hello!", structured_output_model=Verdict)

    assert isinstance(result.structured_output, Verdict)
    # A grammar is part of the distribution that was sampled from, so these log-probabilities are not the model's own.
    forced = model.trajectory.turns[-1]
    assert forced.parent is not None
    assert forced.sampled.facts["finish_reason"] == "stop"
    assert largest_difference(served.url, forced.parent.rollout()) < TOLERANCE


async def test_a_forced_call(served: Served) -> None:
    async with provider(served) as model:
        specs = [calculator.tool_spec]
        messages = [{"role": "user", "content": [{"text": "Hello!"}]}]
        events = model.stream(messages, specs, tool_choice={"tool": {"name": "calculator"}})  # type: ignore[arg-type]
        async for event in events:
            if "messageStop" in event:
                assert event["messageStop"]["stopReason"] == "tool_use"

    (call,) = model.trajectory.turns[-1].sampled.facts["calls"]
    assert (call["name"], call["status"]) == ("calculator", "ok")

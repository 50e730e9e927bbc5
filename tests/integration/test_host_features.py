"""Strands' own features on the real server: every branch of every trajectory is what the server would score.

Histories that managers cut, agents that share a provider, graphs, interrupts, sessions: whatever the host does to its
messages, the recorded log-probabilities of each branch equal those of a second pass over its tokens.
Most of it is sampled at temperature 1, and any answer may be cut short (see `CUT_SHORT`): the record must be right then
as well, and where a test is about something that only a finished episode shows, another one is played.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.hooks.events import BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang import LoopLimiter, SGLangClient, SGLangModel
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.trajectory import Lineage

from .episodes import (
    ATTEMPTS,
    CUT_SHORT,
    MAX_TOOL_ITERATIONS,
    TOLERANCE,
    Served,
    calculator,
    largest_difference,
)

SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 200}
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 200}
HOST_SECONDS = 900.0


@asynccontextmanager
async def provider(served: Served, **config: Any) -> AsyncIterator[SGLangModel]:
    async with SGLangClient(served.url) as client:
        yield SGLangModel(
            client=client,
            tokenizer=served.tokenizer,
            tool_parser=get_tool_parser(served.tool_parser),
            **{"sampling_params": SAMPLED, **config},
        )


def agent(model: SGLangModel, *, max_tool_iters: int = MAX_TOOL_ITERATIONS, **options: Any) -> Agent:
    limiter = LoopLimiter(max_tool_iters=max_tool_iters, on_limit="stop")
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
        # The window begins with a question: no question may lead to more messages than it holds.
        manager = SlidingWindowConversationManager(window_size=6)
        host = agent(model, max_tool_iters=2, conversation_manager=manager)
        for number in range(30):
            with suppress(*CUT_SHORT):
                await host.invoke_async(f"What is {number} + {number * 7}?")

    assert len(model.trajectory.branches) > 5
    assert len(host.messages) <= 6
    check_trajectory(served, model, measure, "sliding window")


@contextmanager
def no_text_no_summary() -> Iterator[None]:
    """Pass over the host's refusal of a summary without text: a summary is sampled as well, and may be anything."""
    try:
        yield
    except RuntimeError as error:
        if "contained no text" not in str(error):
            raise


async def test_a_summarising_manager(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served, context_window_limit=1000) as model:
        manager = SummarizingConversationManager(
            summary_ratio=0.5, preserve_recent_messages=2, summarization_system_prompt="Be brief."
        )
        host = agent(model, conversation_manager=manager)
        # Each question brings 30 tokens at the very least, so the window is full before the last one.
        for number in range(40):
            with suppress(*CUT_SHORT), no_text_no_summary():
                await host.invoke_async(f"What is {number} + {number * 7}?")
            if Lineage.SIDE_CALL in {turn.lineage for turn in model.trajectory.turns[:-3]}:
                break

    assert Lineage.SIDE_CALL in {turn.lineage for turn in model.trajectory.turns}
    assert all(sample.lineage is Lineage.MAIN for sample in model.trajectory.samples())
    check_trajectory(served, model, measure, "summarising")


async def test_an_agent_as_the_tool_of_another(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served, sampling_params=GREEDY) as model:

        @tool(name="calculator")
        async def delegate(expression: str) -> str:
            """Evaluate an arithmetic expression."""
            return str(await agent(model).invoke_async(f"What is {expression}?"))

        await agent(model, tools=[delegate]).invoke_async("What is 25 * 17?")

    assert {turn.lineage for turn in model.trajectory.turns} == {Lineage.MAIN, Lineage.AGENT}
    check_trajectory(served, model, measure, "agent as tool")


async def test_a_graph_with_two_nodes_at_once(served: Served, measure: Callable[[str, str], None]) -> None:
    for _ in range(ATTEMPTS):
        async with provider(served) as model:
            builder = GraphBuilder()
            for name in ("left", "right"):
                builder.add_node(agent(model, name=name), name)
                builder.set_entry_point(name)
            builder.set_execution_timeout(HOST_SECONDS)
            # A node that is cut short ends the other one as well, perhaps before its first turn.
            with suppress(*CUT_SHORT):
                await builder.build().invoke_async("What is 25 * 17?")

        check_trajectory(served, model, measure, "graph")
        if {turn.conversation for turn in model.trajectory.turns} == {0, 1}:
            return
    pytest.fail("no run in which both nodes had a turn")


async def test_a_swarm(served: Served, measure: Callable[[str, str], None]) -> None:
    async with provider(served) as model:
        agents = [agent(model, name="first"), agent(model, name="second")]
        swarm = Swarm(agents, execution_timeout=HOST_SECONDS, node_timeout=HOST_SECONDS)
        for question in ("What is 25 * 17?", "What is 12 + 30?"):
            with suppress(*CUT_SHORT):
                await swarm.invoke_async(question)

    check_trajectory(served, model, measure, "swarm")


async def test_an_interrupt_and_its_resumption(served: Served, measure: Callable[[str, str], None]) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval", reason="may it run?")

    async with provider(served, sampling_params=GREEDY) as model:
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
            with suppress(*CUT_SHORT):
                await host.invoke_async(question)

    assert "25 * 17" in served.tokenizer.decode(model.rollout.token_ids)
    check_trajectory(served, model, measure, "restored session")


class Verdict(BaseModel):
    """A verdict on a calculation."""

    right: bool
    grade: Literal["good", "bad"]


def check_unconstrained_turns(served: Served, model: SGLangModel) -> None:
    """Re-score what was sampled freely; a grammar is a part of the distribution that a second pass does not know."""
    for turn in model.trajectory.turns:
        if not turn.sampled.facts["sampling_params"].keys() & {"json_schema", "structural_tag"}:
            assert largest_difference(served.url, turn.rollout()) < TOLERANCE


@pytest.mark.parametrize("thinking", [None, True, False])
async def test_structured_output(served: Served, thinking: bool | None) -> None:
    for _ in range(ATTEMPTS):
        async with provider(served, enable_thinking=thinking) as model:
            try:
                result = await agent(model, tools=[]).invoke_async("Hello!", structured_output_model=Verdict)
            except MaxTokensReachedException:
                # Nothing bounds the first answer, or the reasoning before the second one.
                assert model.trajectory.turns[-1].sampled.facts["finish_reason"] == "length"
                result = None
        check_unconstrained_turns(served, model)
        if result is not None:
            break
    else:
        pytest.fail("the model never came to an end")

    assert isinstance(result.structured_output, Verdict)
    forced = model.trajectory.turns[-1]
    assert forced.parent is not None
    assert forced.sampled.facts["finish_reason"] == "stop"


async def test_a_forced_call(served: Served) -> None:
    specs = [calculator.tool_spec]
    messages = [{"role": "user", "content": [{"text": "Hello!"}]}]
    for _ in range(ATTEMPTS):
        async with provider(served) as model:
            events = model.stream(messages, specs, tool_choice={"tool": {"name": "calculator"}})  # type: ignore[arg-type]
            (reason,) = [event["messageStop"]["stopReason"] async for event in events if "messageStop" in event]

        (call,) = model.trajectory.turns[-1].sampled.facts["calls"]
        assert (call["status"] == "ok") == (reason == "tool_use")
        if reason == "tool_use":
            assert call["name"] == "calculator"
            return
        assert reason == "max_tokens"
    pytest.fail("the text between the quotes of the call's argument never ended")

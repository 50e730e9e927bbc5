"""Hooks, steering and interventions: answers thrown away, and texts that no model wrote."""

from __future__ import annotations

from typing import Any

import pytest
from strands.hooks import (
    AfterModelCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
)
from strands.interventions import Guide as Feedback
from strands.interventions import InterventionHandler, Proceed
from strands.types.exceptions import EventLoopException
from strands.vended_plugins.steering import Guide, SteeringHandler
from strands.vended_plugins.steering import Proceed as GoOn

from strands_sglang.errors import HistoryDivergedError

from .scene import Mode, build, calm, use


class NotGoodEnoughError(Exception):
    """Raised by a hook."""


def words(message: Any) -> str:
    return "".join(block.get("text", "") for block in message["content"])


# --- answers thrown away -----------------------------------------------------------------------------------


async def test_an_answer_that_is_retried_is_thrown_away_each_time(mode: Mode) -> None:
    on = build("Bad.", "Worse.", "Bad.", "Good.", "More.", mode=mode)

    def judge(event: AfterModelCallEvent) -> None:
        event.retry = event.stop_response is not None and words(event.stop_response.message) in ("Bad.", "Worse.")

    agent = on.agent(hooks=[judge])
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert on.parents == [None, None, None, None, 3]
    assert on.fates == "dddkk"
    assert on.shown == ["Good.", "More."]
    assert len(on.model.trajectory.samples()) == 1


@calm
async def test_an_answer_with_calls_that_is_retried_runs_nothing(mode: Mode) -> None:
    calls = use("note", text="a")
    on = build("One.", calls, use("note", text="b"), "Done.", mode=mode)
    seen = []

    def judge(event: AfterModelCallEvent) -> None:
        seen.append(event.stop_response is not None and event.stop_response.stop_reason)
        event.retry = len(seen) == 2

    agent = on.agent(hooks=[judge])
    await agent.invoke_async("First?")
    await agent.invoke_async("Go")

    on.check()
    assert on.parents == [None, 0, 0, 2]
    assert on.fates == "kdkk"
    assert on.shown == ["One.", use("note", text="b"), "Done."]
    assert "Noted: a" not in on.prompt(3)


async def test_the_same_answer_sampled_again_is_the_newer_one() -> None:
    on = build(use("note"), use("note"), "Done.")
    seen = []

    def once(event: AfterModelCallEvent) -> None:
        seen.append(1)
        event.retry = len(seen) == 1

    await on.agent(hooks=[once]).invoke_async("Go")

    on.check()
    assert on.parents == [None, None, 1]
    assert on.fates == "dkk"


@calm
async def test_an_answer_that_is_put_back_after_others_were_tried_is_kept(mode: Mode) -> None:
    on = build("Best.", "Worse.", "Worst.", "More.", mode=mode)
    tried: list[Any] = []

    def best_of_three(event: AfterModelCallEvent) -> None:
        assert event.stop_response is not None
        tried.append(event.stop_response.message)
        if len(tried) < 3:
            event.retry = True
        elif len(tried) == 3:
            event.stop_response.message["content"] = tried[0]["content"]

    agent = on.agent(hooks=[best_of_three])
    await agent.invoke_async("Go")
    assert on.fates == "ddk"
    await agent.invoke_async("More?")

    on.check()
    assert on.parents == [None, None, None, 0]
    assert on.fates == "kddk"
    assert on.shown == ["Best.", "More."]


async def test_a_steered_answer_is_thrown_away_and_the_advice_is_read(mode: Mode) -> None:
    class Kind(SteeringHandler):
        async def steer_after_model(self, *, message: Any, **_: Any) -> Any:
            return Guide(reason="Be kind.") if "Bad" in words(message) else GoOn(reason="")

    on = build("Bad.", "Bad again.", "Good.", mode=mode)

    await on.agent(plugins=[Kind()]).invoke_async("Go")

    on.check()
    assert on.prompt(2).count("Be kind.") == 2
    assert on.fates == "ddk"
    assert on.shown == ["Good."]


async def test_a_steered_call_is_answered_with_the_advice(mode: Mode) -> None:
    class Careful(SteeringHandler):
        async def steer_before_tool(self, *, tool_use: Any, **_: Any) -> Any:
            return Guide(reason="Say more.") if not tool_use["input"] else GoOn(reason="")

    on = build(use("note"), use("note", text="more"), "Done.", mode=mode)

    await on.agent(plugins=[Careful()]).invoke_async("Go")

    on.check()
    assert "Say more." in on.prompt(1)
    assert on.parents == [None, 0, 1]


class Tutor(InterventionHandler):
    name = "tutor"

    def after_model_call(self, event: AfterModelCallEvent, **_: Any) -> Any:
        bad = event.stop_response is not None and "Bad" in words(event.stop_response.message)
        return Feedback(feedback="Be kind.") if bad else Proceed()


async def test_an_intervention_after_the_model_throws_the_answer_away(mode: Mode) -> None:
    on = build("Bad.", "Good.", "More.", mode=mode)
    agent = on.agent(interventions=[Tutor()])

    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert "Be kind." in on.prompt(1)
    assert on.fates == "dkk"
    assert on.parents == [None, None, 1]


@calm
async def test_an_intervention_before_the_model_only_adds_a_message(mode: Mode) -> None:
    class Prompter(InterventionHandler):
        name = "prompter"

        def before_model_call(self, event: BeforeModelCallEvent, **_: Any) -> Any:
            return Feedback(feedback="Think twice.")

    on = build(use("note"), "Done.", mode=mode)

    await on.agent(interventions=[Prompter()]).invoke_async("Go")

    on.check()
    assert on.prompt(1).count("Think twice.") == 2
    assert on.parents == [None, 0]


async def test_an_answer_that_a_hook_refuses_by_raising_is_thrown_away(mode: Mode) -> None:
    on = build("Bad.", "Good.", mode=mode)

    def strict(event: AfterModelCallEvent) -> None:
        if event.stop_response is not None and words(event.stop_response.message) == "Bad.":
            raise NotGoodEnoughError

    agent = on.agent(hooks=[strict])
    with pytest.raises(NotGoodEnoughError):
        await agent.invoke_async("Go")
    assert on.shown == ["Bad."]
    await agent.invoke_async("Again")

    on.check()
    assert on.fates == "dk"
    assert on.shown == ["Good."]


@pytest.mark.parametrize(
    ("event_type", "turns"),
    [(BeforeInvocationEvent, 0), (BeforeModelCallEvent, 0), (AfterToolsEvent, 1), (BeforeToolCallEvent, 1)],
)
async def test_a_hook_that_raises_elsewhere_leaves_an_exact_record(
    mode: Mode, event_type: type[Any], turns: int
) -> None:
    on = build(use("note"), "Done.", "More.", mode=mode)
    armed = [True]

    def fail(event: Any) -> None:
        if armed:
            armed.clear()
            raise NotGoodEnoughError

    agent = on.agent()
    agent.add_hook(fail, event_type)
    with pytest.raises((NotGoodEnoughError, EventLoopException)):
        await agent.invoke_async("Go")
    assert len(on.turns) == turns
    await agent.invoke_async("Go on")

    on.check()
    assert on.fates == "kk"
    assert on.branches == 1


@calm
async def test_a_retry_is_refused_where_divergence_raises(mode: Mode) -> None:
    on = build("Bad.", mode=mode, on_divergence="raise")

    def judge(event: AfterModelCallEvent) -> None:
        event.retry = event.stop_response is not None

    with pytest.raises(HistoryDivergedError, match="ends after 1 messages, 2 were recorded"):
        await on.agent(hooks=[judge]).invoke_async("Go")

    on.check()
    assert on.fates == "d"


# --- texts that no model wrote -----------------------------------------------------------------------------


async def test_a_turn_that_a_hook_ends_after_the_tools_is_answered_by_the_hook(mode: Mode) -> None:
    on = build(use("note"), "More.", mode=mode)

    def end(event: AfterToolsEvent) -> None:
        event.end_turn = "That will do."

    agent = on.agent(hooks=[end])
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert "That will do." in on.prompt(1)
    assert on.parents == [None, 0]
    assert on.shown == [use("note"), "More."]


async def test_a_model_call_that_is_refused_by_a_hook_leaves_its_text(mode: Mode) -> None:
    on = build("One.", "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    refuse = [True]

    def no(event: BeforeModelCallEvent) -> None:
        event.cancel = refuse.pop() and "Not now." if refuse else False

    agent.add_hook(no, BeforeModelCallEvent)
    await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    on.check()
    assert "Not now." in on.prompt(1)
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_an_invocation_that_is_refused_leaves_its_text(mode: Mode) -> None:
    on = build("One.", "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    refuse = [True]

    def no(event: BeforeInvocationEvent) -> None:
        event.cancel = refuse.pop() and "Not today." if refuse else False

    agent.add_hook(no, BeforeInvocationEvent)
    await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    on.check()
    assert "Not today." in on.prompt(1)
    assert on.parents == [None, 0]

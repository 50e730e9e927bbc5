"""Answers that are cut short: cancelled, left, cut by length; and answers with nothing in them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import aclosing
from typing import Any

import pytest
from strands.hooks import AfterToolsEvent, MessageAddedEvent
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang.engine import Turn

from .oracle import END
from .scene import Mode, build, calm, sampled, use

SLOW = Turn(text="too late" + END, delay=30)


class BrokenError(Exception):
    """Raised by a callback handler."""


def written(text: str, mode: Mode) -> str:
    """The first answer as it stands in the context, without its end."""
    return ("<think>\n" if mode.thinking else "") + sampled(text, 0, mode).removesuffix(END)


async def begun(on: Any) -> None:
    """Wait until a request has reached the engine."""
    count = len(on.prompts)
    while len(on.prompts) == count:
        await asyncio.sleep(0.01)


async def test_cancelling_a_generation_aborts_it_and_leaves_the_hosts_text(mode: Mode) -> None:
    on = build("One.", SLOW, "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    task = asyncio.create_task(agent.invoke_async("Second?"))
    await begun(on)

    agent.cancel()
    result = await task
    await agent.invoke_async("Third?")

    assert result.stop_reason == "cancelled"
    assert len(on.engine.disconnects) == 1
    on.check()
    assert "Cancelled by user" in on.prompt(2)
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_a_signal_of_the_caller_cancels_too(mode: Mode) -> None:
    on = build(SLOW, "Two.", mode=mode)
    agent, signal = on.agent(), threading.Event()
    task = asyncio.create_task(agent.invoke_async("First?", cancel_signal=signal))
    await begun(on)

    signal.set()
    result = await task
    await agent.invoke_async("Second?")

    assert result.stop_reason == "cancelled"
    on.check()
    assert on.parents == [None]


@pytest.mark.parametrize("message", [None, "Stopped."])
async def test_an_answer_that_is_cancelled_as_it_arrives_does_not_count(mode: Mode, message: str | None) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)

    def stop(**event: Any) -> None:
        if "Two" in str(event.get("data", "")):
            agent.cancel(message=message)

    agent = on.agent(callback_handler=stop)
    await agent.invoke_async("First?")
    result = await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    assert result.stop_reason == "cancelled"
    on.check()
    assert (message or "Cancelled by user") in on.prompt(2)
    assert on.parents == [None, 0, 0]
    # The host's own word for it says that the answer was thrown away; any other text could be an edited answer.
    assert on.fates == ("kek" if message else "kdk")
    assert on.shown == ["One.", "Three."]


LONG = Turn(text="Once upon a time there was a king. " * 20 + END, token_delay=0.02)


async def test_an_answer_that_is_cancelled_while_it_streams_is_not_recorded() -> None:
    on = build("One.", LONG, "Three.", stream=True)

    def stop(**event: Any) -> None:
        if "Once" in str(event.get("data", "")):
            agent.cancel()

    agent = on.agent(callback_handler=stop)
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    on.check()
    # Strands leaves its inner generators to Python, which closes them in later turns of the event loop.
    async with asyncio.timeout(30):
        while not on.engine.disconnects:
            await asyncio.sleep(0.01)
    assert len(on.engine.disconnects) == 1
    assert "Cancelled by user" in on.prompt(2)
    assert on.parents == [None, 0]


async def test_a_signal_ends_a_stream_that_shows_nothing_yet() -> None:
    call = '<tool_call>\n{"name": "note", "arguments": {"text": "' + "word " * 200 + '"}}\n</tool_call>'
    on = build("One.", Turn(text=call + END, token_delay=0.01), "Three.", stream=True)
    agent = on.agent()
    await agent.invoke_async("First?")

    async def stop() -> None:
        await begun(on)
        await asyncio.sleep(0.1)
        agent.cancel()

    canceller = asyncio.create_task(stop())
    result = await agent.invoke_async("Second?")
    await canceller
    await agent.invoke_async("Third?")

    on.check()
    assert result.stop_reason == "cancelled"
    async with asyncio.timeout(30):
        while not on.engine.disconnects:
            await asyncio.sleep(0.01)
    assert on.parents == [None, 0]


async def test_an_answer_that_is_left_while_it_streams_is_not_recorded() -> None:
    on = build("One.", LONG, "Three.", stream=True)
    agent = on.agent()
    await agent.invoke_async("First?")

    async with aclosing(agent.stream_async("Second?")) as events:  # type: ignore[type-var]
        async for event in events:
            if "data" in event:
                break
    await agent.invoke_async("Third?")

    on.check()
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_a_tool_turn_that_is_cancelled_is_answered_by_error_results(mode: Mode) -> None:
    on = build(use("note"), "Two.", mode=mode)

    def stop(event: MessageAddedEvent) -> None:
        if event.message["role"] == "assistant" and len(event.agent.messages) == 2:
            event.agent.cancel()

    agent = on.agent(hooks=[stop])
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert "Tool execution cancelled" in on.prompt(1)
    assert on.parents == [None, 0]


async def test_an_invocation_that_ends_after_its_tools_goes_on_where_it_was(mode: Mode) -> None:
    on = build(use("note"), "Two.", "Three.", mode=mode)
    stops = [True]

    def stop(event: AfterToolsEvent) -> None:
        if stops:
            stops.clear()
            event.agent.cancel(message="Enough.", after_current_tools=True)

    agent = on.agent(hooks=[stop])
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    on.check()
    assert "Enough." in on.prompt(1)
    assert on.parents == [None, 0, 1]


async def test_limits_of_the_host_stop_between_turns(mode: Mode) -> None:
    on = build(use("note"), "Two.", mode=mode)
    agent = on.agent()

    result = await agent.invoke_async("First?", limits={"turns": 1})
    await agent.invoke_async(None)

    assert result.stop_reason == "limit_turns"
    on.check()
    assert on.parents == [None, 0]


@pytest.mark.parametrize("retry", [True, False])
async def test_a_task_that_is_cancelled_leaves_the_record_as_it_was(mode: Mode, retry: bool) -> None:
    on = build("One.", SLOW, "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    task = asyncio.create_task(agent.invoke_async("Second?"))
    await begun(on)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await agent.invoke_async(None if retry else "Third?")

    on.check()
    assert len(on.engine.disconnects) == 1
    assert on.parents == [None, 0]
    assert on.fates == "kk"


@calm
async def test_a_stream_that_is_left_early_does_not_lose_the_turn(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode)
    agent = on.agent()

    async with aclosing(agent.stream_async("First?")) as events:  # type: ignore[type-var]
        async for event in events:
            if "data" in event:
                break
    assert on.shown == ["One."]
    await agent.invoke_async("Second?")

    on.check()
    # The host never held the first answer.
    assert on.parents == [None, None]
    assert on.fates == "dk"


@calm
async def test_a_callback_handler_that_raises_throws_the_answer_away(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode)
    armed = [True]

    def fail(**event: Any) -> None:
        if armed and "data" in event:
            armed.clear()
            raise BrokenError

    agent = on.agent(callback_handler=fail)
    with pytest.raises(BrokenError):
        await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, None]
    assert on.fates == "dk"


async def test_an_answer_cut_by_length_stands_as_it_was_sampled(mode: Mode) -> None:
    text = sampled("Half an ans", 0, mode).removesuffix(END)
    on = build(Turn(text=text, finish="length"), "wer.", mode=mode)
    agent = on.agent()

    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")
    await agent.invoke_async("Go on")

    on.check()
    assert on.parents == [None, 0]
    assert "Half an ans<|im_end|>\n" in on.prompt(1)


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_a_history_that_ends_with_an_answer_is_answered_again(mode: Mode, finish: Any) -> None:
    text = sampled("One.", 0, mode)
    first = Turn(text=text if finish == "stop" else text.removesuffix(END), finish=finish)
    on = build(first, "And more.", "Two.", mode=mode)
    agent = on.agent()
    with contextlib.suppress(MaxTokensReachedException):
        await agent.invoke_async("First?")

    await agent.invoke_async(None)
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, 0, 1]
    assert on.fates == "kkk"


async def test_a_call_cut_by_length_stands_as_it_was_sampled_and_never_runs(mode: Mode) -> None:
    whole, cut = use("note", text="whole"), '<tool_call>\n{"name": "note", "argu'
    text = sampled(f"Now.\n{whole}\n{cut}", 0, mode).removesuffix(END)
    on = build(Turn(text=text, finish="length"), "Done.", use("note", text="again"), "Yes.", mode=mode)
    agent = on.agent()

    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")
    assert "note's tool use was incomplete" in str(agent.messages[1])
    on.stands(agent.messages[1], ("<think>\n" if mode.thinking else "") + text)
    await agent.invoke_async("Go on")
    await agent.invoke_async("And?")

    on.check()
    assert on.parents == [None, 0, 1, 2]
    assert "Noted: whole" not in on.prompt(3)
    assert "Noted: again" in on.prompt(3)


async def test_reasoning_cut_by_length_is_closed() -> None:
    on = build(Turn(text="I was thi", finish="length"), "Thought 1.\n</think>\n\nDone." + END, mode=Mode.THINKING)
    agent = on.agent()

    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")
    await agent.invoke_async("Go on")

    on.check()
    assert on.parents == [None, 0]
    assert on.model.rollout.token_ids[: len(on.prompts[1])] == on.prompts[1]


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
async def test_an_answer_with_nothing_in_it_stays_on_the_branch(mode: Mode, text: str) -> None:
    on = build(text, "Two.", mode=mode)
    # Strands holds "[blank text]", or nothing beside reasoning; what was sampled stands as it is.
    thought = [{"reasoningContent": {"reasoningText": {"text": "Thought 0."}}}] if mode.thinking else []
    for held in ([*thought, {"text": "[blank text]"}], thought):
        on.stands({"role": "assistant", "content": held}, written(text, mode))
    agent = on.agent()

    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, 0]
    assert on.fates == "kk"


async def test_blank_text_beside_a_call_stays_on_the_branch(mode: Mode) -> None:
    on = build("\n" + use("note"), "Done.", mode=mode)
    agent = on.agent()

    on.verbatim = {use("note"): "\n" + use("note")}
    await agent.invoke_async("Go")

    on.check()
    assert on.parents == [None, 0]


async def test_calls_that_are_not_written_as_the_template_would_stand_as_they_were_sampled(mode: Mode) -> None:
    odd = '<tool_call>{"arguments":{"text":"\\u00e9"},"name":"note"}</tool_call>'
    on = build("Well,\n\n" + odd, "Done.", "More.", mode=mode)
    agent = on.agent()

    await agent.invoke_async("Go")
    on.stands(agent.messages[1], written("Well,\n\n" + odd, mode))
    await agent.invoke_async("More?")

    on.check()
    assert "Noted: é" in on.prompt(1)
    assert on.parents == [None, 0, 1]


async def test_a_malformed_call_is_answered_by_its_reason(mode: Mode) -> None:
    bad = '<tool_call>\n{"name": "note", "arguments": {"text": "x"}\n</tool_call>'
    on = build(bad, "Sorry.", "More.", mode=mode)
    agent = on.agent()

    await agent.invoke_async("Go")
    on.stands(agent.messages[1], written(bad, mode))
    await agent.invoke_async("More?")

    on.check()
    assert "was not executed" in on.prompt(1)
    assert on.parents == [None, 0, 1]

"""What messages hold: several blocks, nothing, documents, histories from elsewhere, tools called by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from strands import tool
from strands.types.exceptions import EventLoopException

from strands_sglang.errors import UnsupportedContentError

from .scene import Mode, build, look_up, note, use

TEXT: Any = {"document": {"format": "txt", "name": "notes", "source": {"bytes": "naïve".encode()}}}
PDF: Any = {"document": {"format": "pdf", "name": "paper", "source": {"bytes": b"%PDF"}}}
CACHE = {"cachePoint": {"type": "default"}}


@tool
def gather(kind: str) -> dict[str, Any]:
    """Gather things."""
    contents: dict[str, list[dict[str, Any]]] = {
        "several": [{"text": "one"}, {"json": {"é": [1, None]}}, TEXT, {"text": "two"}],
        "empty": [],
        "blank": [{"text": ""}],
        "pdf": [PDF],
        "failed": [{"text": "It failed."}],
    }
    status = "error" if kind == "failed" else "success"
    return {"toolUseId": "", "status": status, "content": contents[kind]}


def history(*contents: list[dict[str, Any]]) -> list[Any]:
    """User and assistant in turns."""
    roles = ["user", "assistant"] * len(contents)
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


def called(name: str, call_id: str, **given: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}


def returned(call_id: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "status": "success", "content": list(content)}}


async def test_every_block_of_a_prompt_is_sent(mode: Mode) -> None:
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent()
    prompts: list[Any] = [
        [{"text": "Look at"}, TEXT, CACHE, {"text": "and this"}],
        [{"text": ""}],
        [{"role": "user", "content": [{"text": "a"}]}, {"role": "user", "content": [{"text": "b"}, {"text": "c"}]}],
    ]

    for prompt in prompts:
        await agent.invoke_async(prompt)

    on.check()
    assert "naïve" in on.prompt(0)
    assert on.parents == [None, 0, 1]


@pytest.mark.parametrize("kind", ["several", "empty", "blank", "failed"])
async def test_every_block_of_a_result_is_sent(mode: Mode, kind: str) -> None:
    on = build(use("gather", kind=kind), "Done.", "More.", mode=mode)
    agent = on.agent(tools=[gather])

    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert on.parents == [None, 0, 1]


async def test_a_prompt_that_cannot_be_expressed_is_refused_before_it_is_sent(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    with pytest.raises(UnsupportedContentError, match=r"message 2: the document 'paper' has the format 'pdf'"):
        await agent.invoke_async([{"text": "Read"}, PDF])
    agent.messages.pop()
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, 0]


async def test_a_result_that_cannot_be_expressed_is_a_typed_error(mode: Mode) -> None:
    on = build(use("gather", kind="pdf"), mode=mode)

    with pytest.raises(EventLoopException) as raised:
        await on.agent(tools=[gather]).invoke_async("Go")

    assert isinstance(raised.value.original_exception, UnsupportedContentError)
    on.check()


async def test_images_for_a_model_of_text_are_refused(mode: Mode) -> None:
    on = build("One.", mode=mode)

    picture: Any = [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}]
    with pytest.raises(UnsupportedContentError, match="image"):
        await on.agent().invoke_async(picture)

    on.check()


async def test_a_history_from_elsewhere_is_rendered_whole(mode: Mode) -> None:
    given = history(
        [{"text": "Two things?"}],
        [
            {"reasoningContent": {"reasoningText": {"text": "Both, then.", "signature": "abc"}}},
            {"text": "Let me look."},
            called("look_up", "toolu_1", topic="rain"),
            called("note", "toolu_2"),
        ],
        [returned("toolu_2", {"text": "second"}), returned("toolu_1", {"text": "first"}), {"text": "Go on."}],
        [{"text": "Rain."}, CACHE],
    )
    on = build("More.", use("look_up", topic="snow"), "Snow.", mode=mode)
    agent = on.agent(messages=given)

    await agent.invoke_async("More?")
    await agent.invoke_async("And snow?")

    on.check()
    prompt = on.prompt(0)
    assert (
        "Both, then." in prompt
    ) == mode.thinking  # this template drops earlier reasoning unless it is told to keep it
    assert prompt.index("Let me look.") < prompt.index('"rain"')
    assert prompt.index("first") < prompt.index("second") < prompt.index("Go on.") < prompt.index("Rain.")
    assert on.parents == [None, 0, 1]


@pytest.mark.parametrize("call_id", ["same", ""])
async def test_calls_of_one_id_and_calls_alone_both_get_their_results(mode: Mode, call_id: str) -> None:
    given = history(
        [{"text": "Go"}],
        [called("note", call_id, text="a"), called("look_up", call_id, topic="b")],
        [returned(call_id, {"text": "for note"}), returned(call_id, {"text": "for look_up"})],
        [],
    )
    on = build("More.", mode=mode)

    await on.agent(messages=given).invoke_async("More?")

    on.check()
    assert on.prompt(0).index("for note") < on.prompt(0).index("for look_up")


async def test_a_call_by_hand_is_part_of_the_history(mode: Mode) -> None:
    on = build("One.", "Two.", use("note", text="b"), "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")

    await asyncio.to_thread(agent.tool.note, text="a")
    await agent.invoke_async("Second?")
    await agent.invoke_async("Third?")

    on.check()
    assert "Noted: a" in on.prompt(1)
    assert on.parents == [None, 0, 1, 2]


async def test_a_call_by_hand_before_any_question(mode: Mode) -> None:
    on = build("One.", mode=mode)
    agent = on.agent(tools=[look_up, note])

    await asyncio.to_thread(agent.tool.look_up, topic="rain")
    await agent.invoke_async("First?")

    on.check()
    assert "All about rain." in on.prompt(0)


async def test_a_tool_in_the_background_changes_what_the_model_said(mode: Mode) -> None:
    started = use("slow", text="a", _background_execution=True)
    on = build(started, "Started.", "Two.", "Three.", mode=mode)

    @tool
    async def slow(text: str) -> str:
        """Take long."""
        while len(on.prompts) < 2:
            await asyncio.sleep(0.01)
        return f"Slowly: {text}"

    agent = on.agent(tools=[slow], background_tasks=True)
    await agent.invoke_async("Go")
    await agent.invoke_async("Third?")

    on.check()
    # Strands adds a call of its own to the answer after which it reports.
    assert "strands_manage_background_task" in on.prompt(2).partition("</tools>")[2]
    assert "Slowly: a" in on.prompt(2)
    assert on.parents == [None, 0, 0, 2]
    assert on.fates == "kekk"
    assert on.shown == [started, "Two.", "Three."]

"""Hooks that edit the history: messages inserted, changed and deleted, answers and calls changed, results changed."""

from __future__ import annotations

from typing import Any

from strands.hooks import (
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    MessageAddedEvent,
)

from .scene import Mode, Scene, build, use


async def edited(mode: Mode, edit: Any) -> Scene:
    """Three questions; `edit` is done to the messages before the third."""
    on = build("One.", "Two.", "Three.", mode=mode)
    agent = on.agent()
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    edits = [edit]

    def change(event: BeforeModelCallEvent) -> None:
        if edits:
            edits.pop()(event.agent.messages)

    agent.add_hook(change, BeforeModelCallEvent)
    await agent.invoke_async("Third?")
    on.check()
    return on


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"text": text}]}


async def test_a_message_that_is_appended_only_grows_the_history(mode: Mode) -> None:
    on = await edited(mode, lambda messages: messages.append(message("user", "Hurry.")))

    assert on.parents == [None, 0, 1]
    assert on.fates == "kkk"


async def test_a_message_that_is_inserted_starts_a_branch(mode: Mode) -> None:
    on = await edited(mode, lambda messages: messages.insert(1, message("user", "Hurry.")))

    assert on.parents == [None, 0, None]
    assert on.fates == "kkk"


async def test_an_answer_that_is_inserted_starts_a_branch(mode: Mode) -> None:
    def edit(messages: Any) -> None:
        messages[:0] = [message("user", "Zero?"), message("assistant", "0")]

    on = await edited(mode, edit)

    assert on.parents == [None, 0, None]
    assert on.fates == "kkk"


async def test_a_question_that_is_edited_starts_a_branch(mode: Mode) -> None:
    on = await edited(mode, lambda messages: messages[2]["content"][0].update(text="Other?"))

    assert on.parents == [None, 0, 0]
    assert on.fates == "kkk"
    assert on.shown == ["One.", "Three."]


async def test_an_answer_that_is_edited_is_marked(mode: Mode) -> None:
    def edit(messages: Any) -> None:
        messages[1]["content"][-1]["text"] = "One, perhaps."

    on = await edited(mode, edit)

    assert on.parents == [None, 0, None]
    assert on.fates == "ekk"
    assert "One, perhaps." in on.prompt(2)


async def test_messages_that_are_deleted_start_a_branch(mode: Mode) -> None:
    def edit(messages: Any) -> None:
        del messages[1:3]

    on = await edited(mode, edit)

    # "First?" is now answered by "Two.": no answer was changed and none thrown away, the context was cut down.
    assert on.parents == [None, 0, None]
    assert on.fates == "kkk"


async def test_reasoning_that_is_taken_out_of_history_starts_a_branch() -> None:
    def edit(messages: Any) -> None:
        for held in messages:
            held["content"] = [block for block in held["content"] if "reasoningContent" not in block]

    on = await edited(Mode.THINKING, edit)

    assert on.parents == [None, 0, None]
    assert on.fates == "ekk"


async def test_an_answer_that_is_edited_as_it_is_added_is_marked(mode: Mode) -> None:
    on = build(use("note", text="a") + "", "Done.", "More.", mode=mode)

    def edit(event: MessageAddedEvent) -> None:
        for block in event.message["content"]:
            if event.message["role"] == "assistant" and "toolUse" in block:
                block["toolUse"]["input"]["text"] = "b"

    agent = on.agent()
    agent.add_hook(edit, MessageAddedEvent)
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert on.parents == [None, None, 1]
    assert on.fates == "ekk"
    assert '"text": "b"' in on.prompt(1)


async def test_a_question_that_is_edited_as_it_is_added_is_the_question(mode: Mode) -> None:
    on = build("One.", "Two.", mode=mode)

    def edit(event: MessageAddedEvent) -> None:
        if event.message["role"] == "user":
            event.message["content"].append({"text": "Please."})

    agent = on.agent()
    agent.add_hook(edit, MessageAddedEvent)
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert on.prompt(1).count("Please.") == 2
    assert on.parents == [None, 0]


async def test_a_tool_that_is_retried_and_a_result_that_is_edited_come_before_the_prompt(mode: Mode) -> None:
    on = build(use("note"), "Done.", "More.", mode=mode)
    seen = []

    def again(event: AfterToolCallEvent) -> None:
        seen.append(1)
        if len(seen) == 1:
            event.retry = True
        else:
            event.result["content"] = [{"text": "Edited."}, {"json": {"ok": True}}]

    agent = on.agent(hooks=[again])
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert len(seen) == 2
    assert "Edited.\n" in on.prompt(1)
    assert on.parents == [None, 0, 1]


async def test_a_call_that_is_edited_before_it_runs_is_marked(mode: Mode) -> None:
    on = build(use("note", text="a"), "Done.", "More.", mode=mode)

    def edit(event: BeforeToolCallEvent) -> None:
        event.tool_use["input"]["text"] = "b"

    agent = on.agent(hooks=[edit])
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert "Noted: b" in on.prompt(1)
    # Strands runs the tool on the call that stands in the history, so the history is changed with it.
    assert on.parents == [None, None, 1]
    assert on.fates == "ekk"


async def test_results_that_are_edited_together_come_before_the_prompt(mode: Mode) -> None:
    on = build(use("note"), "Done.", "More.", mode=mode)

    def edit(event: AfterToolsEvent) -> None:
        event.message["content"].append({"text": "By the way."})

    agent = on.agent(hooks=[edit])
    await agent.invoke_async("Go")
    await agent.invoke_async("More?")

    on.check()
    assert "By the way." in on.prompt(1)
    assert on.parents == [None, 0, 1]

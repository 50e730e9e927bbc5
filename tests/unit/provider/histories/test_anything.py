"""Whatever is done to an agent and its history, in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands import Agent
from strands.hooks import AfterModelCallEvent

from strands_sglang.engine import Turn

from .scene import Mode, Scene, direct, sampled, use

# Few texts, so that equal answers come about.
SAID = st.sampled_from(["A.", "B.", use("note"), use("note", text="x"), "Let me.\n" + use("look_up", topic="t")])
PLACE = st.integers(0, 7)
DEEDS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["a?", "b?"])),
    st.tuples(st.just("go on"), st.none()),
    st.tuples(st.just("retry"), st.integers(1, 2)),
    st.tuples(st.just("edit"), PLACE),
    st.tuples(st.just("insert"), PLACE),
    st.tuples(st.just("delete"), PLACE),
    st.tuples(st.just("cut"), PLACE),
    st.tuples(st.just("drop newest"), st.integers(1, 3)),
    st.tuples(st.just("snapshot"), st.none()),
    st.tuples(st.just("load"), st.none()),
    st.tuples(st.just("prompt"), st.sampled_from(["S", "T"])),
    st.tuples(st.just("other"), st.none()),
    st.tuples(st.just("take over"), st.none()),
)


class Hand:
    """Does things to an agent."""

    def __init__(self, on: Scene) -> None:
        self.on = on
        self.retries = 0
        self.agent = self.made()
        self.snapshot = self.agent.take_snapshot(preset="session")

    def made(self, **options: Any) -> Agent:
        def again(event: AfterModelCallEvent) -> None:
            event.retry = self.retries > 0
            self.retries -= event.retry

        return self.on.agent(hooks=[again], **options)

    async def do(self, deed: str, how: Any) -> None:
        messages = self.agent.messages
        if deed in ("ask", "retry"):
            self.retries = how if deed == "retry" else 0
            await self.agent.invoke_async("a?" if deed == "retry" else how)
        elif deed == "go on" and messages and messages[-1]["role"] == "user":
            await self.agent.invoke_async(None)
        elif deed == "edit" and how < len(messages):
            messages[how]["content"] = [{"text": f"Edited {how}."}]
        elif deed == "insert":
            messages.insert(how, {"role": "user", "content": [{"text": "Inserted."}]})
        elif deed == "delete":
            del messages[how : how + 2]
        elif deed == "cut":
            del messages[:how]
        elif deed == "drop newest":
            del messages[-how:]
        elif deed == "snapshot":
            self.snapshot = self.agent.take_snapshot(preset="session")
        elif deed == "load":
            self.agent.load_snapshot(self.snapshot)
        elif deed == "prompt":
            self.agent.system_prompt = how
        elif deed == "other":
            await self.made(system_prompt="Other.").invoke_async("a?")
        elif deed == "take over":
            self.agent = self.made(messages=list(messages), system_prompt=self.agent.system_prompt)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(deeds=st.lists(DEEDS, min_size=3, max_size=9), said=st.lists(SAID, max_size=12), mode=st.sampled_from(Mode))
async def test_each_prompt_is_a_rendering_of_what_was_held(deeds: Any, said: Any, mode: Mode) -> None:
    waiting = iter(said)
    on = direct(lambda _, count: Turn(text=sampled(next(waiting, "Done."), count % 3, mode)), mode=mode)
    hand = Hand(on)

    for deed, how in [*deeds, ("ask", "a?")]:
        await hand.do(deed, how)

    on.check()
    newest = on.turns[-1]
    assert all(turn.fate == "kept" for turn in newest.path())
    assert {turn.lineage for turn in newest.path()} == {newest.lineage}

"""Histories that only grow, as a measure of the scene itself."""

from __future__ import annotations

from .scene import Mode, build, use


async def test_a_history_that_only_grows_stays_one_branch(mode: Mode) -> None:
    on = build("One.", use("look_up", topic="é"), "Two.", mode=mode)
    agent = on.agent(system_prompt="Be brief.")

    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    on.check()
    assert on.parents == [None, 0, 1]
    assert on.fates == "kkk"
    assert on.lineages == "mmm"
    assert on.shown == ["One.", use("look_up", topic="é"), "Two."]


async def test_two_calls_in_one_answer_get_their_results_in_order(mode: Mode) -> None:
    both = use("look_up", topic="rain") + "\n" + use("note", text="dry")
    on = build(both, "Done.", mode=mode)

    await on.agent().invoke_async("Both?")

    on.check()
    assert on.parents == [None, 0]

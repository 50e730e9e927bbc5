"""The pause gate."""

from __future__ import annotations

import asyncio
import threading

from strands_sglang.client.gate import Gate


async def test_an_open_gate_holds_nobody() -> None:
    await Gate().wait()


async def test_a_closed_gate_holds_until_it_opens() -> None:
    gate = Gate()
    gate.close()
    waiter = asyncio.create_task(gate.wait())
    await asyncio.sleep(0)
    assert not waiter.done()

    gate.open()
    await waiter
    assert not gate.is_closed


async def test_a_gate_that_closes_again_before_the_waiter_runs_holds_it_again() -> None:
    gate = Gate()
    gate.close()
    waiter = asyncio.create_task(gate.wait())
    await asyncio.sleep(0)
    gate.open()
    gate.close()
    for _ in range(3):
        await asyncio.sleep(0)

    assert not waiter.done()
    gate.open()
    await waiter


async def test_a_waiter_may_leave() -> None:
    gate = Gate()
    gate.close()
    waiter = asyncio.create_task(gate.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)

    gate.open()
    await gate.wait()


def test_one_gate_holds_several_event_loops_and_opens_from_any_thread() -> None:
    gate = Gate()
    gate.close()
    passed: list[int] = []

    def pass_it(number: int) -> None:
        asyncio.run(gate.wait())
        passed.append(number)

    threads = [threading.Thread(target=pass_it, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    assert passed == []

    gate.open()
    for thread in threads:
        thread.join(120)
    assert {0, 1, 2} == set(passed)

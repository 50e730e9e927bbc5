"""What a call waits for: the gate, a place among the requests on their way, the time between two attempts."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from strands_sglang.client import SGLangClient
from strands_sglang.client.gate import Gate, Places
from strands_sglang.client.patience import Patience
from strands_sglang.engine import Drop, EngineTransport, Refusal, ScriptedEngine, Step, Turn, serve
from strands_sglang.errors import SGLangAbortedError, SGLangTimeoutError
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import GenerateReply

from .bodies import asked
from .fleet import Held, endless, some_rounds, until

QUICK = RetryPolicy(base_delay=0.0)
PATIENT = RetryPolicy(base_delay=600.0, max_delay=600.0, jitter=0.0)
REQUEST = asked(conversation_id="c", sampling_params={"max_new_tokens": 3})


def client_of(engine: ScriptedEngine, **options: Any) -> SGLangClient:
    return SGLangClient("http://engine", **{"retry": QUICK, "transport": EngineTransport(engine), **options})


def tasks_of(client: SGLangClient, count: int, **options: Any) -> list[asyncio.Task[GenerateReply]]:
    return [asyncio.create_task(client.send(REQUEST, **options)) for _ in range(count)]


# --- the gate, and places -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"on_delta": lambda delta: None}], ids=["whole", "streamed"])
@pytest.mark.parametrize("over_sockets", [True, False])
async def test_nobody_who_waits_for_a_place_leaves_while_requests_are_held(
    options: dict[str, Any], over_sockets: bool
) -> None:
    held = Held()
    engine = ScriptedEngine(held)
    async with serve(engine, port=0) as server:
        client = SGLangClient(server.url, max_connections=1) if over_sockets else client_of(engine, max_connections=1)
        async with client:
            tasks = tasks_of(client, 5, **options)
            await until(lambda: len(engine.requests) == 1)
            client.pause()
            held.go.set()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.05)
            assert len(engine.requests) == 1

            client.resume()
            await asyncio.gather(*tasks)
    assert len(engine.requests) == 5


async def test_a_client_sends_no_more_at_once_than_it_may_whatever_it_sends_through() -> None:
    held = Held()
    engine = ScriptedEngine(held)
    client = client_of(engine, max_connections=2)
    tasks = tasks_of(client, 5)
    await some_rounds()
    assert len(engine.requests) == 2

    held.go.set()
    await asyncio.gather(*tasks)


async def test_a_call_between_two_attempts_holds_no_place() -> None:
    engine = ScriptedEngine([Refusal(status=503), Turn(ids=[7, 8, 9], finish="length")])
    client = client_of(engine, max_connections=1, retry=PATIENT)
    waiting = asyncio.create_task(client.send(REQUEST))
    await until(lambda: len(engine.requests) == 1)

    assert (await client.send(REQUEST)).output_ids == [7, 8, 9]
    waiting.cancel()


@pytest.mark.parametrize("rounds", range(12))
async def test_no_place_is_lost_by_those_who_leave(rounds: int) -> None:
    steps: list[Callable[[dict[str, Any]], Any]] = [lambda body: Turn(ids=[7, 8, 9], finish="length", delay=0.001)]
    engine = ScriptedEngine(lambda body: steps[-1](body))
    client = client_of(engine, max_connections=2)
    tasks = tasks_of(client, 9)
    for number, task in enumerate(tasks):
        if number % 3 == 1:
            client.pause()
        for _ in range(rounds):
            await asyncio.sleep(0)
        if number % 2:
            task.cancel()
        client.resume()
    await client.abort()
    await asyncio.gather(*tasks, return_exceptions=True)

    held = Held()
    steps.append(held)
    before = len(engine.requests)
    tasks = tasks_of(client, 3)
    await until(lambda: len(engine.requests) - before == 2)
    await some_rounds()
    assert len(engine.requests) - before == 2
    held.go.set()
    await asyncio.gather(*tasks)


def test_each_event_loop_has_places_of_its_own_and_they_go_with_it() -> None:
    places = Places(1)

    async def take_both() -> asyncio.Semaphore:
        here = places.here()
        await here.acquire()
        waiting = asyncio.create_task(here.acquire())
        await asyncio.sleep(0)
        assert not waiting.done()
        here.release()
        await waiting
        assert places.here() is here
        return here

    first, second = asyncio.run(take_both()), asyncio.run(take_both())
    assert first is not second
    del first, second
    gc.collect()
    assert len(places._by_loop) == 1


# --- the deadline -------------------------------------------------------------------------------------------


async def test_waiting_for_a_place_counts() -> None:
    client = client_of(ScriptedEngine(Held()), max_connections=1, timeout=0.2)
    places = client._calls.places.here()
    await places.acquire()

    with pytest.raises(SGLangTimeoutError, match=r"no request could leave for http://engine/generate within") as raised:
        await client.send(REQUEST)
    assert raised.value.attempts == 0
    places.release()


async def test_who_gets_no_place_in_time_has_sent_nothing_and_says_so() -> None:
    gate, places = Gate(), asyncio.Semaphore(0)

    assert not await Patience(0.05).leave(gate, places)
    places.release()
    assert await Patience(0.05).leave(gate, places)


async def test_time_in_which_requests_are_held_does_not_count_for_who_waits_for_a_place() -> None:
    gate, places = Gate(), asyncio.Semaphore(0)
    leaving = asyncio.create_task(Patience(0.5).leave(gate, places))
    await asyncio.sleep(0)
    gate.close()
    await asyncio.sleep(0.7)
    assert not leaving.done()

    gate.open()
    places.release()
    assert await leaving
    assert places.locked()


async def test_the_time_between_two_resumptions_ends_before_the_deadline() -> None:
    aborted = Turn(ids=[], finish={"type": "abort", "message": "Abort in waiting queue"})
    engine = ScriptedEngine(lambda body: aborted)

    with pytest.raises(SGLangAbortedError, match=r"up to the deadline of 0\.4 s"):
        await client_of(engine, timeout=0.4).send(REQUEST)


# --- a caller's abort ---------------------------------------------------------------------------------------


async def test_an_abort_ends_those_who_wait_for_a_place() -> None:
    engine = ScriptedEngine(lambda body: Turn(ids=[7, 8, 9], token_delay=30))
    client = client_of(engine, max_connections=1)
    tasks = tasks_of(client, 3)
    await until(lambda: len(engine.requests) == 1)

    await client.abort()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [SGLangAbortedError] * 3 == [type(outcome) for outcome in outcomes]
    assert len(engine.requests) == 1


async def waits_at_the_gate(client: SGLangClient, engine: ScriptedEngine) -> None:
    client.pause()
    await some_rounds()


async def waits_for_the_next_attempt(client: SGLangClient, engine: ScriptedEngine) -> None:
    await until(lambda: len(engine.requests) == 1)
    await some_rounds()


@pytest.mark.parametrize("step", [Refusal(status=503), Refusal(status=429, headers={"retry-after": "600"}), Drop()])
@pytest.mark.parametrize("waits", [waits_at_the_gate, waits_for_the_next_attempt])
@pytest.mark.parametrize("filters", [{}, {"conversation_id": "c"}])
async def test_an_abort_ends_a_call_that_waits(
    waits: Callable[[SGLangClient, ScriptedEngine], Awaitable[None]], step: Step, filters: dict[str, str]
) -> None:
    engine = ScriptedEngine([step])
    client = client_of(engine, retry=PATIENT)
    task = asyncio.create_task(client.send(REQUEST))
    await waits(client, engine)
    sent = len(engine.requests)

    await client.abort(conversation_id="another")
    await some_rounds()
    assert not task.done()
    await client.abort(**filters)
    with pytest.raises(SGLangAbortedError, match="with 0 tokens sampled") as raised:
        await task
    client.resume()
    assert (len(engine.requests), raised.value.attempts) == (sent, sent)


async def test_an_abort_between_two_attempts_brings_what_was_sampled() -> None:
    engine = ScriptedEngine([Turn(ids=[7, 8], finish="abort"), Refusal(status=503)])
    client = client_of(engine, retry=PATIENT)
    task = asyncio.create_task(client.send(REQUEST))
    await until(lambda: len(engine.requests) == 2)
    await some_rounds()

    await client.abort(engine.requests[-1]["rid"])
    with pytest.raises(SGLangAbortedError) as raised:
        await task
    assert raised.value.reply.output_ids == [7, 8]


@pytest.mark.parametrize("failure", [Drop(), Refusal(status=500), Refusal(status=503)])
async def test_a_call_that_fails_after_its_abort_was_aborted(failure: Step) -> None:
    async def step(body: dict[str, Any]) -> Step:
        if len(engine.requests) > 1:
            return endless(body)
        await go.wait()
        return failure

    go = asyncio.Event()
    engine = ScriptedEngine(step)
    client = client_of(engine)
    task = asyncio.create_task(client.send(REQUEST))
    await until(lambda: len(engine.requests) == 1)

    await client.abort()
    go.set()
    with pytest.raises(SGLangAbortedError):
        await task
    assert len(engine.requests) == 1


async def test_an_abort_that_overtakes_its_request_is_said_again() -> None:
    engine = ScriptedEngine(lambda body: Turn(ids=[7, 8, 9], token_delay=30))
    below, arrives = EngineTransport(engine), asyncio.Event()

    async def slowly(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/generate":
            await arrives.wait()
        return await below.handle_async_request(request)

    client = client_of(engine, transport=httpx.MockTransport(slowly))
    task = asyncio.create_task(client.send(REQUEST))
    await some_rounds()
    await client.abort()
    arrives.set()

    with pytest.raises(SGLangAbortedError):
        async with asyncio.timeout(20):
            await task


def test_an_abort_reaches_the_calls_of_other_loops() -> None:
    client = client_of(ScriptedEngine([]))
    client.pause()
    outcomes: list[Any] = []

    def wait() -> None:
        outcomes.extend(asyncio.run(gathered()))

    async def gathered() -> list[Any]:
        return await asyncio.gather(*tasks_of(client, 3), return_exceptions=True)

    async def abort_all() -> None:
        await until(lambda: len(client._calls.known) == 6)
        await client.abort()

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    asyncio.run(abort_all())
    for thread in threads:
        thread.join(120)
    assert [SGLangAbortedError] * 6 == [type(outcome) for outcome in outcomes]
    assert client._calls.known == set()

"""Several servers, some of them gone: no call fails while one is left."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from strands_sglang.client import SGLangClient
from strands_sglang.client.servers import Route, Servers, conversation_key
from strands_sglang.engine import Refusal, ScriptedEngine, Step
from strands_sglang.errors import SGLangConnectionError
from strands_sglang.retry import RetryPolicy

from .bodies import asked
from .fleet import Clock, Fleet, endless

QUICK = RetryPolicy(base_delay=0.0)
DEAD = ["http://a", "http://b", "http://c", "http://d"]


def conversations_at(*urls: str, own: str) -> list[str]:
    """Conversations whose own server is `own`."""
    servers = Servers(urls)
    return [name for name in map(str, range(60)) if servers.choose(conversation_key(name)).base_url == own]


@pytest.mark.parametrize("seconds", [0.0, 6.0], ids=["refused at once", "until the time of a connection ends"])
async def test_one_server_that_is_left_is_found_by_every_conversation(seconds: float) -> None:
    clock = Clock()

    class Slow(Fleet):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            clock.now += seconds  # those that were asked first are no longer passed over when the last is reached
            return await super().handle_async_request(request)

    for number in range(20):
        fleet = Slow(e=ScriptedEngine(endless))
        client = SGLangClient([*DEAD, "http://e"], transport=fleet, retry=QUICK)
        client._servers.clock = clock
        reply = await client.send(asked(conversation_id=str(number)))
        assert reply.url == "http://e/generate"
        assert reply.retries == len(set(fleet.asked)) - 1


async def test_a_busy_server_is_waited_for_though_another_is_gone() -> None:
    clock = Clock()

    def step(body: dict[str, Any]) -> Step:
        clock.now += 11.0  # the one that is gone is asked again now and then
        return endless(body) if len(engine.requests) > 20 else Refusal(status=503)

    engine = ScriptedEngine(step)
    (name, *_) = conversations_at("http://a", "http://e", own="http://a")
    fleet = Fleet(e=engine)
    client = SGLangClient(["http://a", "http://e"], transport=fleet, retry=QUICK)
    client._servers.clock = clock

    assert (await client.send(asked(conversation_id=name))).url == "http://e/generate"


async def test_nobody_answers_only_when_each_server_was_asked_often_enough() -> None:
    fleet = Fleet()
    client = SGLangClient(DEAD, transport=fleet, retry=QUICK)

    with pytest.raises(SGLangConnectionError, match="nobody answers"):
        await client.send(asked())
    assert dict.fromkeys("abcd", 1 + QUICK.max_first_contacts) == {h: fleet.asked.count(h) for h in fleet.asked}


async def test_the_deadline_does_not_keep_a_call_from_another_server() -> None:
    (name, *_) = conversations_at("http://a", "http://e", own="http://a")
    client = SGLangClient(
        ["http://a", "http://e"],
        transport=Fleet(e=ScriptedEngine(endless)),
        timeout=30.0,
        retry=RetryPolicy(base_delay=600.0, max_delay=600.0),
    )

    assert (await client.send(asked(conversation_id=name))).url == "http://e/generate"


def test_a_call_moves_on_at_once_until_it_has_asked_them_all() -> None:
    servers = Servers(DEAD, clock=Clock())
    route = Route(servers, "k")
    moves: list[tuple[bool, int | None]] = []
    for _ in range(8):
        route.choose().gave_no_answer(servers.clock())
        route.was_left_unanswered()
        moves.append((route.moves_on(), route.first_contacts()))

    assert moves == 2 * [(True, 0)] + [(True, 0), (False, 1)] + 3 * [(True, 1)] + [(False, 2)]


def test_servers_that_once_answered_are_waited_for() -> None:
    servers = Servers(DEAD, clock=Clock())
    servers.all[0].answered()
    route = Route(servers, "k")
    for _ in range(4):
        route.choose().gave_no_answer(servers.clock())
        route.was_left_unanswered()

    assert (route.moves_on(), route.first_contacts()) == (False, None)

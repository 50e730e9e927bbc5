"""Connections whose time ends because this process was busy."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from strands_sglang.client import SGLangClient
from strands_sglang.client.servers import conversation_key
from strands_sglang.engine import EngineTransport, ScriptedEngine
from strands_sglang.errors import SGLangTimeoutError
from strands_sglang.retry import RetryPolicy

from .bodies import asked
from .fleet import endless
from .test_pool import served_elsewhere

ONCE = RetryPolicy(max_retries=0)
QUICK = RetryPolicy(base_delay=0.0)
REQUEST = asked(conversation_id="c", sampling_params={"max_new_tokens": 3})


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_block_of_the_loop_while_a_connection_comes_up_is_no_failure(streamed: bool) -> None:
    with served_elsewhere(ScriptedEngine(endless)) as one, served_elsewhere(ScriptedEngine(endless)) as other:
        async with SGLangClient([one.url, other.url], connect_timeout=0.2, retry=ONCE) as client:
            own = client._servers.choose(conversation_key("c")).base_url
            on_delta = (lambda delta: None) if streamed else None
            sending = asyncio.create_task(client.send(REQUEST, on_delta=on_delta))
            for _ in range(3):
                await asyncio.sleep(0)
            time.sleep(0.6)  # quiet before and after
            reply = await sending
            assert (reply.retries, reply.url) == (0, f"{own}/generate")
            assert (await client.send(REQUEST)).url == f"{own}/generate"


class Blocking(httpx.AsyncBaseTransport):
    """Holds the loop up so many times while a connection should come up, and then does not."""

    def __init__(self, times: int) -> None:
        self.times, self.hosts = times, list[str]()
        self.below = EngineTransport(ScriptedEngine(endless))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        if self.times:
            self.times -= 1
            time.sleep(0.1)
            raise httpx.ConnectTimeout("in time", request=request)
        return await self.below.handle_async_request(request)


async def test_a_process_that_stays_busy_does_not_have_a_server_passed_over() -> None:
    transport = Blocking(12)
    client = SGLangClient(["http://a", "http://b"], connect_timeout=0.04, transport=transport, retry=QUICK)

    reply = await client.send(REQUEST)
    assert reply.retries == 1
    assert len(set(transport.hosts)) == 1
    assert not any(server.is_passed_over(client._servers.clock()) for server in client._servers.all)


async def test_trying_again_in_a_busy_process_has_an_end() -> None:
    transport = Blocking(1000)

    with pytest.raises(SGLangTimeoutError, match="did not accept the connection in time"):
        await SGLangClient("http://a", connect_timeout=0.04, transport=transport, retry=ONCE).send(REQUEST)
    assert len(transport.hosts) < 20


async def test_a_timeout_in_a_quiet_loop_is_the_server_s() -> None:
    asked_hosts: list[str] = []

    async def late(request: httpx.Request) -> httpx.Response:
        asked_hosts.append(request.url.host)
        await asyncio.sleep(0.01)
        raise httpx.ConnectTimeout("in time", request=request)

    client = SGLangClient("http://a", connect_timeout=5.0, transport=httpx.MockTransport(late), retry=ONCE)
    with pytest.raises(SGLangTimeoutError):
        await client.send(REQUEST)
    assert asked_hosts == ["a"]


def test_time_between_two_runs_of_a_loop_is_no_block() -> None:
    asked_hosts: list[str] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked_hosts.append(request.url.host)
        if len(asked_hosts) == 2:
            raise httpx.ConnectTimeout("in time", request=request)
        return await EngineTransport(ScriptedEngine(endless)).handle_async_request(request)

    client = SGLangClient("http://a", connect_timeout=0.4, transport=httpx.MockTransport(answer), retry=ONCE)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(client.send(REQUEST))
        time.sleep(0.5)
        with pytest.raises(SGLangTimeoutError):
            loop.run_until_complete(client.send(REQUEST))
    finally:
        loop.close()
    assert asked_hosts == ["a", "a"]

"""The warning of fields that a router drops: asked for in passing, at no call's expense."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from strands_sglang.client import ServerKind, SGLangClient
from strands_sglang.errors import SGLangAbortedError

from .bodies import asked, reply_body
from .fleet import Clock, until

BIAS = asked(sampling_params={"max_new_tokens": 3, "logit_bias": {"2": 1.0}})
REGEX = asked(sampling_params={"max_new_tokens": 3, "stop_regex": "x"})
UNKNOWN_URL = httpx.Response(404, headers={"x-smg-error-code": "unknown_url"})


class Router(httpx.AsyncBaseTransport):
    """A gateway: `workers` answers `/workers`."""

    def __init__(self, workers: Callable[[], Any]) -> None:
        self.workers, self.asked = workers, list[str]()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path == "/workers":
            answer = self.workers()
            response: httpx.Response = await answer if asyncio.iscoroutine(answer) else answer
            return response
        if request.url.path == "/generate":
            return httpx.Response(200, json=reply_body([7, 8, 9]))
        return UNKNOWN_URL


def listed() -> httpx.Response:
    return httpx.Response(200, json={"workers": []})


def fields_warned_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if "drops this field" in record.getMessage()]
    return [message.split("field=<")[1].split(">")[0] for message in said]


async def test_a_router_that_gives_no_answer_is_not_waited_for() -> None:
    async def never() -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    router = Router(never)
    client = SGLangClient("http://a", transport=router, timeout=0.4)
    async with asyncio.timeout(60):
        for _ in range(3):
            assert (await client.send(BIAS)).output_ids == [7, 8, 9]
    assert router.asked == ["/workers", *3 * ["/generate"]]


async def test_a_call_can_be_aborted_while_a_router_is_asked() -> None:
    async def never() -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    router = Router(never)
    client = SGLangClient("http://a", transport=router, timeout=None)
    task = asyncio.create_task(client.send(BIAS))
    await until(lambda: bool(router.asked))

    await client.abort()
    with pytest.raises(SGLangAbortedError):
        await task
    assert "/generate" not in router.asked


@pytest.mark.parametrize("status", [400, 401, 403, 408, 409, 429, 500, 503])
async def test_who_is_busy_or_wants_a_key_has_not_told_what_it_is(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [httpx.Response(status), listed()]
    router, clock = Router(lambda: answers.pop(0)), Clock()
    client = SGLangClient("http://a", transport=router)
    client._servers.clock = clock

    with caplog.at_level(logging.WARNING, "strands_sglang"):
        await client.send(BIAS)
        await client.send(BIAS)  # not asked again that soon
        assert router.asked.count("/workers") == 1
        clock.now += 60
        await client.send(BIAS)
    assert fields_warned_of(caplog) == ["logit_bias"]
    assert await client.server_kinds() == {"http://a": ServerKind.SMG}


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_router_that_does_not_answer_the_second_question_is_asked_again(status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/workers":
            return listed()
        return answers.pop(0)

    answers = [httpx.Response(status), UNKNOWN_URL]
    client = SGLangClient("http://a", transport=httpx.MockTransport(answer))
    assert await client.server_kinds() == {"http://a": ServerKind.UNKNOWN}
    assert await client.server_kinds() == {"http://a": ServerKind.SMG}


@pytest.mark.parametrize("status", [404, 405])
async def test_who_has_no_workers_is_an_engine(status: int) -> None:
    router = Router(lambda: httpx.Response(status))
    client = SGLangClient("http://a", transport=router)

    await client.send(BIAS)
    await client.send(BIAS)
    assert router.asked.count("/workers") == 1
    assert await client.server_kinds() == {"http://a": ServerKind.ENGINE}


async def test_of_calls_at_once_one_asks_and_the_fields_of_all_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def later() -> httpx.Response:
        await until(lambda: router.asked.count("/generate") == 2)
        return listed()

    router = Router(later)
    client = SGLangClient("http://a", transport=router, timeout=None)
    with caplog.at_level(logging.WARNING, "strands_sglang"):
        await asyncio.gather(*(client.send(request) for request in (BIAS, REGEX, REGEX)))
    assert fields_warned_of(caplog) == ["logit_bias", "stop_regex"]
    assert router.asked.count("/workers") == 1

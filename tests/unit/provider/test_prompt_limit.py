"""The longest prompt a server takes, learned from it where the user does not say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.types.exceptions import ContextWindowOverflowException

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn

END = "<|im_end|>"
PATHS = ("/server_info", "/get_server_info")


class Site(httpx.AsyncBaseTransport):
    """An engine whose `/server_info` does what a test says; None leaves it to the engine."""

    def __init__(self, engine: ScriptedEngine, info: Callable[[], httpx.Response] | None = None) -> None:
        self.engine, self.info = engine, info
        self.questions = 0
        self._inner = EngineTransport(engine)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in PATHS:
            self.questions += 1
            if self.info is not None:
                return self.info()
        return await self._inner.handle_async_request(request)


@asynccontextmanager
async def at(site: Site) -> AsyncIterator[SGLangClient]:
    async with SGLangClient("http://engine", transport=site) as client:
        yield client


def engine(*texts: str, **server_info: Any) -> ScriptedEngine:
    turns = [Turn(text=text + END) for text in texts]
    return ScriptedEngine(turns, tokenizer=get_tokenizer(TINY_MODEL), server_info=server_info)


def agent(client: SGLangClient, **config: Any) -> tuple[Agent, SGLangModel]:
    model = SGLangModel(client=client, tokenizer=get_tokenizer(TINY_MODEL), **config)
    return Agent(model=model, conversation_manager=NullConversationManager(), callback_handler=None), model


def refuse() -> httpx.Response:
    raise httpx.ConnectError("refused")


async def test_a_prompt_beyond_the_servers_limit_is_never_sent() -> None:
    site = Site(engine("One.", max_req_input_len=60))
    async with at(site) as client:
        host, model = agent(client)
        await host.invoke_async("Hi")
        before = model.rollout
        with pytest.raises(ContextWindowOverflowException, match="context window 60"):
            await host.invoke_async("far too long " * 30)

    assert len(site.engine.requests) == 1
    assert model.rollout == before


async def test_the_server_is_asked_once_per_client_whatever_the_number_of_turns_and_models() -> None:
    site = Site(engine(*["Hi."] * 6))
    async with at(site) as client:
        for _ in range(3):
            host, _ = agent(client)
            await host.invoke_async("Hi")
            await host.invoke_async("Again")

    assert site.questions == 1


async def test_of_many_turns_at_once_one_asks() -> None:
    site = Site(engine(*["Hi."] * 8))
    async with at(site) as client:
        await asyncio.gather(*(agent(client)[0].invoke_async("Hi") for _ in range(8)))

    assert site.questions == 1
    assert client.prompt_limit == (1 << 20) - 6


async def test_the_users_own_limit_wins_and_nothing_is_asked() -> None:
    site = Site(engine("One.", max_req_input_len=10))
    async with at(site) as client:
        await agent(client, context_window_limit=1000)[0].invoke_async("Hi")

    assert site.questions == 0


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"max_req_input_len": None},
        {"max_req_input_len": "60"},
        {"max_req_input_len": True},
        {"max_req_input_len": 0},
    ],
)
async def test_a_server_that_does_not_say_sets_no_limit_and_is_not_asked_again(body: Any) -> None:
    site = Site(engine("One.", "Two."), lambda: httpx.Response(200, content=json.dumps(body)))
    async with at(site) as client:
        host, _ = agent(client)
        await host.invoke_async("Hi")
        await host.invoke_async("Hi")

    assert client.prompt_limit is None
    assert site.questions == 1


@pytest.mark.parametrize("status", [401, 404, 500, 503])
async def test_a_server_without_the_endpoint_fails_no_turn(status: int) -> None:
    site = Site(engine("One.", "Two."), lambda: httpx.Response(status, content=b"no"))
    async with at(site) as client:
        host, model = agent(client)
        await host.invoke_async("Hi")
        asked = site.questions
        await host.invoke_async("Hi")

    assert client.prompt_limit is None
    assert site.questions == asked
    assert len(model.trajectory.turns) == 2


async def test_a_question_without_an_answer_is_asked_again_a_few_times() -> None:
    site = Site(engine(*["Hi."] * 6), refuse)
    async with at(site) as client:
        host, model = agent(client)
        for _ in range(6):
            await host.invoke_async("Hi")

    assert site.questions == 3
    assert len(model.trajectory.turns) == 6


async def test_a_cancelled_question_is_asked_again() -> None:
    asked = asyncio.Event()

    class Slow(Site):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path in PATHS and not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return await super().handle_async_request(request)

    async with at(Slow(engine(max_req_input_len=60))) as client:
        task = asyncio.create_task(client.learn_prompt_limit())
        await asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert await client.learn_prompt_limit() == 60


async def test_where_the_scheduler_says_nothing_the_context_length_counts() -> None:
    site = Site(engine(), lambda: httpx.Response(200, content=b'{"context_length": 4096}'))
    async with at(site) as client:
        assert await client.learn_prompt_limit() == 4096


async def test_the_host_sees_what_was_learned() -> None:
    async with at(Site(engine("One.", max_req_input_len=600))) as client:
        host, model = agent(client)
        assert model.context_window_limit is None
        await host.invoke_async("Hi")
        assert model.context_window_limit == 600

        model.update_config(context_window_limit=50)
        assert model.context_window_limit == 50


def test_two_event_loops_in_a_row_ask_once() -> None:
    site = Site(engine("One.", "Two."))
    client = SGLangClient("http://engine", transport=site)
    host, _ = agent(client)

    host("Hi")
    host("Again")

    assert site.questions == 1

"""The client against the real server: aborts, pauses, weights, refusals, streams, and a server that goes away."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from httpx_aiohttp import AiohttpTransport

from strands_sglang import (
    RetryPolicy,
    SGLangAbortedError,
    SGLangAuthError,
    SGLangBadRequestError,
    SGLangClient,
    SGLangContextLengthError,
    SGLangThrottledError,
)
from strands_sglang.client import ServerKind, StreamDelta
from strands_sglang.client.servers import new_rid
from strands_sglang.wire import GenerateReply, GenerateRequest

from .sglang_cpu.checkpoints import perturbed
from .sglang_cpu.install import default_environment
from .sglang_cpu.server import free_port, spawn, stop, wait_until_ready
from .watching import Load, until, until_load

if TYPE_CHECKING:
    from .conftest import StartServer

USER, ADMIN = "user-key", "admin-key"
RUNNING, QUEUED = 4, 4
GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
TOLERANCE = 1e-3
PROMPT = list(range(300, 340))
"""Whatever number of tokens is sampled after it, no second best token comes closer than 0.006 to the best one, so that
what is greedy here is greedy on every machine, and in every batch."""

LONG = 600
"""Tokens of a generation that is disturbed: it takes seconds, and what disturbs it is sent as soon as it runs."""

ENDLESS = 1500
"""Tokens of a generation that only keeps a place, and is cancelled."""

CLIENT_SECONDS = 1800.0


def asked(tokens: int, *, prompt: list[int] = PROMPT, **fields: Any) -> GenerateRequest:
    return GenerateRequest(input_ids=prompt, sampling_params={**GREEDY, "max_new_tokens": tokens}, **fields)


@pytest.fixture(scope="module")
def small_url(start_server: StartServer) -> Iterator[str]:
    """A server with two keys, few places and named weights."""
    with start_server(
        *("--api-key", USER, "--admin-api-key", ADMIN, "--weight-version", "v0"),
        *("--max-running-requests", str(RUNNING), "--max-queued-requests", str(QUEUED)),
    ) as url:
        yield url


@pytest.fixture
async def client(small_url: str) -> AsyncIterator[SGLangClient]:
    async with SGLangClient(small_url, api_key=USER, admin_api_key=ADMIN, timeout=CLIENT_SECONDS) as client:
        yield client


async def load(client: SGLangClient) -> Load:
    """What the server has now."""
    (body,) = await client.loads()
    return Load.of(body)


@asynccontextmanager
async def in_flight(
    client: SGLangClient, *requests: GenerateRequest
) -> AsyncIterator[list[asyncio.Task[GenerateReply]]]:
    """Requests of an otherwise idle server, each running or queued by now; those left over are cancelled."""
    await until_load(lambda: load(client), lambda now: now.is_none)
    tasks = [asyncio.create_task(client.send(request)) for request in requests]
    running = min(len(requests), RUNNING)
    try:
        await until_load(
            lambda: load(client), lambda now: now.running == running and now.waiting == len(requests) - running
        )
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(scope="module")
def unbroken(small_url: str) -> GenerateReply:
    """What a long generation is when nothing disturbs it."""

    async def generate() -> GenerateReply:
        async with SGLangClient(small_url, api_key=USER) as client:
            return await client.send(long())

    return asyncio.run(generate())


def long() -> GenerateRequest:
    return asked(LONG, logprob_start_len=10, return_prompt_token_ids=True)


def versions(reply: GenerateReply) -> list[str]:
    return [span.version for span in reply.weight_versions]


def assert_same(one: GenerateReply, other: GenerateReply) -> None:
    assert one.output_ids == other.output_ids
    assert one.output_logprobs is not None
    assert other.output_logprobs is not None
    pairs = zip(one.output_logprobs, other.output_logprobs, strict=True)
    assert all(abs((a or 0.0) - (b or 0.0)) < TOLERANCE for a, b in pairs)


# --- aborts -------------------------------------------------------------------------------------------------


async def test_an_abort_while_running_is_carried_on_to_the_unbroken_reply(
    client: SGLangClient, unbroken: GenerateReply
) -> None:
    async with SGLangClient(client.base_url, admin_api_key=ADMIN) as stranger, in_flight(client, long()) as (task,):
        await stranger.abort(next(iter(client._calls.in_flight)))
        reply = await task
    assert reply.resumptions == 1
    assert_same(unbroken, reply)
    assert unbroken.input_logprobs is not None
    assert reply.input_logprobs == pytest.approx(unbroken.input_logprobs, abs=TOLERANCE)
    assert reply.prompt_token_ids == PROMPT
    assert reply.prompt_tokens == len(PROMPT)


async def test_an_abort_in_the_queue_is_sent_again(client: SGLangClient) -> None:
    async with in_flight(client, *[asked(ENDLESS)] * RUNNING) as busy:
        queued = asyncio.create_task(client.send(asked(5, conversation_id="queued")))
        await until_load(lambda: load(client), lambda now: now.waiting == 1)
        ((rid, _),) = [(rid, call) for rid, call in client._calls.in_flight.items() if call.request.max_new_tokens == 5]
        async with SGLangClient(client.base_url, admin_api_key=ADMIN) as stranger:
            await stranger.abort(rid)
        for task in busy:
            task.cancel()
        reply = await queued
    assert len(reply.output_ids) == 5
    assert reply.resumptions == 1


async def test_what_the_caller_aborts_surfaces_with_what_was_sampled(client: SGLangClient) -> None:
    async with in_flight(client, asked(ENDLESS, conversation_id="mine")) as (task,):
        await client.abort(conversation_id="mine")
        with pytest.raises(SGLangAbortedError) as raised:
            await task
    assert isinstance(raised.value.reply, GenerateReply)


class Listening(AiohttpTransport):
    """The library's own transport, with a record of what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[tuple[str, int]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        self.answered.append((request.url.path, response.status_code))
        return response


async def test_cancelling_a_task_ends_the_request(
    small_url: str, client: SGLangClient, measure: Callable[[str, str], None]
) -> None:
    async with (
        Listening() as transport,
        SGLangClient(small_url, api_key=USER, admin_api_key=ADMIN, transport=transport) as own,
        # Both are of equal length and run in one batch: what ends long before the other one was ended.
        in_flight(own, asked(ENDLESS), asked(ENDLESS)) as (task, other),
    ):
        started = time.monotonic()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until_load(lambda: load(client), lambda now: now.running < 2)
        seconds = time.monotonic() - started
        assert not other.done()

        async def taken() -> bool:
            # Nobody waits longer than a second for this answer, and the end of the connection ends a generation too.
            return ("/abort_request", 200) in transport.answered

        await until(taken)
    measure("seconds from cancelling a task to the end of its generation", f"{seconds:.2f}")


# --- pauses and weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["abort", "retract", "in_place"])
async def test_a_pause_costs_no_token(client: SGLangClient, unbroken: GenerateReply, mode: Any) -> None:
    async with in_flight(client, asked(LONG)) as (task,):
        await client.pause_generation(mode)
        await asyncio.sleep(0.2)
        assert not task.done()
        await client.continue_generation()
        reply = await task
    assert_same(unbroken, reply)


async def test_a_generation_within_a_grammar_that_was_aborted_still_follows_it(client: SGLangClient) -> None:
    request = asked(2 * LONG)
    request = replace(request, sampling_params={**request.sampling_params, "ignore_eos": False, "regex": "(ab){1000}"})
    async with in_flight(client, request) as (task,):
        await client.pause_generation("abort")
        await client.continue_generation()
        reply = await task
    assert reply.resumptions == 1
    assert reply.text is not None
    assert ("ab" * 1000).startswith(reply.text)


@pytest.mark.parametrize("mode", ["abort", "in_place"])
async def test_weights_that_change_in_mid_generation_are_told_by_span(
    client: SGLangClient, tiny_model: Path, tmp_path: Path, mode: Any
) -> None:
    other = perturbed(tiny_model, tmp_path / "other")
    try:
        async with in_flight(client, asked(LONG)) as (task,):
            await client.pause_generation(mode)
            await client.update_weights_from_disk(str(other), weight_version="v1", flush_cache=mode == "abort")
            await client.continue_generation()
            reply = await task
        assert versions(reply) == ["v0", "v1"]
        assert not any(span.widened for span in reply.weight_versions)
        assert reply.weight_versions[-1].end == LONG
    finally:
        await client.update_weights_from_disk(str(tiny_model), weight_version="v0")


async def test_weights_that_do_not_exist_are_refused_and_the_server_goes_on(client: SGLangClient) -> None:
    with pytest.raises(SGLangBadRequestError, match="weights"):
        await client.update_weights_from_disk("/no/such/model")

    assert len((await client.send(asked(2))).output_ids) == 2


# --- refusals -----------------------------------------------------------------------------------------------


async def test_a_full_queue_is_waited_for(small_url: str, client: SGLangClient) -> None:
    patience = RetryPolicy(max_retries=1000, base_delay=0.5, max_delay=5.0)
    async with (
        SGLangClient(small_url, api_key=USER, timeout=CLIENT_SECONDS, retry=patience) as patient,
        in_flight(client, *[asked(ENDLESS)] * RUNNING) as busy,
    ):
        requests = [asked(20, prompt=[300 + number, *PROMPT]) for number in range(2 * QUEUED)]
        sending = asyncio.gather(*map(patient.send, requests))

        async def refused() -> bool:
            # What was refused is on its way no more, until it is sent again.
            return (await load(client)).waiting == QUEUED and len(patient._calls.in_flight) == QUEUED

        await until(refused)
        for task in busy:
            task.cancel()
        replies = await sending
    assert {20} == {len(reply.output_ids) for reply in replies}
    assert sum(reply.retries for reply in replies) > 0


async def test_a_full_queue_without_patience_is_throttling(small_url: str, client: SGLangClient) -> None:
    async with (
        SGLangClient(small_url, api_key=USER, admin_api_key=ADMIN, max_retries=0) as hasty,
        in_flight(client, *[asked(ENDLESS)] * (RUNNING + QUEUED)),
    ):
        with pytest.raises(SGLangThrottledError):
            await hasty.send(asked(2))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("which", ["prompt", "prompt and budget", "scheduler"])
async def test_every_wording_of_too_long_is_understood(client: SGLangClient, which: str, streamed: bool) -> None:
    info = await client.server_info()
    context = info["max_req_input_len"] + 6
    length, tokens = {
        "prompt": (context + 10, 1),
        "prompt and budget": (context - 50, 100),
        "scheduler": (context - 5, 2),
    }[which]
    request = asked(tokens, prompt=[300] * length)

    with pytest.raises(SGLangContextLengthError) as raised:
        await client.send(request, on_delta=(lambda delta: None) if streamed else None)
    assert raised.value.prompt_tokens == length
    assert raised.value.limit in (context, info["max_req_input_len"])


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"json_schema": "{"}, "grammar"),
        ({"temperature": -1.0}, "temperature"),
        ({"no_such_parameter": 1}, "unknown field"),
        ({"json_schema": "{}", "regex": "a"}, "Only one of"),
    ],
)
async def test_what_the_server_refuses_is_a_bad_request_in_its_own_words(
    client: SGLangClient, sampling: dict[str, Any], words: str
) -> None:
    with pytest.raises(SGLangBadRequestError, match=words):
        await client.send(GenerateRequest(input_ids=PROMPT, sampling_params=sampling))


async def test_a_request_id_that_is_taken_is_replaced(client: SGLangClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_flight(client, asked(LONG)) as (task,):
        taken = next(iter(client._calls.in_flight))
        ids = itertools.chain([taken], (new_rid("0" * 32) for _ in itertools.count()))
        monkeypatch.setattr("strands_sglang.client.calls.new_rid", lambda key: next(ids))
        async with SGLangClient(client.base_url, api_key=USER) as other:
            reply = await other.send(asked(3))
        first = await task
    assert (len(reply.output_ids), reply.retries) == (3, 1)
    assert (len(first.output_ids), first.retries, first.resumptions) == (LONG, 0, 0)


async def test_keys_are_asked_for(small_url: str) -> None:
    async with SGLangClient(small_url) as nobody, SGLangClient(small_url, api_key=USER) as user:
        with pytest.raises(SGLangAuthError):
            await nobody.send(asked(1))
        with pytest.raises(SGLangAuthError):
            await nobody.model_info()
        with pytest.raises(SGLangAuthError):
            await user.flush_cache()
        assert await nobody.health()


# --- questions ----------------------------------------------------------------------------------------------


async def test_the_server_answers_every_question(client: SGLangClient) -> None:
    assert await client.health()
    assert await client.is_multimodal() is False
    assert (await client.model_info())["weight_version"] == "v0"
    assert (await client.server_info())["version"].startswith("0.")
    assert await client.server_kinds() == {client.base_url: ServerKind.ENGINE}
    await client.flush_cache()


# --- streams ------------------------------------------------------------------------------------------------


async def assert_streams_as_it_answers(client: SGLangClient) -> None:
    for request in (asked(40), asked(40, return_logprob=False), asked(40, logprob_start_len=20)):
        whole = await client.send(request)
        deltas: list[StreamDelta] = []
        streamed = await client.send(request, on_delta=deltas.append)

        assert streamed.output_ids == whole.output_ids
        assert streamed.text == whole.text == "".join(delta.text for delta in deltas)
        assert streamed.finish_reason == whole.finish_reason
        assert streamed.weight_versions == whole.weight_versions
        assert [token for delta in deltas for token in delta.output_ids] == whole.output_ids
        if whole.output_logprobs is not None:
            assert_same(whole, streamed)


async def test_a_streamed_reply_equals_the_whole_one(client: SGLangClient) -> None:
    await assert_streams_as_it_answers(client)


async def test_an_abort_in_a_stream_is_carried_on(client: SGLangClient, unbroken: GenerateReply) -> None:
    deltas: list[StreamDelta] = []

    async def begun() -> bool:
        return len(deltas) > 5

    async def abort_once() -> None:
        await until(begun)
        async with SGLangClient(client.base_url, admin_api_key=ADMIN) as stranger:
            await stranger.abort(next(iter(client._calls.in_flight)))

    reply, _ = await asyncio.gather(client.send(asked(LONG), on_delta=deltas.append), abort_once())
    assert reply.resumptions == 1
    assert_same(unbroken, reply)
    assert [token for delta in deltas for token in delta.output_ids] == reply.output_ids


# --- a server that goes away --------------------------------------------------------------------------------


class Restartable:
    """A server on one port that can be killed, drained and started again."""

    def __init__(self, model: Path, log: Path, *flags: str) -> None:
        self._model, self._log, self._flags = model, log, flags
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self.process = spawn(default_environment(), self._model, self._port, self._flags, output)

    def wait(self) -> None:
        assert self.process is not None
        wait_until_ready(self.process, self.url, self._log)

    def terminate(self) -> None:
        assert self.process is not None
        self.process.terminate()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        stop(self.process)


@contextmanager
def restartable(model: Path, log: Path, *flags: str) -> Iterator[Restartable]:
    server = Restartable(model, log, *flags)
    server.start()
    try:
        server.wait()
        yield server
    finally:
        if server.process is not None:
            stop(server.process)


async def test_a_server_may_drain_or_crash_and_come_back(
    start_server: StartServer, tiny_model: Path, tmp_path: Path
) -> None:
    """One start serves: streams that are deltas, a crash under load, and a drain under load."""
    assert start_server is not None, "skips where the server is not installed"
    patience = RetryPolicy(max_retries=10_000, base_delay=0.5, max_delay=5.0)
    with restartable(tiny_model, tmp_path / "server.log", "--incremental-streaming-output") as server:
        async with SGLangClient(server.url, timeout=CLIENT_SECONDS, retry=patience) as client:
            await assert_streams_as_it_answers(client)

            tasks = [asyncio.create_task(client.send(asked(400))) for _ in range(8)]
            await until_load(lambda: load(client), lambda now: now.running == 8)
            await asyncio.to_thread(server.kill)
            server.start()
            replies = await asyncio.gather(*tasks)
            assert {400} == {len(reply.output_ids) for reply in replies}
            # The first may have been done when the last began; that one was not.
            assert any(reply.retries > 0 for reply in replies)

            task = asyncio.create_task(client.send(asked(400)))
            await until_load(lambda: load(client), lambda now: now.running == 1)
            server.terminate()
            drained = await task
            assert (len(drained.output_ids), drained.retries) == (400, 0)

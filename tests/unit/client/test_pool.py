"""Connections: real sockets on loopback, several event loops, and what breaks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from strands_sglang.client import SGLangClient
from strands_sglang.client.pool import KEEPALIVE_SECONDS, Answer, Pool, PoolOptions, environment_proxy, is_loopback
from strands_sglang.engine import EngineServer, ScriptedEngine, Turn, serve
from strands_sglang.errors import (
    SGLangConfigError,
    SGLangConnectionError,
    SGLangDecodingError,
    SGLangIncompleteAnswerError,
    SGLangTimeoutError,
)
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import GenerateReply

from .bodies import PROMPT, asked, reply_body

ONCE = RetryPolicy(max_retries=0)
QUICK = RetryPolicy(base_delay=0.0)
REQUEST = asked(sampling_params={"max_new_tokens": 3})


def endless(body: dict[str, Any]) -> Turn:
    return Turn(ids=[7, 8, 9], finish="length")


@contextmanager
def served_elsewhere(engine: ScriptedEngine) -> Iterator[EngineServer]:
    """A server in a thread and loop of its own, which outlives the loops of the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = serve(engine, port=0)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(120)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(120)
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(120)
        loop.close()


@asynccontextmanager
async def raw_server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that reads each request whole and then does whatever `answer` does; it counts connections from 1."""
    connections = 0

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await answer(reader, writer, connections)
        finally:
            writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return await reader.readexactly(length)


def whole(body: Any, *, claimed: int | None = None) -> bytes:
    raw = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {claimed or len(raw)}\r\n\r\n"
    return head.encode() + raw


# --- event loops --------------------------------------------------------------------------------------------


def test_one_client_serves_one_event_loop_after_the_other() -> None:
    with served_elsewhere(ScriptedEngine(endless)) as server:
        client = SGLangClient(server.url)

        replies = [asyncio.run(client.send(REQUEST)) for _ in range(3)]
    assert [reply.output_ids for reply in replies] == 3 * [[7, 8, 9]]
    gc.collect()  # a connection that was left open would warn here, and warnings are errors


def test_one_client_serves_several_event_loops_at_once() -> None:
    with served_elsewhere(ScriptedEngine(endless)) as server:
        client = SGLangClient(server.url)
        replies: list[Any] = []

        async def several() -> None:
            replies.extend(await asyncio.gather(*(client.send(REQUEST) for _ in range(5))))

        threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert len(replies) == 20
    gc.collect()


def test_closing_reaches_the_connections_of_other_loops() -> None:
    with served_elsewhere(ScriptedEngine(endless)) as server:
        client = SGLangClient(server.url)
        other = asyncio.new_event_loop()
        thread = threading.Thread(target=other.run_forever)
        thread.start()
        asyncio.run_coroutine_threadsafe(client.send(REQUEST), other).result(120)

        asyncio.run(client.close())
        other.call_soon_threadsafe(other.stop)
        thread.join(120)
        other.close()
    gc.collect()


async def test_a_client_that_is_dropped_closes_its_connections() -> None:
    async with serve(ScriptedEngine(endless), port=0) as server:
        client = SGLangClient(server.url)
        await client.send(REQUEST)
        del client
        gc.collect()
        await asyncio.sleep(0.01)


async def test_a_closed_client_can_be_used_again() -> None:
    async with serve(ScriptedEngine(endless), port=0) as server, SGLangClient(server.url) as client:
        await client.send(REQUEST)
        await client.close()
        assert (await client.send(REQUEST)).output_ids == [7, 8, 9]


async def test_closing_loses_no_call_that_waits_for_a_connection() -> None:
    def slow(body: dict[str, Any]) -> Turn:
        return Turn(ids=[7, 8, 9], finish="length", delay=0.05)

    async with (
        serve(ScriptedEngine(slow), port=0) as server,
        SGLangClient(server.url, max_connections=1, retry=QUICK) as client,
    ):
        for deltas in (None, lambda delta: None):
            tasks = [asyncio.create_task(client.send(REQUEST, on_delta=deltas)) for _ in range(4)]
            await asyncio.sleep(0.02)
            await client.close()
            replies = await asyncio.gather(*tasks)
            assert [reply.output_ids for reply in replies] == 4 * [[7, 8, 9]]


async def test_closing_loses_no_request_that_waits_below_the_client() -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        arrived.set()
        await closed.wait()
        writer.write(whole({}))
        with contextlib.suppress(ConnectionError):  # nobody reads the first one
            await writer.drain()

    async with raw_server(answer) as url:
        pool = Pool(PoolOptions(max_connections=1, connect_timeout=5.0))
        tasks = [asyncio.create_task(pool.send("POST", url, headers={}, body=b"{}")) for _ in range(4)]
        await arrived.wait()
        await pool.aclose()
        closed.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await pool.aclose()
    assert [type(outcome) for outcome in outcomes] == [SGLangConnectionError, *3 * [Answer]]


async def test_a_task_that_is_cancelled_while_the_client_closes_stays_cancelled() -> None:
    async with serve(ScriptedEngine(lambda body: Turn(ids=[7], delay=30)), port=0) as server:
        client = SGLangClient(server.url, max_connections=1)
        tasks = [asyncio.create_task(client.send(REQUEST)) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await client.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    assert 3 * [asyncio.CancelledError] == [type(outcome) for outcome in outcomes]


def test_closing_does_not_wait_for_a_loop_that_is_blocked(caplog: pytest.LogCaptureFixture) -> None:
    with served_elsewhere(ScriptedEngine(endless)) as server:
        client = SGLangClient(server.url)
        closing = threading.Thread(target=lambda: asyncio.run(client.close()))

        async def block() -> None:
            await client.send(REQUEST)
            closing.start()
            closing.join(60)  # what would never end: the other loop waits for this one
            assert not closing.is_alive()
            await asyncio.sleep(0)

        asyncio.run(block())
    assert "blocked" in caplog.text
    gc.collect()


# --- connections --------------------------------------------------------------------------------------------


def test_idle_connections_end_before_the_server_ends_them() -> None:
    assert KEEPALIVE_SECONDS < 5


async def test_a_connection_is_used_again() -> None:
    seen: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        for _ in range(3):
            await read_request(reader)
            seen.append(number)
            writer.write(whole(reply_body([7, 8, 9])))

    async with raw_server(answer) as url, SGLangClient(url) as client:
        for _ in range(3):
            await client.send(REQUEST)
    assert seen == [1, 1, 1]


async def test_a_connection_that_the_server_closed_while_idle_costs_no_request() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole(reply_body([7, 8, 9])))
        await writer.drain()

    async with raw_server(answer) as url, SGLangClient(url, retry=QUICK) as client:
        for _ in range(4):
            assert (await client.send(REQUEST)).output_ids == [7, 8, 9]


async def test_a_long_prompt_arrives_whole() -> None:
    prompt = list(range(100_000, 400_000))
    engine = ScriptedEngine(endless)
    async with serve(engine, port=0) as server, SGLangClient(server.url) as client:
        await client.send(asked(prompt))
    assert engine.prompts == [prompt]


async def test_no_more_connections_are_opened_than_allowed() -> None:
    running = most = 0

    async def step(body: dict[str, Any]) -> Turn:
        nonlocal running, most
        running += 1
        most = max(most, running)
        while most < 2:  # the first waits for the second, and both for a third that should not come
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        running -= 1
        return endless(body)

    engine = ScriptedEngine(step)
    async with serve(engine, port=0) as server, SGLangClient(server.url, max_connections=2) as client:
        await asyncio.gather(*(client.send(REQUEST) for _ in range(9)))
    assert most == 2


async def test_an_abort_does_not_wait_for_a_free_connection() -> None:
    engine = ScriptedEngine(lambda body: Turn(ids=[7, 8, 9], finish="length", delay=30))
    async with (
        serve(
            engine,
            port=0,
        ) as server,
        SGLangClient(server.url, max_connections=1) as client,
    ):
        tasks = [asyncio.create_task(client.send(REQUEST)) for _ in range(2)]
        async with asyncio.timeout(60):
            while not engine.requests:
                await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert engine.requests[0]["rid"] in engine.aborts


# --- what breaks --------------------------------------------------------------------------------------------


async def test_nobody_listening_is_told_with_the_address() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and kept, so that nobody else listens there
        port = bound.getsockname()[1]
        async with SGLangClient(f"http://127.0.0.1:{port}", retry=QUICK) as client:
            with pytest.raises(
                SGLangConnectionError, match=f"nobody answers at http://127.0.0.1:{port}/generate"
            ) as raised:
                await client.send(REQUEST)
    assert raised.value.attempts == 4


async def test_a_host_without_a_name_is_nobody() -> None:
    async with SGLangClient("http://no-such-host.invalid", retry=ONCE) as client:
        with pytest.raises(SGLangConnectionError, match=r"nobody answers at http://no-such-host\.invalid"):
            await client.send(REQUEST)


async def test_a_reset_before_any_byte_is_tried_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        body = await read_request(reader)
        if b"input_ids" in body and number > 1:
            writer.write(whole(reply_body([7, 8, 9])))
            await writer.drain()

    async with raw_server(answer) as url, SGLangClient(url, retry=QUICK) as client:
        assert (await client.send(REQUEST)).retries == 1


async def test_an_answer_that_breaks_off_is_named_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole(reply_body([7, 8, 9]), claimed=10_000))
        await writer.drain()

    async with raw_server(answer) as url, SGLangClient(url, retry=ONCE) as client:
        with pytest.raises(SGLangIncompleteAnswerError, match="in the middle of its answer"):
            await client.send(REQUEST)


def head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "content-type: {kind}", *lines, "", ""]).encode()


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "two lengths": lambda raw: head(f"content-length: {len(raw)}", f"content-length: {len(raw)}") + raw,
    "a length beside chunks": lambda raw: (
        head(f"content-length: {len(raw)}", "transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(raw), raw)
    ),
    "a length that is none": lambda raw: head("content-length: many") + raw,
    "a header that is too long": lambda raw: head(f"content-length: {len(raw)}", f"x: {9000 * 'x'}") + raw,
    "a header without a name": lambda raw: head(f"content-length: {len(raw)}", ": x") + raw,
    "bytes after the body": lambda raw: head(f"content-length: {len(raw)}") + raw + b"rest\r\n\r\n",
    "a chunk without a length": lambda raw: head("transfer-encoding: chunked") + b"xyz\r\n" + raw,
    "broken gzip": lambda raw: head(f"content-length: {len(raw)}", "content-encoding: gzip") + raw,
    "broken deflate": lambda raw: head(f"content-length: {len(raw)}", "content-encoding: deflate") + raw,
    "brotli": lambda raw: head(f"content-length: {len(raw)}", "content-encoding: br") + raw,
    "zstd": lambda raw: head(f"content-length: {len(raw)}", "content-encoding: zstd") + raw,
    "a status line that is none": lambda raw: b"HTTP/1.1 OK\r\n\r\n" + raw,
    "another protocol": lambda raw: b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("what", UNREADABLE)
async def test_an_answer_that_cannot_be_read_is_not_generated_again_and_again(
    what: str, streamed: bool, kind: str
) -> None:
    asked_for = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal asked_for
        if b"input_ids" in await read_request(reader):
            asked_for += 1
            raw = json.dumps(reply_body([7, 8, 9])).encode()
            raw = b"data: " + raw + b"\n\ndata: [DONE]\n\n" if "event" in kind else raw
            writer.write(UNREADABLE[what](raw).replace(b"{kind}", kind.encode()))
        else:
            writer.write(whole({}))
        await writer.drain()

    async with raw_server(answer) as url, SGLangClient(url, retry=QUICK) as client:
        call = client.send(REQUEST, on_delta=(lambda delta: None) if streamed else None)
        (outcome,) = await asyncio.gather(call, return_exceptions=True)
    if not isinstance(outcome, GenerateReply):  # some are read in spite of it: the body was whole
        assert isinstance(outcome, SGLangIncompleteAnswerError | SGLangDecodingError), repr(outcome)
        assert outcome.url == f"{url}/generate"
        assert outcome.rid
        assert str(outcome).count(url) == 1
    assert asked_for <= 1 + QUICK.max_costly


async def test_what_is_no_http_is_a_connection_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()

    async with raw_server(answer) as url, SGLangClient(url, retry=ONCE) as client:
        with pytest.raises(SGLangConnectionError, match=url):
            await client.send(REQUEST)


async def test_tls_to_a_server_without_tls_is_a_connection_error() -> None:
    async with serve(ScriptedEngine(endless), port=0) as server:
        context = ssl.create_default_context()
        async with SGLangClient(server.url.replace("http:", "https:"), retry=ONCE, verify=context) as client:
            with pytest.raises(SGLangConnectionError):
                await client.send(REQUEST)


async def test_a_silent_server_meets_the_deadline() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await reader.read()

    async with raw_server(answer) as url, SGLangClient(url, timeout=0.1) as client:
        with pytest.raises(SGLangTimeoutError, match="deadline"):
            await client.send(REQUEST)


# --- headers and proxies ------------------------------------------------------------------------------------


async def test_keys_and_headers_are_sent_where_they_belong() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head.lower())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()

    options: dict[str, Any] = {"api_key": "key", "admin_api_key": "admin", "headers": {"X-Team": "red"}}
    async with raw_server(answer) as url, SGLangClient(url, retry=ONCE, **options) as client:
        for call in (client.send(REQUEST), client.server_info(), client.flush_cache()):
            await asyncio.gather(call, return_exceptions=True)
    assert [head.split(b"authorization: ")[1].split(b"\r\n")[0] for head in heads] == [
        b"bearer key",
        b"bearer key",
        b"bearer key",
        b"bearer admin",
    ]
    assert all(b"x-team: red" in head and b"content-type: application/json" in head for head in heads)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "::1", "0.0.0.0"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.com", "10.0.0.1", "example.com", "::2"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_environment_proxies_are_used_but_never_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")

    assert environment_proxy("http://example.com/x") == "http://proxy:3128"
    assert environment_proxy("https://example.com/x") is None
    assert environment_proxy("http://127.0.0.1:30000/x") is None
    monkeypatch.setenv("no_proxy", "example.com")
    assert environment_proxy("http://example.com/x") is None


def test_a_proxy_without_a_scheme_is_an_http_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "10.0.0.1:3128")

    assert environment_proxy("http://example.com/x") == "http://10.0.0.1:3128"


@pytest.mark.parametrize(
    "proxy", ["socks5://u:secret@proxy:1", "http://", "http://proxy:port", "http://[::1", "proxy:-1"]
)
def test_a_proxy_that_is_none_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)

    with pytest.raises(SGLangConfigError, match="http_proxy") as raised:
        environment_proxy("http://example.com/x")
    assert "secret" not in str(raised.value)


async def test_loopback_is_reached_although_a_proxy_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serve(ScriptedEngine(endless), port=0) as server, SGLangClient(server.url, retry=ONCE) as client:
        assert (await client.generate(PROMPT))["output_ids"] == [7, 8, 9]


async def test_a_connection_that_came_up_while_the_loop_was_busy_is_no_failure() -> None:
    async def hog() -> None:
        while True:  # every round of the loop takes longer than a connection may
            time.sleep(0.3)
            await asyncio.sleep(0)

    with served_elsewhere(ScriptedEngine(endless)) as server:
        async with SGLangClient(server.url, connect_timeout=0.1, retry=ONCE) as client:
            hogging = asyncio.create_task(hog())
            sending = asyncio.create_task(client.send(REQUEST))
            await asyncio.sleep(2)
            hogging.cancel()  # the last try has the loop to itself
            reply = await sending

    assert reply.retries == 0


async def test_a_server_that_takes_no_connection_is_one_in_a_quiet_loop() -> None:
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # nobody accepts: the queue is full, and the next one is left waiting
            other = waiting.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with SGLangClient(url, connect_timeout=0.2, retry=ONCE) as client:
            with pytest.raises(SGLangTimeoutError, match="did not accept the connection in time"):
                await client.send(REQUEST)

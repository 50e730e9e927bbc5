"""A proxy on loopback that does to each request what a seed says.

It resets before or after the request arrived, delays, cuts answers off, spoils them, answers in the server's place,
aborts the request behind the client's back, and pauses the server. What it does to a request depends on the seed, the
request's prompt and how often that prompt came, not on the order in which requests arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

Relay = Callable[[], Awaitable[bytes]]

RATES = {
    "reset_before": 0.04,
    "reset_after": 0.04,
    "cut": 0.04,
    "spoil": 0.015,
    "delay": 0.06,
    "answer_429": 0.03,
    "answer_500": 0.03,
    "answer_502": 0.02,
    "answer_503": 0.04,
    "answer_duplicate": 0.01,
    "abort": 0.05,
    "pause": 0.01,
}
"""How often each fault strikes; the rest of the requests pass untouched."""

_ANSWERS = {
    "answer_429": (
        429,
        b'{"error":{"code":"admission_queue_full","message":"too many"}}',
        "retry-after: 0\r\n",
    ),
    "answer_500": (500, b"Internal Server Error", ""),
    "answer_502": (502, b"<html><head><title>502 Bad Gateway</title></head></html>", ""),
    "answer_503": (503, b'{"object":"error","message":"The request queue is full.","type":"503","code":503}', ""),
    "answer_duplicate": (400, b'{"error":{"message":"Duplicate request ID detected: x"}}', ""),
}


@dataclass(frozen=True, slots=True)
class _Request:
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode()


class ChaosProxy:
    """Listens on a free port in front of `target`; an async context manager.

    Attributes:
        url: Where to send requests.
        struck: How often each fault was done.
    """

    def __init__(self, target: str, *, seed: int, rates: dict[str, float] | None = None) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._seed = seed
        self._rates = RATES if rates is None else rates
        self._times_seen: Counter[bytes] = Counter()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.struck: Counter[str] = Counter()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                await self._one(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        if request.path != "/generate":
            await self._relay(request, writer)
            return
        rng = self._rng(request)
        fault = self._draw(rng)
        self.struck[fault] += 1
        await self._strike(fault, rng, request, writer)

    def _rng(self, request: _Request) -> random.Random:
        prompt = request.body[request.body.index(b"[") : request.body.index(b"]")]
        key = hashlib.blake2b(prompt, digest_size=16).digest()
        self._times_seen[key] += 1
        return random.Random(f"{self._seed}:{key.hex()}:{self._times_seen[key]}")

    def _draw(self, rng: random.Random) -> str:
        drawn = rng.random()
        for fault, rate in self._rates.items():
            drawn -= rate
            if drawn < 0:
                return fault
        return "none"

    async def _strike(self, fault: str, rng: random.Random, request: _Request, writer: asyncio.StreamWriter) -> None:
        if fault in _ANSWERS:
            status, body, header = _ANSWERS[fault]
            head = f"HTTP/1.1 {status} X\r\n{header}content-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        elif fault == "reset_before":
            _reset(writer)
        elif fault == "reset_after":
            await self._ask(request)
            _reset(writer)
        elif fault == "cut":
            answer = await self._ask(request)
            writer.write(answer[: rng.randrange(1, len(answer))])
            await writer.drain()
            _reset(writer)
        elif fault == "spoil":
            writer.write(spoilt(await self._ask(request), rng))
        else:
            if fault == "delay":
                await asyncio.sleep(rng.uniform(0.001, 0.02))
            elif fault == "abort":
                self._later(rng.uniform(0.0, 0.01), "/abort_request", {"rid": json.loads(request.body)["rid"]})
            elif fault == "pause":
                await self._order("/pause_generation", {"mode": "abort"})
                self._later(rng.uniform(0.001, 0.02), "/continue_generation", {})
            await self._relay(request, writer)
        await writer.drain()

    async def _relay(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        """Pass the answer on as it comes, so that streams stream; then close, since its end is not looked for."""
        reader, upstream = await self._connect(request)
        try:
            while part := await reader.read(1 << 16):
                writer.write(part)
                await writer.drain()
        finally:
            upstream.close()
        writer.close()

    async def _ask(self, request: _Request) -> bytes:
        reader, upstream = await self._connect(request)
        try:
            return await reader.read()
        finally:
            upstream.close()

    async def _connect(self, request: _Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, upstream = await asyncio.open_connection(*self._target)
        head = request.head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
        upstream.write(head + request.body)
        await upstream.drain()
        return reader, upstream

    async def _order(self, path: str, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
        )
        await self._ask(_Request(head.encode(), raw))

    def _later(self, delay: float, path: str, body: dict[str, Any]) -> None:
        async def order() -> None:
            await asyncio.sleep(delay)
            with suppress(ConnectionError):
                await self._order(path, body)

        task = asyncio.get_running_loop().create_task(order())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _read(reader: asyncio.StreamReader) -> _Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
    return _Request(head, body)


def _reset(writer: asyncio.StreamWriter) -> None:
    transport = writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.abort()


def spoilt(answer: bytes, rng: random.Random) -> bytes:
    """Return an answer that says something else, in a way that can be told from the answer itself."""
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        decoded = json.loads(body)
        decoded["output_ids"][0], meta = decoded["output_ids"][0], decoded["meta_info"]
    except (ValueError, KeyError, IndexError, TypeError):
        return b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull"
    kind = rng.randrange(6)
    if kind == 0:
        decoded["output_ids"][rng.randrange(len(decoded["output_ids"]))] += 1
    elif kind == 1:
        decoded["output_ids"].pop()
    elif kind == 2:
        meta["output_token_logprobs"].pop(rng.randrange(len(meta["output_token_logprobs"])))
    elif kind == 3:
        meta["prompt_tokens"] -= 1
    elif kind == 4:
        meta["finish_reason"] = None
    raw = json.dumps(decoded).encode()
    if kind == 5:
        raw = raw[: len(raw) // 2]
    status = head.split(b"\r\n", 1)[0]
    return status + f"\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw

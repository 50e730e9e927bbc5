"""Several engines by host name, and clients of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from strands_sglang.engine import EngineTransport, ScriptedEngine, Turn


class Fleet(httpx.AsyncBaseTransport):
    """Several engines by host name; a host that is missing refuses connections."""

    def __init__(self, **engines: ScriptedEngine) -> None:
        self.engines = {host: EngineTransport(engine) for host, engine in engines.items()}
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        if request.url.host not in self.engines:
            raise httpx.ConnectError("refused", request=request)
        return await self.engines[request.url.host].handle_async_request(request)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Held:
    """Steps of an engine that answers when it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, body: dict[str, Any]) -> Turn:
        await self.go.wait()
        return endless(body)


def endless(body: dict[str, Any]) -> Turn:
    return Turn(ids=[7, 8, 9], finish="length")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def some_rounds() -> None:
    """Let everything happen that can happen without a time passing."""
    for _ in range(50):
        await asyncio.sleep(0)

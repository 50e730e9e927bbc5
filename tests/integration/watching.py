"""What a server is doing now, so that a test waits for a state and never for a time.

A state that does not come within `PATIENCE` fails the test; that is for servers that hang, not for slow ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

PATIENCE = 300.0
"""Seconds that any state may take, on the slowest machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many requests a server has.

    Attributes:
        running: Requests that are being sampled, which have at least one token.
        waiting: Requests in the queue.
    """

    running: int
    waiting: int

    @classmethod
    def of(cls, body: dict[str, Any]) -> Load:
        """Read the body of `/v1/loads`."""
        loads = body["loads"]
        return cls(
            running=sum(load["num_running_reqs"] for load in loads),
            waiting=sum(load["num_waiting_reqs"] for load in loads),
        )

    @property
    def is_none(self) -> bool:
        """Whether the server is idle."""
        return self.running == self.waiting == 0


async def load_of(client: httpx.AsyncClient) -> Load:
    """Ask a server for its load."""
    return Load.of((await client.get("/v1/loads")).raise_for_status().json())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_load(ask: Callable[[], Awaitable[Load]], suits: Callable[[Load], bool]) -> None:
    """Wait until a server's load is such."""

    async def so() -> bool:
        return suits(await ask())

    await until(so)

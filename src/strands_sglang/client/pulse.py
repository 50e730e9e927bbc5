"""Whether this process was too busy to see a connection come up.

With a thousand episodes in one loop, a single round of it can take as long as a connection may: both the news of the
connection and the end of its time then wait for the same round, and the latter wins. Such a timeout says nothing
about the server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
import httpx

T = TypeVar("T")

_CONNECT_TIMEOUTS = (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout)
_TRIES = 10
_SHORTEST_BEAT = 0.01


class BusyProcessError(httpx.ConnectTimeout):
    """A connection did not come up in time, while the loop was held up."""


def never_connected(error: BaseException | None) -> bool:
    """Whether an error is that of a connection which did not come up."""
    return isinstance(error, (*_CONNECT_TIMEOUTS, aiohttp.ClientConnectorError, httpx.ConnectError))


class Pulse:
    """Notices that the loop it beats in was held up; it beats only while somebody waits for an answer."""

    def __init__(self, connect_timeout: float) -> None:
        """Take the seconds of a connection; a quarter of them without a round of the loop is too long."""
        self._every = max(connect_timeout / 8, _SHORTEST_BEAT)
        self._too_late = self._every + connect_timeout / 4
        self._waiting = 0
        self._is_beating = False
        self._last = self._held_up_at = -math.inf

    async def watch(self, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request; again, a few times, where the loop was held up while its connection was to come up.

        Raises:
            BusyProcessError: It was held up each time.
        """
        loop = asyncio.get_running_loop()
        self._enter(loop)
        try:
            for _ in range(_TRIES):
                began = loop.time()
                try:
                    return await request()
                except _CONNECT_TIMEOUTS as error:
                    if not self._was_held_up(began, loop.time()):
                        raise
                    timeout = error
        finally:
            self._waiting -= 1
        raise BusyProcessError("this process was too busy to see the connection come up") from timeout

    def _enter(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            self._last = loop.time()  # the loop may have stood still between two calls
        self._waiting += 1
        if not self._is_beating:
            self._is_beating = True
            loop.call_later(self._every, self._beat)

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._last > self._too_late:
            self._held_up_at = now
        self._last = now
        self._is_beating = self._waiting > 0
        if self._is_beating:
            loop.call_later(self._every, self._beat)

    def _was_held_up(self, since: float, now: float) -> bool:
        return self._held_up_at >= since or now - self._last > self._too_late

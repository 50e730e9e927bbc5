"""The pause gate: while it is closed, no new request leaves.

A request that is already on its way is not touched. The gate works over several event loops and threads: whoever
opens it wakes the waiters of every loop.
"""

from __future__ import annotations

import asyncio
import threading


class Gate:
    """Open at first; `close()` holds whoever comes to `wait()`, `open()` lets all of them go."""

    def __init__(self) -> None:
        """Start open."""
        self._closed = False
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_closed(self) -> bool:
        """Whether requests are held."""
        return self._closed

    def close(self) -> None:
        """Hold requests from now on."""
        self._closed = True

    def open(self) -> None:
        """Let every held request go."""
        with self._lock:
            self._closed = False
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_release, future)

    async def wait(self) -> None:
        """Return at once when open, else when it opens."""
        while self._closed:
            future = asyncio.get_running_loop().create_future()
            with self._lock:
                if not self._closed:
                    return
                self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

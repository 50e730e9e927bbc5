"""When a request may leave: the pause gate, and the places among the requests on their way.

While the gate is closed, no new request leaves; one that is already on its way is not touched. The gate works over
several event loops and threads: whoever opens it wakes the waiters of every loop. Nobody waits for a connection below
the gate, where it could not hold them: whoever has a place has a connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref


class Gate:
    """Open at first; `close()` holds whoever comes to `wait()`, `open()` lets all of them go."""

    def __init__(self) -> None:
        """Start open."""
        self._closed = False
        self._closed_since = self._seconds = 0.0
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_closed(self) -> bool:
        """Whether requests are held."""
        return self._closed

    def close(self) -> None:
        """Hold requests from now on."""
        with self._lock:
            if not self._closed:
                self._closed_since = time.monotonic()
            self._closed = True

    def open(self) -> None:
        """Let every held request go."""
        with self._lock:
            if self._closed:
                self._seconds += time.monotonic() - self._closed_since
            self._closed = False
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_release, future)

    def seconds_closed(self) -> float:
        """Return for how long it has been closed, all times together."""
        with self._lock:
            return self._seconds + (time.monotonic() - self._closed_since if self._closed else 0.0)

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


class Places:
    """The places among the requests of one client that are on their way, so many in each event loop.

    Its connections are kept per loop in the same way.
    """

    def __init__(self, count: int) -> None:
        """Make none yet."""
        self._count = count
        self._lock = threading.Lock()
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._by_loop = weakref.WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """Return those of the running loop."""
        loop = asyncio.get_running_loop()
        places = self._by_loop.get(loop)
        if places is None:
            with self._lock:
                # A semaphore that was waited for knows its loop, which would be kept for ever.
                for dead in [known for known in self._by_loop if known.is_closed()]:
                    del self._by_loop[dead]
                places = self._by_loop[loop] = asyncio.Semaphore(self._count)
        return places


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

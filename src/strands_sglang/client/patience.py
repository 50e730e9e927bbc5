"""What one call may wait for, and for how long.

A call waits in four places: for what stands behind an address, until requests are let go, for one of the places
among the requests on their way, and between two attempts. Its deadline ends each of them, and so does a caller's
abort, from whichever loop and thread it comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from .gate import Gate


class Patience:
    """The time of one call.

    Attributes:
        started: When the call began.
        is_aborted: Whether a caller wants it ended.
    """

    __slots__ = ("_deadline", "_loop", "_timeout", "is_aborted", "started")

    def __init__(self, seconds: float | None) -> None:
        """Begin now; None for no deadline."""
        self.started = time.monotonic()
        self.is_aborted = False
        self._deadline = None if seconds is None else self.started + seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timeout: asyncio.Timeout | None = None

    def elapsed(self) -> float:
        """Return the seconds since the call began."""
        return time.monotonic() - self.started

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def abort(self) -> None:
        """End whatever is waited for now, and from now on; from any thread."""
        self.is_aborted = True
        # Read after the flag was set: whoever begins to wait sets the one and then reads the other.
        timeout, loop = self._timeout, self._loop
        if timeout is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._interrupt, timeout)

    async def wait(self, thing: Awaitable[object], seconds: float | None) -> bool:
        """Wait for something; return whether it came before the seconds ended and before an abort."""
        self._loop = asyncio.get_running_loop()
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                self._timeout = timeout
                if self.is_aborted:
                    self._interrupt(timeout)
                await thing
        except TimeoutError:
            if not timeout.expired():
                raise
            return False
        finally:
            self._timeout = None
        return True

    async def leave(self, gate: Gate, places: asyncio.Semaphore) -> bool:
        """Wait until a request may leave, and take a place for it; return False if the call ends before.

        Whoever waits for a place looks at the gate again once it has one: no request leaves while that is closed. The
        time in which it is closed does not count.
        """
        if not (gate.is_closed or places.locked() or self.is_aborted):
            return await places.acquire()
        held = gate.seconds_closed()
        while not self.is_aborted and self.remaining() != 0:
            if gate.is_closed:
                await self.wait(gate.wait(), None)
                has_place = False
            else:
                has_place = await self.wait(places.acquire(), self.remaining())
            since, held = held, gate.seconds_closed()
            self._extend(held - since)
            if has_place and not gate.is_closed and not self.is_aborted:
                return True
            if has_place:
                places.release()
        return False

    def _extend(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline += seconds

    def _interrupt(self, timeout: asyncio.Timeout) -> None:
        if timeout is self._timeout and not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())

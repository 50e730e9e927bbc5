"""The thread that runs the scheduler, so that the event loop never waits for the model.

Owns the thread and its inbox.
Invariant: only the thread touches the scheduler; everything else is asked of it in order, between two steps.
The thread ends when there is nothing to do and is started again when there is, so nothing needs closing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from strands_sglang.engine.tiny.scheduler import Scheduler

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue that another thread fills for a coroutine of this event loop."""

    def __init__(self) -> None:
        """Create it inside the event loop that will read it."""
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[T | Exception] = asyncio.Queue()

    def post(self, item: T | Exception) -> None:
        """Add an item, from any thread; an exception will be raised by `get`."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def get(self) -> T:
        """Return the next item."""
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        return item


class Worker:
    """Runs a scheduler in a thread of its own."""

    def __init__(self, scheduler: Scheduler, *, on_failure: Callable[[Exception], None]) -> None:
        """Create it; `on_failure` is told of an error that nobody waits for, after which the scheduler is empty."""
        self._scheduler = scheduler
        self._on_failure = on_failure
        self._inbox: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def post(self, call: Callable[[], object]) -> None:
        """Have `call` done between two steps."""
        with self._lock:
            self._inbox.append(call)
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._run, name="tiny-engine", daemon=True).start()

    async def ask(self, call: Callable[[], T]) -> T:
        """Have `call` done between two steps, and return what it returns or raises."""
        mailbox: Mailbox[T] = Mailbox()

        def answer() -> None:
            try:
                mailbox.post(call())
            except Exception as error:
                mailbox.post(error)

        self.post(answer)
        return await mailbox.get()

    def _run(self) -> None:
        while self._goes_on():
            while self._inbox:
                self._do(self._inbox.popleft())
            if self._scheduler.has_work:
                self._do(self._scheduler.step)

    def _goes_on(self) -> bool:
        """Say whether there is anything to do; where not, the thread is given up under the lock."""
        with self._lock:
            self._busy = bool(self._inbox) or self._scheduler.has_work
            return self._busy

    def _do(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            # A sequence half way through a step cannot go on; those who wait must not wait for ever.
            self._scheduler.forget_all()
            self._on_failure(error)

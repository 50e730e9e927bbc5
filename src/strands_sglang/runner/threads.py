"""Threads for synchronous tools and rewards: as many as there are calls, and none that a hanging tool can hold up.

Strands runs synchronous tools in the event loop's default executor. Python's own has few threads, however many agents
run, so that a handful of hanging tools stops every other; and its threads are waited for at exit, so that one hanging
tool keeps the process alive. Here a call takes an idle thread or a new one, and none is ever waited for.
It cannot end a call that hangs: its thread stays until the process ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_IDLE_SECONDS = 10.0

_Call = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class DaemonThreads(ThreadPoolExecutor):
    """An executor without a bound, whose threads die with the process."""

    def __init__(self) -> None:
        """Start no thread yet."""
        super().__init__(max_workers=1)  # asyncio takes no other kind of executor; its own threads are never started
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in an idle thread, or in a new one."""
        future: Future[Any] = Future()
        self._calls.put((future, fn, args, kwargs))
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, name="strands-sglang-tool", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing: what runs may never end, and idle threads end by themselves."""

    def _work(self) -> None:
        while True:
            try:
                future, fn, args, kwargs = self._calls.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._idle.acquire(blocking=False):
                    return
                continue  # a call was meant for this thread in the same moment
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)
            del future, fn, args, kwargs
            self._idle.release()


def use_daemon_threads() -> None:
    """Make `DaemonThreads` the running loop's default executor, once; it stays so when the episodes are over."""
    loop = asyncio.get_running_loop()
    if not getattr(loop, "_strands_sglang_threads", False):
        loop.set_default_executor(DaemonThreads())
        try:
            loop._strands_sglang_threads = True  # type: ignore[attr-defined]
        except AttributeError:  # uvloop's loops take no attributes
            return

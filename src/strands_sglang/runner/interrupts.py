"""Ctrl-C while many episodes run: the first asks the run to finish, the second to stop.

A handler is set only in the main thread, and only in the place of Python's own or of `asyncio.run`'s; who has a handler
of their own keeps it. What stood there before is put back.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .threads import DaemonThreads


@contextmanager
def on_sigint(callback: Callable[[], None]) -> Iterator[bool]:
    """Call back on each SIGINT, instead of what Python does; yields whether a handler was set."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_pythons(previous):
        yield False
        return
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, callback)
    except (NotImplementedError, RuntimeError):  # Windows; a loop that is not the main thread's
        yield False
        return
    try:
        yield True
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, previous)


def is_from_sigint(error: KeyboardInterrupt) -> bool:
    """Whether a KeyboardInterrupt may be Ctrl-C's: raised by the handler that is set, and not in another thread."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        return False
    codes = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    if handler is signal.default_int_handler:  # written in C, so that it leaves no frame
        return DaemonThreads._work.__code__ not in codes
    return getattr(getattr(handler, "func", handler), "__code__", None) in codes


def _is_pythons(handler: Any) -> bool:
    """Whether a handler is the interpreter's own or that of `asyncio.Runner`."""
    owner = getattr(getattr(handler, "func", handler), "__self__", None)
    return handler is signal.default_int_handler or isinstance(owner, asyncio.Runner)

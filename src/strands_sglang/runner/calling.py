"""How a callable that a user gave wants to be called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_asynchronous(called: Callable[..., Any]) -> bool:
    """Whether a callable is known to return at once with something to await."""
    while isinstance(called, functools.partial):
        called = called.func
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(type(called).__call__)


def takes_positional(called: Callable[..., Any]) -> bool:
    """Whether a callable must be given a positional argument."""
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)

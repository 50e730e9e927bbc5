"""How a callable that a user gave wants to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_positional(called: Callable[..., Any]) -> bool:
    """Whether a callable must be given a positional argument."""
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)

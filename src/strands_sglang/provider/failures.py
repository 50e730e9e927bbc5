"""Our errors -> the host's, in one place.

Strands treats two of its own exceptions specially: it shrinks the history on a context overflow, and it retries when
throttled. Everything else passes as it is; our error is always the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strands.types.exceptions import ContextWindowOverflowException, ModelThrottledException

from strands_sglang.errors import SGLangContextLengthError, SGLangThrottledError


@contextmanager
def as_host_errors() -> Iterator[None]:
    """Raise the host's exception where it has one for what went wrong."""
    try:
        yield
    except SGLangContextLengthError as error:
        raise ContextWindowOverflowException(str(error)) from error
    except SGLangThrottledError as error:
        raise ModelThrottledException(str(error)) from error

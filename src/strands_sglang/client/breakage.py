"""What the HTTP library raises -> typed errors.

Three things are told apart: nobody answered; an answer came, but broke off or cannot be read; the request cannot be
sent at all. Only the first is free to be tried again and again: behind an answer that cannot be read stands a whole
generation.
"""

from __future__ import annotations

import aiohttp
import httpx
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import ContentEncodingError

from strands_sglang.errors import (
    SGLangConfigError,
    SGLangConnectionError,
    SGLangError,
    SGLangIncompleteAnswerError,
    SGLangTimeoutError,
)

TRANSPORT_ERRORS = (httpx.TransportError, aiohttp.ClientError, HttpProcessingError, OSError)
"""What sending raises. httpx-aiohttp translates most of aiohttp's errors, not all; the system's pass as they are."""

READ_ERRORS = (*TRANSPORT_ERRORS, httpx.DecodingError)
"""What reading a body raises."""

UNSENDABLE = (ValueError, httpx.InvalidURL)
"""What a request raises that the library refuses to write; to be caught behind the others, some of which are these."""

_QUOTED = 300


def not_answered(error: Exception, url: str) -> SGLangError:
    """Return the error of a request whose answer did not begin, or not as HTTP."""
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    if isinstance(cause, aiohttp.InvalidURL):
        return not_sendable(cause, url)
    if isinstance(cause, HttpProcessingError | aiohttp.ClientResponseError | aiohttp.ClientPayloadError) and not (
        isinstance(cause, aiohttp.ClientHttpProxyError)
    ):
        return SGLangIncompleteAnswerError(f"{url} gave an answer that cannot be read: {_words(cause)}", url=url)
    if isinstance(cause, aiohttp.ServerTimeoutError) or (
        isinstance(error, httpx.TimeoutException) and not isinstance(cause, aiohttp.ClientError)
    ):
        return SGLangTimeoutError(f"{url} did not accept the connection in time: {_words(cause)}", url=url)
    if isinstance(cause, aiohttp.ClientConnectorError | httpx.ConnectError):
        return SGLangConnectionError(
            f"nobody answers at {url}: {_words(cause)}",
            url=url,
            hint="is the server running, and is this its address? "
            "For example: python -m sglang.launch_server --model-path MODEL --port 30000",
        )
    return SGLangConnectionError(f"{url} closed the connection without an answer: {_words(cause)}", url=url)


def not_whole(error: Exception, url: str) -> SGLangIncompleteAnswerError:
    """Return the error of an answer whose body broke off or cannot be decoded."""
    cause = error.__cause__
    if isinstance(error, httpx.DecodingError) or isinstance(cause, ContentEncodingError):
        words = _words(cause if isinstance(cause, ContentEncodingError) else error)
        return SGLangIncompleteAnswerError(f"{url} gave an answer that cannot be read: {words}", url=url)
    return SGLangIncompleteAnswerError(
        f"{url} closed the connection in the middle of its answer: {_words(error)}", url=url
    )


def not_sendable(error: Exception, url: str) -> SGLangConfigError:
    """Return the error of a request that cannot be written as HTTP."""
    return SGLangConfigError(f"no request can be sent to {url}: {_words(error)}")


def _words(error: BaseException) -> str:
    told = getattr(error, "message", None)  # without the status 400 that the library invents, and the URL
    words = " ".join((told if isinstance(told, str) and told else str(error)).split())
    return words[:_QUOTED] or type(error).__name__

"""What an engine is: something that answers SGLang's native HTTP API, with no socket in between.

Owns the request and the response that pass between an engine and whatever carries them (`EngineTransport` in this
process, `EngineServer` on loopback), and the `Engine` protocol.
Invariant: an engine answers what the real server would have answered, status and bytes; a connection that breaks
is a `SGLangConnectionError`, and a caller that goes away is a cancelled `handle` or a closed body.
Never knows httpx, aiohttp or NumPy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One HTTP request, as far as an engine looks at it.

    Attributes:
        method: The HTTP method in capitals.
        path: The path without query, beginning with a slash.
        query: The query parameters; the last one of a name counts.
        headers: The headers, names in lower case.
        body: The body as sent; empty where there is none.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResponse:
    """One HTTP response.

    Attributes:
        status: The HTTP status.
        body: The whole body, or an iterator of its pieces where it is streamed. Closing the iterator early is how a
            client that leaves is noticed. Iterating may raise `SGLangConnectionError`: the connection broke.
        content_type: The media type, or None where the server sends none.
        headers: Further headers.
    """

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Engine(Protocol):
    """Anything that answers SGLang's native HTTP API."""

    async def handle(self, request: EngineRequest) -> EngineResponse:
        """Answer one request.

        Cancelling the call is the client's disconnect: the generation behind it is aborted.

        Raises:
            SGLangConnectionError: The connection breaks without an answer.
        """
        ...

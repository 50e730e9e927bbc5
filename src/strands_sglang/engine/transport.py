"""`EngineTransport`: an engine behind httpx, in this process and without a socket.

Owns the translation between httpx and the engine protocol, both ways.
Invariant: what a client sees is what it would see over HTTP: streamed bodies arrive piece by piece, a broken
connection is httpx's own error, the read timeout counts, and a client that leaves has its request aborted.
Never closes the engine: several transports may share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from strands_sglang.engine.protocol import Engine, EngineRequest, EngineResponse
from strands_sglang.errors import SGLangConnectionError


class EngineTransport(httpx.AsyncBaseTransport):
    """An httpx transport that hands every request to an engine.

    Example:
        `SGLangClient("http://engine", transport=EngineTransport(TinyEngine()))`
    """

    def __init__(self, engine: Engine) -> None:
        """Create the transport.

        Args:
            engine: What answers.
        """
        self.engine = engine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one httpx request."""
        asked = await _engine_request(request)
        try:
            async with asyncio.timeout(_read_timeout(request)):
                answer = await self.engine.handle(asked)
        except TimeoutError:
            raise httpx.ReadTimeout("the engine did not answer within the read timeout", request=request) from None
        except SGLangConnectionError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from error
        return _httpx_response(answer, request)


class _Streamed(httpx.AsyncByteStream):
    """A streamed body whose early close reaches the engine."""

    def __init__(self, pieces: AsyncIterator[bytes], request: httpx.Request) -> None:
        self._pieces = pieces
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        timeout = _read_timeout(self._request)
        try:
            while True:
                async with asyncio.timeout(timeout):
                    piece = await anext(self._pieces)
                yield piece
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise httpx.ReadTimeout("the engine's stream stalled", request=self._request) from None
        except SGLangConnectionError as error:
            raise httpx.RemoteProtocolError(str(error), request=self._request) from error

    async def aclose(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()


async def _engine_request(request: httpx.Request) -> EngineRequest:
    return EngineRequest(
        method=request.method,
        path=request.url.path,
        query=dict(request.url.params),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.aread(),
    )


def _httpx_response(answer: EngineResponse, request: httpx.Request) -> httpx.Response:
    headers = dict(answer.headers)
    if answer.content_type is not None:
        headers["content-type"] = answer.content_type
    if isinstance(answer.body, bytes):
        return httpx.Response(answer.status, headers=headers, content=answer.body, request=request)
    return httpx.Response(answer.status, headers=headers, stream=_Streamed(answer.body, request), request=request)


def _read_timeout(request: httpx.Request) -> float | None:
    timeout: float | None = request.extensions.get("timeout", {}).get("read")
    return timeout

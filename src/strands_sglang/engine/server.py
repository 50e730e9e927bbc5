"""`EngineServer`: an engine on a TCP port of this machine, speaking real HTTP.

Owns the listening socket and the translation between aiohttp and the engine protocol.
Invariant: the bytes are those `EngineTransport` would have given; a client that leaves has its request aborted; a
stop lets running requests finish for a while.
Never listens beyond loopback unless told a host, and has no authentication.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from aiohttp import web

from strands_sglang.engine.answers import bad_value, refusal
from strands_sglang.engine.protocol import Engine, EngineRequest, EngineResponse
from strands_sglang.errors import SGLangConfigError, SGLangConnectionError

KEEP_ALIVE = 5.0
"""Seconds until an idle connection is closed, as with SGLang."""

LARGEST_BODY = 1 << 30


class EngineServer:
    """Serves an engine; an async context manager.

    Example:
        async with serve(TinyEngine(), port=0) as server:
            client = SGLangClient(server.url)
    """

    def __init__(self, engine: Engine, *, host: str = "127.0.0.1", port: int = 30000, grace: float = 10.0) -> None:
        """Prepare the server; nothing listens before `start`.

        Args:
            engine: What answers.
            host: The address to listen on.
            port: The port; 0 picks a free one.
            grace: Seconds that running requests have to finish when the server stops.
        """
        self.engine = engine
        self.host = host
        self.port = port
        self._grace = grace
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            SGLangConfigError: The port cannot be had.
        """
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=self._grace, access_log=None
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port).start()
        except OSError as error:
            await self.stop()
            raise _cannot_listen(self.host, self.port, error) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening, let running requests finish within the grace, and end what is left."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self.engine.handle(await _engine_request(request))
            if isinstance(answer.body, bytes):
                return web.Response(status=answer.status, body=answer.body, headers=_headers(answer))
            return await _stream(request, answer, answer.body)
        except SGLangConnectionError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # never sent: aiohttp drops what it cannot write, without a word
        except SGLangConfigError as error:
            # A script that is played to its end: over HTTP its author can only be told in the answer.
            said = refusal(bad_value(str(error)))
            return web.Response(status=said.status, body=said.body, content_type="application/json")


def serve(engine: Engine, host: str = "127.0.0.1", port: int = 30000) -> EngineServer:
    """Return a server for `engine`; enter it with `async with`. Port 0 picks a free one."""
    return EngineServer(engine, host=host, port=port)


async def _engine_request(request: web.Request) -> EngineRequest:
    return EngineRequest(
        method=request.method,
        path=request.path,
        query=dict(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.read(),
    )


def _headers(answer: EngineResponse) -> dict[str, str]:
    kind = {} if answer.content_type is None else {"Content-Type": answer.content_type}
    return {**answer.headers, **kind}


async def _stream(request: web.Request, answer: EngineResponse, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=_headers(answer))
    try:
        await response.prepare(request)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            # The client may be gone and this task cancelled; the generation must be told all the same.
            await asyncio.shield(close())
    return response


def _cannot_listen(host: str, port: int, error: OSError) -> SGLangConfigError:
    if error.errno == errno.EADDRINUSE:
        return SGLangConfigError(
            f"cannot listen on {host}:{port}: the port is in use", hint="take another port, or port 0 for any free one"
        )
    reason = error.strerror or str(error)
    return SGLangConfigError(f"cannot listen on {host}:{port}: {reason}", hint="take another host or port")

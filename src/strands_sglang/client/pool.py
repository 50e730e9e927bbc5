"""Connections, one pool per event loop; the only module that knows the HTTP library.

A connection belongs to the event loop that opened it. A synchronous `agent()` call runs in a loop of its own each
time, so the pool is kept per loop and closed when its loop shuts down (see `_until_shutdown`), when the client is
closed, or when the client is garbage.

Idle connections are dropped before the server drops them (SGLang closes after 5 s): a request is never written to a
connection that is just being closed. Environment proxies are used as usual, but never for loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import ssl
import threading
import urllib.request
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from strands_sglang.errors import SGLangConnectionError, SGLangIncompleteAnswerError, SGLangTimeoutError

KEEPALIVE_SECONDS = 3.0
"""Less than the 5 s after which an SGLang server closes an idle connection; its own router uses 3 s too."""

T = TypeVar("T")

_BUSY_TRIES = 10
_DNS_CACHE_SECONDS = 30
_IN_ONE_PIECE = 1 << 20
"""Bytes of a body that are handed over at once; a larger one would hold the event loop up, and aiohttp warns."""


class Answer(NamedTuple):
    """A whole HTTP answer: status, headers (names in lower case), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How connections are made.

    Attributes:
        max_connections: Connections of one pool at most; further requests wait for one.
        connect_timeout: Seconds for TCP and TLS to come up.
        verify: True for the system's certificates, False for none, or a context of one's own.
        transport: What to send through instead of real connections; never closed here.
    """

    max_connections: int
    connect_timeout: float | None
    verify: ssl.SSLContext | bool = True
    transport: httpx.AsyncBaseTransport | None = None


class Pool:
    """The connections of one client, for any number of event loops."""

    def __init__(self, options: PoolOptions) -> None:
        """Open nothing yet."""
        self._options = options
        self._timeout = {"connect": options.connect_timeout, "read": None, "write": None, "pool": None}
        self._direct_timeout = aiohttp.ClientTimeout(sock_connect=options.connect_timeout)
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopConnections]
        self._by_loop = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Coroutine[Any, Any, Answer]:
        """Send one request and read its whole answer.

        Raises:
            SGLangConnectionError: No answer, or only a part of one.
            SGLangTimeoutError: The connection did not come up in time.
        """
        through = self._send_directly if self._options.transport is None else self._send_through
        return through(method, url, headers, body)

    async def _send_through(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        response = await self._request(method, url, headers, body)
        try:
            return Answer(response.status_code, response.headers, await read_whole(response, url))
        finally:
            await response.aclose()

    async def _send_directly(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send on the session below the transport.

        This is the path of every generation that is not streamed. The request and response objects of httpx would
        cost it as much time as all the rest that this client does.
        """
        transport, proxy = self._connections(url)
        session = transport.get_client()

        def request() -> Awaitable[aiohttp.ClientResponse]:
            content, own = _content(body, headers)
            return session.request(
                method,
                url,
                data=content,
                headers=own,
                timeout=self._direct_timeout,
                allow_redirects=False,
                proxy=proxy,
            )

        try:
            response = await _unless_busy(request, self._options.connect_timeout)
        except _TRANSPORT_ERRORS as error:
            raise _connection_error(error, url) from error
        try:
            return Answer(response.status, response.headers, await response.read())
        except _TRANSPORT_ERRORS as error:
            raise _incomplete(error, url) from error
        finally:
            response.release()

    @contextlib.asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Send one request; the body of its answer is still to be read."""
        response = await self._request(method, url, headers, body)
        try:
            yield response
        finally:
            await response.aclose()

    async def _request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> httpx.Response:
        def request() -> Awaitable[httpx.Response]:
            content, own = _content(body, headers) if self._options.transport is None else (body, headers)
            asked = httpx.Request(
                method, _parsed(url), headers=own, content=content, extensions={"timeout": self._timeout}
            )
            # Straight to the transport: redirects, cookies and authentication flows of a client are not wanted here.
            return self._transport(url).handle_async_request(asked)

        try:
            return await _unless_busy(request, self._options.connect_timeout)
        except _TRANSPORT_ERRORS as error:
            raise _connection_error(error, url) from error

    async def aclose(self) -> None:
        """Close the connections of every loop."""
        with self._lock:
            connections = list(self._by_loop.items())
            self._by_loop.clear()
        here = asyncio.get_running_loop()
        for loop, opened in connections:
            if loop is here:
                await opened.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(opened.aclose(), loop))

    def _transport(self, url: str) -> httpx.AsyncBaseTransport:
        return self._options.transport or self._connections(url)[0]

    def _connections(self, url: str) -> tuple[AiohttpTransport, str | None]:
        """Return the running loop's transport for a URL, and the proxy that it goes through."""
        loop = asyncio.get_running_loop()
        opened = self._by_loop.get(loop)
        if opened is None:
            with self._lock:
                for dead in [known for known in self._by_loop if known.is_closed()]:
                    del self._by_loop[dead]
                opened = self._by_loop[loop] = _LoopConnections(self._options)
        return opened.of(url)


class _LoopConnections:
    """The connections of one event loop, by the proxy they go through."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._transports: dict[str | None, AiohttpTransport] = {}
        self._by_url: dict[str, tuple[AiohttpTransport, str | None]] = {}
        self._guard = _until_shutdown(self._transports)
        # The first step of the generator registers it with the running loop. It does not suspend.
        with contextlib.suppress(StopIteration):
            self._guard.asend(None).send(None)

    def of(self, url: str) -> tuple[AiohttpTransport, str | None]:
        known = self._by_url.get(url)
        if known is None:
            proxy = environment_proxy(url)
            if proxy not in self._transports:
                self._transports[proxy] = _new_transport(self._options, proxy)
            known = self._by_url[url] = self._transports[proxy], proxy
        return known

    async def aclose(self) -> None:
        await self._guard.aclose()


async def _until_shutdown(transports: dict[str | None, AiohttpTransport]) -> AsyncGenerator[None, None]:
    """Close `transports` when the running loop shuts its asynchronous generators down, as `asyncio.run` does.

    That is the one hook a loop offers before it closes. The generator is also finalised when nobody holds it any
    more, so a client that is dropped without `close()` closes its connections too.
    """
    try:
        yield
    finally:
        for transport in transports.values():
            await transport.aclose()


def _new_transport(options: PoolOptions, proxy: str | None) -> AiohttpTransport:
    connector = aiohttp.TCPConnector(
        limit=options.max_connections,
        keepalive_timeout=KEEPALIVE_SECONDS,
        ttl_dns_cache=_DNS_CACHE_SECONDS,
        ssl=options.verify,
    )
    # A router's cookies would tie every conversation to one worker.
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    # The session brings its own TLS settings; the transport would otherwise read the certificate store for nothing.
    return AiohttpTransport(client=session, verify=False, trust_env=False, proxy=httpx.Proxy(proxy) if proxy else None)


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment asks for, never one for loopback."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


_CONNECT_TIMEOUTS = (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout)


async def _unless_busy(request: Callable[[], Awaitable[T]], connect_timeout: float | None) -> T:
    """Make a request; again, a few times, where this process was too busy to see its connection come up.

    With a thousand episodes in one loop a single round of it can take as long as a connection may: both the news of
    the connection and the end of its time then wait for the same round, and the latter wins.
    """
    was_busy = is_busy = False
    for _ in range(_BUSY_TRIES - 1):
        try:
            return await request()
        except _CONNECT_TIMEOUTS:
            # A try that began in a busy loop says nothing either, though the loop may be quiet by now.
            was_busy, is_busy = is_busy, connect_timeout is not None and await _two_rounds() > connect_timeout / 4
            if not (was_busy or is_busy):
                raise
    return await request()


async def _two_rounds() -> float:
    """Return how many seconds two rounds of the running loop take; a connection needs that many to come up."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return loop.time() - before


# httpx-aiohttp translates most of aiohttp's errors, not all; the operating system's pass as they are.
_TRANSPORT_ERRORS = (httpx.TransportError, aiohttp.ClientError, OSError)


def _content(
    body: bytes | None, headers: Mapping[str, str]
) -> tuple[bytes | AsyncIterator[bytes] | None, Mapping[str, str]]:
    """Return a body as it is handed over, and the headers that then say its length."""
    if body is None or len(body) <= _IN_ONE_PIECE:
        return body, headers
    return _pieces(body), {**headers, "content-length": str(len(body))}


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _IN_ONE_PIECE):
        yield body[start : start + _IN_ONE_PIECE]


_parsed = functools.lru_cache(maxsize=1024)(httpx.URL)


async def read_whole(response: httpx.Response, url: str) -> bytes:
    """Return the body of an answer."""
    try:
        if "content-encoding" not in response.headers and isinstance(response.stream, httpx.AsyncByteStream):
            return b"".join([part async for part in response.stream])
        return await response.aread()
    except _TRANSPORT_ERRORS as error:
        raise _incomplete(error, url) from error


async def read_parts(response: httpx.Response, url: str) -> AsyncIterator[bytes]:
    """Yield the body of an answer as it comes."""
    try:
        async for part in response.aiter_bytes():
            yield part
    except _TRANSPORT_ERRORS as error:
        raise _incomplete(error, url) from error


def _incomplete(error: Exception, url: str) -> SGLangIncompleteAnswerError:
    words = str(error) or type(error).__name__
    return SGLangIncompleteAnswerError(f"{url} closed the connection in the middle of its answer: {words}", url=url)


def _connection_error(error: Exception, url: str) -> SGLangConnectionError:
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    words = str(cause) or type(cause).__name__
    if isinstance(cause, aiohttp.ServerTimeoutError) or (
        isinstance(error, httpx.TimeoutException) and not isinstance(cause, aiohttp.ClientError)
    ):
        return SGLangTimeoutError(f"{url} did not accept the connection in time: {words}", url=url)
    if isinstance(cause, aiohttp.ClientConnectorError | httpx.ConnectError):
        return SGLangConnectionError(
            f"nobody answers at {url}: {words}",
            url=url,
            hint="is the server running, and is this its address? "
            "For example: python -m sglang.launch_server --model-path MODEL --port 30000",
        )
    return SGLangConnectionError(f"{url} closed the connection without an answer: {words}", url=url)

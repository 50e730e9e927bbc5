"""Connections, one pool per event loop; with `breakage` and `pulse` the only module that knows the HTTP library.

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
import logging
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

from strands_sglang.errors import SGLangConfigError, SGLangIncompleteAnswerError

from .breakage import READ_ERRORS, TRANSPORT_ERRORS, UNSENDABLE, not_answered, not_sendable, not_whole
from .pulse import Pulse

logger = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 3.0
"""Less than the 5 s after which an SGLang server closes an idle connection; its own router uses 3 s too."""

T = TypeVar("T")

_CLOSE_SECONDS = 2.0  # how long one loop waits for the connections of others to be closed
_READABLE = frozenset({"", "identity", "gzip", "deflate"})

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
        max_connections: Connections of one pool at most; further requests wait for one. (Those of `/generate` wait
            for a place among `gate.Places` before.)
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
        self._pulses: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pulse] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Coroutine[Any, Any, Answer]:
        """Send one request and read its whole answer.

        Raises:
            SGLangConnectionError: No answer, or only a part of one, or one that is not HTTP.
            SGLangTimeoutError: The connection did not come up in time.
            SGLangConfigError: The request cannot be written as HTTP.
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

        def request() -> Awaitable[aiohttp.ClientResponse]:
            transport, proxy = self._connections(url)
            content, own = _content(body, headers)
            return transport.get_client().request(
                method,
                url,
                data=content,
                headers=own,
                timeout=self._direct_timeout,
                allow_redirects=False,
                proxy=proxy,
            )

        response = await self._asked(request, url)
        try:
            return Answer(response.status, response.headers, await response.read())
        except READ_ERRORS as error:
            raise not_whole(error, url) from error
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
            # What is left of the answer is not wanted any more, nor how it breaks.
            with contextlib.suppress(*TRANSPORT_ERRORS):
                await response.aclose()

    async def _request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> httpx.Response:
        def request() -> Awaitable[httpx.Response]:
            content, own = _content(body, headers) if self._options.transport is None else (body, headers)
            asked = httpx.Request(
                method, _parsed(url), headers=own, content=content, extensions={"timeout": self._timeout}
            )
            # Straight to the transport: redirects, cookies and authentication flows of a client are not wanted here.
            return self._transport(url).handle_async_request(asked)

        return await self._asked(request, url)

    async def _asked(self, request: Callable[[], Awaitable[T]], url: str) -> T:
        """Make a request; again, where it still waited for a connection when they were closed: it was never sent."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            opened = self._opened(loop) if self._options.transport is None else None
            try:
                return await self._watched(request)
            except TRANSPORT_ERRORS as error:
                raise not_answered(error, url) from error
            except UNSENDABLE as error:
                if self._options.transport is not None or isinstance(error, SGLangConfigError):
                    raise  # the transport's own, or told already
                raise not_sendable(error, url) from error
            except asyncio.CancelledError:
                # aiohttp cancels the futures of those that wait; nobody cancelled this task then.
                if self._by_loop.get(loop) is opened or (task is not None and task.cancelling()):
                    raise

    async def aclose(self) -> None:
        """Close the connections of every loop; those of a loop that is blocked close when it goes on."""
        with self._lock:
            connections = list(self._by_loop.items())
            self._by_loop.clear()
        here = asyncio.get_running_loop()
        closing = [_closed_in(loop, opened) for loop, opened in connections if loop is not here and loop.is_running()]
        for loop, opened in connections:
            if loop is here:
                await opened.aclose()
        if closing:
            done, late = await asyncio.wait(closing, timeout=_CLOSE_SECONDS)
            for closed in done:
                closed.result()
            if late:
                logger.warning("loops=<%d> | event loops are blocked; their connections are closed later", len(late))

    def _watched(self, request: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Make a request; a connection that did not come up because this process was busy is no failure."""
        seconds = self._options.connect_timeout
        if seconds is None:
            return request()
        loop = asyncio.get_running_loop()
        pulse = self._pulses.get(loop)
        if pulse is None:
            pulse = self._pulses[loop] = Pulse(seconds)
        return pulse.watch(request)

    def _transport(self, url: str) -> httpx.AsyncBaseTransport:
        return self._options.transport or self._connections(url)[0]

    def _connections(self, url: str) -> tuple[AiohttpTransport, str | None]:
        """Return the running loop's transport for a URL, and the proxy that it goes through."""
        return self._opened(asyncio.get_running_loop()).of(url)

    def _opened(self, loop: asyncio.AbstractEventLoop) -> _LoopConnections:
        opened = self._by_loop.get(loop)
        if opened is None:
            with self._lock:
                for dead in [known for known in self._by_loop if known.is_closed()]:
                    del self._by_loop[dead]
                opened = self._by_loop[loop] = _LoopConnections(self._options)
        return opened


class _LoopConnections:
    """The connections of one event loop, by the proxy they go through."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._transports: dict[str | None, AiohttpTransport] = {}
        self._answers: weakref.WeakSet[aiohttp.ClientResponse] = weakref.WeakSet()
        self._by_url: dict[str, tuple[AiohttpTransport, str | None]] = {}
        self._guard = _until_shutdown(self._transports, self._answers)
        # The first step of the generator registers it with the running loop. It does not suspend.
        with contextlib.suppress(StopIteration):
            self._guard.asend(None).send(None)

    def of(self, url: str) -> tuple[AiohttpTransport, str | None]:
        known = self._by_url.get(url)
        if known is None:
            proxy = environment_proxy(url)
            if proxy not in self._transports:
                self._transports[proxy] = _new_transport(self._options, proxy, self._answers)
            known = self._by_url[url] = self._transports[proxy], proxy
        return known

    async def aclose(self) -> None:
        await self._guard.aclose()


def _closed_in(loop: asyncio.AbstractEventLoop, opened: _LoopConnections) -> asyncio.Future[None]:
    """Have connections closed in the loop that they belong to."""
    closing = opened.aclose()
    try:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
    except RuntimeError:  # the loop was closed just now, and its connections with it
        closing.close()
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def _until_shutdown(
    transports: dict[str | None, AiohttpTransport], answers: weakref.WeakSet[aiohttp.ClientResponse]
) -> AsyncGenerator[None, None]:
    """Close `transports` when the running loop shuts its asynchronous generators down, as `asyncio.run` does.

    That is the one hook a loop offers before it closes. The generator is also finalised when nobody holds it any
    more, so a client that is dropped without `close()` closes its connections too.
    """
    try:
        yield
    finally:
        for answer in answers:
            # aiohttp forgets whoever reads from a connection that it closes, and would let them wait for ever.
            if answer.content is not None and not answer.content.is_eof():
                answer.content.set_exception(aiohttp.ClientConnectionError("the client was closed"))
        for transport in transports.values():
            await transport.aclose()


def _new_transport(
    options: PoolOptions, proxy: str | None, answers: weakref.WeakSet[aiohttp.ClientResponse]
) -> AiohttpTransport:
    class Response(aiohttp.ClientResponse):
        """One that can be found while it is read."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            answers.add(self)
            return await super().start(connection)

    connector = aiohttp.TCPConnector(
        limit=options.max_connections,
        keepalive_timeout=KEEPALIVE_SECONDS,
        ttl_dns_cache=_DNS_CACHE_SECONDS,
        ssl=options.verify,
    )
    # A router's cookies would tie every conversation to one worker.
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), response_class=Response)
    # The session brings its own TLS settings; the transport would otherwise read the certificate store for nothing.
    return AiohttpTransport(client=session, verify=False, trust_env=False, proxy=httpx.Proxy(proxy) if proxy else None)


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment asks for, never one for loopback.

    Raises:
        SGLangConfigError: It is not the address of an HTTP proxy.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    return _checked_proxy(named if "://" in named else f"http://{named}", parts.scheme) if named else None


def _checked_proxy(proxy: str, scheme: str) -> str:
    try:
        parts = urlsplit(proxy)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and httpx.Proxy(proxy)
    except UNSENDABLE:
        fits = False
    if not fits:  # it may hold a password: it is not quoted
        raise SGLangConfigError(
            f"the environment's {scheme}_proxy (or all_proxy) is not the address of an HTTP proxy",
            hint="it must look like http://proxy:3128; no_proxy names hosts that are reached without it",
        )
    return proxy


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


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
    _check_encoding(response, url)
    try:
        if "content-encoding" not in response.headers and isinstance(response.stream, httpx.AsyncByteStream):
            return b"".join([part async for part in response.stream])
        return await response.aread()
    except READ_ERRORS as error:
        raise not_whole(error, url) from error


async def read_parts(response: httpx.Response, url: str) -> AsyncIterator[bytes]:
    """Yield the body of an answer as it comes."""
    _check_encoding(response, url)
    try:
        async for part in response.aiter_bytes():
            yield part
    except READ_ERRORS as error:
        raise not_whole(error, url) from error


def _check_encoding(response: httpx.Response, url: str) -> None:
    """Refuse an encoding that httpx hands through undecoded; none was asked for."""
    named = response.headers.get("content-encoding", "")
    if not {coding.strip().lower() for coding in named.split(",")} <= _READABLE:
        raise SGLangIncompleteAnswerError(
            f"{url} gave an answer that cannot be read: its content-encoding is {named}", url=url
        )

"""The control endpoints: what a server is, how it fares, and what it shall do.

Questions go to the first server that answers; orders go to every server. Endpoint names differ between releases and
are tried from new to old. Health never makes a server generate: such a probe waits behind the generations it is meant
to watch, and blocks while they are paused.

Connections for control are apart from those for generation, so that an abort never waits behind what it is to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Literal

import orjson

from strands_sglang.errors import (
    SGLangClientError,
    SGLangConnectionError,
    SGLangDecodingError,
    SGLangError,
    SGLangNotFoundError,
    SGLangTimeoutError,
)

from .failures import error_from_answer
from .pool import Answer, Pool
from .routers import ServerKind
from .servers import Server, Servers

logger = logging.getLogger(__name__)

_HEALTH_PATHS = ("/ready", "/model_info", "/get_model_info", "/health")
_NO_SUCH_PATH = frozenset({404, 405, 410, 501})
_QUICK_SECONDS = 10.0
_ABORT_SECONDS = 5.0
_ROUTER_HINT = "routers do not forward this: give the engines' own addresses as base_url, as a list"

PauseMode = Literal["abort", "retract", "in_place"]


class Control:
    """The control endpoints of several servers."""

    def __init__(
        self, servers: Servers, pool: Pool, *, headers: Mapping[str, str], admin_headers: Mapping[str, str]
    ) -> None:
        """Keep what is needed to ask; `admin_headers` go with orders."""
        self._servers, self._pool = servers, pool
        self._headers, self._admin_headers = headers, admin_headers

    async def healthy(self, server: Server) -> bool:
        """Whether a server takes requests."""
        for path in _HEALTH_PATHS:
            try:
                answer = await self._get(server, path)
            except SGLangConnectionError:
                return False
            if answer.status not in (401, 403, 404, 405):
                return answer.status == 200
        return False

    async def question(self, *paths: str) -> dict[str, Any]:
        """Return the JSON object of the first path that exists, from the first server that answers."""
        failure: SGLangClientError | None = None
        for server in self._servers.all:
            for path in paths:
                try:
                    return json_object(await self._get(server, path), server.url(path))
                except SGLangNotFoundError as error:
                    failure = failure or error
                except SGLangConnectionError as error:
                    failure = error
                    break
        assert failure is not None
        raise failure

    async def question_each(self, path: str) -> list[dict[str, Any]]:
        """Return the JSON object of every server, in order."""
        answers = await asyncio.gather(*(self._get(server, path) for server in self._servers.all))
        return [json_object(a, s.url(path)) for s, a in zip(self._servers.all, answers, strict=True)]

    async def order(
        self, path: str, body: Mapping[str, Any] | None, *, timeout: float | None, method: str = "POST"
    ) -> list[Answer]:
        """Send an order to every server; raise the first failure once all have answered."""
        outcomes = await asyncio.gather(
            *(self._order(server, path, body, timeout, method) for server in self._servers.all), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def kind(self, server: Server) -> ServerKind:
        """Find out what a server is; remembered once it is known.

        `/workers` exists on routers only, and costs an engine nothing. Whoever is too busy to answer, or wants another
        key, has not told what it is.
        """
        if server.kind is ServerKind.UNKNOWN:
            try:
                workers = await self._get(server, "/workers")
                if workers.status in _NO_SUCH_PATH:
                    server.kind = ServerKind.ENGINE
                elif workers.status == 200:
                    # Only the newer one names its own errors.
                    missing = await self._get(server, "/model_info")
                    if "x-smg-error-code" in missing.headers or b"unknown_url" in missing.body:
                        server.kind = ServerKind.SMG
                    elif missing.status == 200 or missing.status in _NO_SUCH_PATH:
                        server.kind = ServerKind.SGLANG_ROUTER
            except SGLangConnectionError as error:
                logger.debug("url=<%s> | what it is cannot be asked: %s", server.base_url, error)
        return server.kind

    async def abort(self, server: Server, rid: str) -> None:
        """End a request on a server, best effort: it never raises."""
        try:
            await self._order(server, "/abort_request", {"rid": rid}, _ABORT_SECONDS, "POST")
        except SGLangNotFoundError:
            await self._abort_behind_router(server, rid)
        except SGLangError as error:
            logger.debug("rid=<%s>, url=<%s> | abort was not taken: %s", rid, server.base_url, error)

    async def _abort_behind_router(self, server: Server, rid: str) -> None:
        try:
            workers = worker_urls(_json(await self._get(server, "/workers"), server.url("/workers")))
        except SGLangError as error:
            logger.debug("rid=<%s>, url=<%s> | no way to abort here: %s", rid, server.base_url, error)
            return
        await asyncio.gather(*(self._abort_at(url, rid) for url in workers), return_exceptions=True)

    async def _abort_at(self, url: str, rid: str) -> None:
        await self._order(Server(url), "/abort_request", {"rid": rid}, _ABORT_SECONDS, "POST")

    async def _get(self, server: Server, path: str) -> Answer:
        return await self._send(server, "GET", path, self._headers, None, _QUICK_SECONDS)

    async def _order(
        self, server: Server, path: str, body: Mapping[str, Any] | None, timeout: float | None, method: str
    ) -> Answer:
        encoded = None if body is None else orjson.dumps(body)
        answer = await self._send(server, method, path, self._admin_headers, encoded, timeout)
        if answer.status >= 300:
            error = error_from_answer(answer.status, answer.headers, answer.body, url=server.url(path))
            if isinstance(error, SGLangNotFoundError):
                error.add_note(f"hint: {_ROUTER_HINT}")
            raise error
        return answer

    async def _send(
        self,
        server: Server,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Answer:
        url = server.url(path)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._pool.send(method, url, headers=headers, body=body)
        except SGLangConnectionError:
            raise
        except TimeoutError:
            raise SGLangTimeoutError(f"{url} gave no answer within {timeout} s", url=url) from None
        server.contacted = True
        return answer


def worker_urls(listed: Any) -> list[str]:
    """Return the addresses in a router's list of workers."""
    workers = listed.get("workers", []) if isinstance(listed, dict) else listed
    if not isinstance(workers, list):
        return []
    found = (worker.get("url") if isinstance(worker, dict) else worker for worker in workers)
    return [url for url in found if isinstance(url, str) and url.startswith(("http://", "https://"))]


def _json(answer: Answer, url: str) -> Any:
    if answer.status != 200:
        raise error_from_answer(answer.status, answer.headers, answer.body, url=url)
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise SGLangDecodingError(
            f"{url} answered 200 with something that is not JSON",
            body=answer.body[:500].decode("utf-8", "replace"),
            url=url,
            hint="is this an SGLang server, and the URL its root?",
        ) from error


def json_object(answer: Answer, url: str) -> dict[str, Any]:
    """Return the JSON object of an answer.

    Raises:
        SGLangHTTPError: It is an error.
        SGLangDecodingError: It is something else.
    """
    decoded = _json(answer, url)
    if not isinstance(decoded, dict):
        raise SGLangDecodingError(f"{url} answered JSON that is not an object", body=repr(decoded)[:500], url=url)
    return decoded

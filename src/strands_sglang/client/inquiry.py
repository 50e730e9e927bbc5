"""The warning that a router drops what a request asks for.

A dropped constraint changes what is sampled, without an error. What stands behind an address is therefore asked before
the first request that uses such a field; a router that gives no answer is not waited for again and again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from strands_sglang.wire import GenerateRequest

from .routers import ServerKind, dropped_fields
from .servers import Server, Servers

logger = logging.getLogger(__name__)

# When to ask one again that has not told: the longer it took, the later.
_SOONEST_SECONDS = 1.0
_TIMES_AS_LONG = 30.0


class Inquiry:
    """What the requests of one client use that a router may drop."""

    def __init__(self, servers: Servers, ask: Callable[[Server], Awaitable[ServerKind]]) -> None:
        """Ask nothing yet; `ask` finds out what a server is."""
        self._servers, self._ask = servers, ask
        self._used: dict[ServerKind, set[str]] = {ServerKind.SGLANG_ROUTER: set(), ServerKind.SMG: set()}
        self._not_before: dict[Server, float] = {}
        self._warned: set[tuple[str, str]] = set()

    async def look(self, request: GenerateRequest) -> None:
        """Warn, once, of each field of a request that does not reach an engine, as far as that can be found out.

        Of several calls at once the first one asks, and the others do not wait for it.
        """
        for kind, names in self._used.items():
            names |= dropped_fields(kind, request)
        now = self._servers.clock()
        unknown = [s for s in self._servers.all if s.kind is ServerKind.UNKNOWN and now >= self._not_before.get(s, now)]
        self._not_before |= dict.fromkeys(unknown, math.inf)  # while this one asks
        try:
            if unknown:
                await asyncio.gather(*map(self._ask, unknown))
        finally:
            took = self._servers.clock() - now
            self._not_before |= dict.fromkeys(unknown, now + max(_SOONEST_SECONDS, took * _TIMES_AS_LONG))
            self._warn()

    def _warn(self) -> None:
        for server in self._servers.all:
            for name in sorted(self._used.get(server.kind, ())):
                if (server.base_url, name) not in self._warned:
                    self._warned.add((server.base_url, name))
                    logger.warning(
                        "url=<%s>, field=<%s> | %s drops this field: the engine never sees it",
                        server.base_url,
                        name,
                        server.kind,
                    )

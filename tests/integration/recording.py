"""What went over the wire, seen from below the client: the witness against which a record is checked.

Every generation is sent on with `return_prompt_token_ids`, so that the reply says which ids the server read. Nothing
else is changed. Only exchanges that were answered are kept, in the order of their answers.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_aiohttp import AiohttpTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One answered POST to /generate.

    Attributes:
        sent: The body as the library wrote it.
        status: The HTTP status.
        reply: The body of the answer.
    """

    sent: dict[str, Any]
    status: int
    reply: dict[str, Any]

    @property
    def input_ids(self) -> list[int]:
        """The ids that the library sent."""
        return list(self.sent["input_ids"])

    @property
    def read_ids(self) -> list[int]:
        """The ids that the server says it read."""
        return list(self.reply["prompt_token_ids"])

    @property
    def output_ids(self) -> list[int]:
        """The ids that the server sampled."""
        return list(self.reply["output_ids"])

    @property
    def output_logprobs(self) -> list[float]:
        """The log-probability of each sampled id."""
        return [value for value, _, _ in self.reply["meta_info"]["output_token_logprobs"]]

    @property
    def finish_reason(self) -> dict[str, Any]:
        """Why the generation ended, in the server's words."""
        return dict(self.reply["meta_info"]["finish_reason"])


class RecordingTransport(httpx.AsyncBaseTransport):
    """The library's own transport, with a record of its generations.

    Attributes:
        exchanges: The answered generations.
    """

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._inner = AiohttpTransport()
        self._waiting: list[asyncio.Future[str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/generate":
            return await self._inner.handle_async_request(request)
        sent = json.loads(await request.aread())
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        content = json.dumps({**sent, "return_prompt_token_ids": True}).encode()
        for future in self._waiting:
            future.set_result(sent["rid"])
        self._waiting.clear()
        response = await self._inner.handle_async_request(
            httpx.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
        )
        content = await response.aread()
        self.exchanges.append(Exchange(sent=sent, status=response.status_code, reply=json.loads(content)))
        return httpx.Response(response.status_code, headers=response.headers, content=content)

    def next_rid(self) -> asyncio.Future[str]:
        """Return the request id of the next generation to be sent, once it is being sent."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    async def aclose(self) -> None:
        await self._inner.aclose()

"""One call of `/generate`: its attempts, its retries, its resumptions.

A call ends with one validated reply that is no abort, or with one typed error; never with both, and never before its
deadline without a reason. Each attempt has an id of its own. Whoever cancels the task ends the generation on the
server as well.

What was sampled before an abort stays: the next attempt carries it on. Nothing is sampled twice for one reply.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangClientError,
    SGLangConnectionError,
    SGLangContextLengthError,
    SGLangDecodingError,
    SGLangHTTPError,
    SGLangTimeoutError,
)
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import (
    FinishType,
    GenerateReply,
    GenerateRequest,
    ended_by_budget,
    join_replies,
    resume_request,
)

from .failures import error_from_answer, raise_abort_with_status
from .gate import Gate
from .pool import Answer, Pool, read_parts, read_whole
from .servers import Server, Servers, conversation_key, new_rid
from .streams import EventReader, StreamAssembly, StreamDelta

logger = logging.getLogger(__name__)

ROUTING_HEADER = "x-smg-routing-key"
_ABORT_SECONDS = 1.0  # how long a cancelled task waits for its abort to be taken
_QUEUED_ABORT_DELAY = 0.05  # doubled for each abort in a row that brought no token
_QUEUED_ABORT_MAX_DELAY = 5.0
_EVENTS = "text/event-stream"
_LEFT_RUNNING = frozenset({408, 502, 504})  # a gateway gave up; the engine behind it may not have


OnDelta = Callable[[StreamDelta], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """What holds for every call of one client.

    Attributes:
        timeout: Seconds for a call with all its attempts, or None.
        retry: When to send again.
        on_abort: Carry an aborted generation on, or raise it.
        max_resumptions: How many times one generation is carried on at most.
        headers: Headers of every `/generate` request.
    """

    timeout: float | None
    retry: RetryPolicy
    on_abort: Literal["resume", "raise"]
    max_resumptions: int
    headers: Mapping[str, str]


@dataclass(slots=True)
class Calls:
    """All calls of one client.

    Attributes:
        in_flight: The attempts on their way, by request id.
        abort: Ends a request on a server; must not raise.
    """

    pool: Pool
    servers: Servers
    gate: Gate
    options: CallOptions
    abort: Callable[[Server, str], Coroutine[Any, Any, None]]
    in_flight: dict[str, _Call] = field(default_factory=dict)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, request: GenerateRequest, on_delta: OnDelta | None) -> Coroutine[Any, Any, GenerateReply]:
        """Send a request until it is answered; see `SGLangClient.send`."""
        return _Call(self, request, on_delta).run()

    def matching(self, rid: str | None, conversation_id: str | None) -> list[tuple[Server, str]]:
        """Mark the attempts that a caller wants ended, and return where they run; all of them without a filter."""
        key = None if conversation_id is None else conversation_key(conversation_id)
        found = []
        for own, call in list(self.in_flight.items()):
            if rid not in (None, own) or key not in (None, call.key) or call.server is None:
                continue
            call.aborted_by_caller = True
            found.append((call.server, own))
        return found

    def abort_later(self, server: Server, rid: str) -> asyncio.Task[None]:
        """End a request on its server without waiting for it."""
        task = asyncio.get_running_loop().create_task(self.abort(server, rid))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class _Call:
    """The state of one call."""

    __slots__ = (
        "aborted_by_caller",
        "calls",
        "deadline",
        "failures",
        "fruitless_aborts",
        "headers",
        "is_final",
        "key",
        "on_delta",
        "options",
        "partial",
        "request",
        "resumptions",
        "server",
        "started",
    )

    def __init__(self, calls: Calls, request: GenerateRequest, on_delta: OnDelta | None) -> None:
        self.calls, self.options, self.on_delta = calls, calls.options, on_delta
        # Encoded once, however many attempts there will be.
        self.request = request.encoded()
        self.key = conversation_key(request.conversation_id)
        self.headers = self.options.headers
        if request.conversation_id is not None:
            self.headers = {**self.headers, ROUTING_HEADER: self.key}
        self.started = time.monotonic()
        timeout = calls.options.timeout
        self.deadline = None if timeout is None else self.started + timeout
        self.partial: GenerateReply | None = None
        self.failures: list[SGLangClientError] = []
        self.resumptions = 0
        self.fruitless_aborts = 0
        self.aborted_by_caller = False
        self.is_final = False  # no further attempt, whatever the policy says
        self.server: Server | None = None

    async def run(self) -> GenerateReply:
        while True:
            await self.pass_gate()
            request = self.request if self.partial is None else resume_request(self.request, self.partial)
            if request is None:
                return self.end_of_budget()
            try:
                reply = await self.attempt(request)
            except SGLangAbortedError as error:
                await self.aborted(None, error)
            except SGLangClientError as error:
                if isinstance(error, SGLangContextLengthError) and self.partial is not None and self.partial.output_ids:
                    return self.end_of_budget()  # the prompt did fit: what was sampled has used the context up
                await self.failed(error)
            else:
                if reply.finish_reason.type is not FinishType.ABORT:
                    return self.done(self.joined(reply))
                await self.aborted(reply, None)

    async def pass_gate(self) -> None:
        """Wait while requests are held; that time does not count."""
        if self.calls.gate.is_closed:
            since = time.monotonic()
            await self.calls.gate.wait()
            if self.deadline is not None:
                self.deadline += time.monotonic() - since

    async def attempt(self, request: GenerateRequest) -> GenerateReply:
        server = self.server = self.calls.servers.choose(self.key)
        rid = new_rid(self.key)
        body = request.body(rid=rid, stream=self.on_delta is not None)
        self.calls.in_flight[rid] = self
        try:
            async with asyncio.timeout(self.remaining()):
                return await self.exchange(server, request, rid, body)
        except SGLangConnectionError as error:
            self.no_answer(server, rid, error)
            raise
        except SGLangClientError as error:
            if getattr(error, "status", None) in _LEFT_RUNNING:
                self.calls.abort_later(server, rid)
            raise
        except TimeoutError:
            self.calls.abort_later(server, rid)
            raise self.out_of_time(server, rid) from None
        except BaseException:
            # Cancelled, or the receiver of the deltas failed: nobody wants the rest.
            await asyncio.wait({self.calls.abort_later(server, rid)}, timeout=_ABORT_SECONDS)
            raise
        finally:
            del self.calls.in_flight[rid]

    async def exchange(self, server: Server, request: GenerateRequest, rid: str, body: bytes) -> GenerateReply:
        """Send one attempt and read its answer."""
        url = server.url("/generate")
        if self.on_delta is None:
            answer = await self.calls.pool.send("POST", url, headers=self.headers, body=body)
            server.answered()
            return read_answer(answer, request, rid=rid, url=url)
        async with self.calls.pool.open("POST", url, headers=self.headers, body=body) as response:
            server.answered()
            if response.status_code != 200 or not _are_events(response.headers):
                answer = Answer(response.status_code, response.headers, await read_whole(response, url))
                return read_answer(answer, request, rid=rid, url=url)
            return await self.follow(StreamAssembly(request, rid=rid, url=url), read_parts(response, url))

    async def follow(self, assembly: StreamAssembly, parts: AsyncIterator[bytes]) -> GenerateReply:
        """Read a stream to its end; what a broken one brought is kept, since its receiver has seen it.

        A stream that broke after the generation had ended cannot be carried on, nor begun again under the eyes of its
        receiver.
        """
        events = EventReader()
        try:
            async for part in parts:
                for payload in events.feed(part):
                    delta = assembly.feed(payload)
                    if delta is not None and self.on_delta is not None:
                        self.on_delta(delta)
            return assembly.reply()
        except SGLangAbortedError as error:
            partial = assembly.partial(str(error))
            if partial is None:
                raise
            if assembly.was_finished:
                raise assembly.error("it tells of an abort after the end of the generation") from error
            return partial
        except (SGLangConnectionError, SGLangHTTPError):
            partial = assembly.partial()
            if partial is not None:
                self.partial = self.joined(partial)
                self.is_final = assembly.was_finished or self.request.is_constrained
            raise

    def no_answer(self, server: Server, rid: str, error: SGLangConnectionError) -> None:
        error.rid = rid
        if server.gave_no_answer(self.calls.servers.clock()):
            logger.warning("url=<%s> | server gives no answer: %s", server.base_url, error)
        if error.hint is None:  # it was connected: the request may have arrived
            self.calls.abort_later(server, rid)

    async def failed(self, error: SGLangClientError) -> None:
        """Wait for the next attempt, or raise."""
        self.failures.append(error)
        server = self.server
        delay = self.options.retry.next_delay(
            self.failures,
            contacted=server is None or server.contacted,
            remaining=self.remaining(),
            chance=random.random(),
        )
        if delay is None or self.is_final:
            raise self.final(error)
        if isinstance(error, SGLangConnectionError) and self.calls.servers.another_than(server):
            delay = 0.0
        logger.debug("rid=<%s>, attempt=<%d>, delay=<%.2f> | retrying: %s", error.rid, len(self.failures), delay, error)
        await asyncio.sleep(delay)

    async def aborted(self, reply: GenerateReply | None, error: SGLangAbortedError | None) -> None:
        """Keep what was sampled and get ready to carry on, or raise."""
        fruitful = reply is not None and bool(reply.output_ids)
        if reply is not None:
            self.partial = self.joined(reply)
        if self.options.on_abort == "raise" or self.aborted_by_caller:
            raise self.abort_error(reply, error, "")
        if self.resumptions >= self.options.max_resumptions:
            raise self.abort_error(reply, error, f" after it was carried on {self.resumptions} times")
        if self.request.is_constrained and self.partial is not None and self.partial.output_ids:
            # The server would begin the grammar anew behind what was sampled of it.
            if self.on_delta is not None:
                raise self.abort_error(reply, error, " within a grammar, which cannot be carried on,")
            self.partial = None
        self.resumptions += 1
        self.fruitless_aborts = 0 if fruitful else self.fruitless_aborts + 1
        if self.fruitless_aborts:
            delay = min(_QUEUED_ABORT_DELAY * 2.0 ** (self.fruitless_aborts - 1), _QUEUED_ABORT_MAX_DELAY)
            await asyncio.sleep(delay * (1 + random.random()) / 2)

    def abort_error(
        self, reply: GenerateReply | None, error: SGLangAbortedError | None, when: str
    ) -> SGLangAbortedError:
        partial = None if self.partial is None else self.done(self.partial)
        said = reply.finish_reason.message if reply is not None else str(error)
        count = len(partial.output_ids) if partial is not None else 0
        return SGLangAbortedError(
            f"the generation was aborted{when} with {count} tokens sampled: {said}",
            reply=partial,
            url=reply.url if reply is not None else getattr(error, "url", None),
            rid=reply.rid if reply is not None else getattr(error, "rid", None),
            attempts=len(self.failures) + self.resumptions + 1,
        )

    def joined(self, reply: GenerateReply) -> GenerateReply:
        return reply if self.partial is None else join_replies(self.request, self.partial, reply)

    def end_of_budget(self) -> GenerateReply:
        """The abort came when the last token of the budget or the context was sampled: nothing is missing."""
        assert self.partial is not None
        return self.done(ended_by_budget(self.partial))

    def done(self, reply: GenerateReply) -> GenerateReply:
        if self.failures:
            logger.warning(
                "rid=<%s>, retries=<%d>, seconds=<%.1f> | request was answered after retries; the last failure: %s",
                reply.rid,
                len(self.failures),
                self.elapsed(),
                self.failures[-1],
            )
        return replace(reply, retries=len(self.failures), resumptions=self.resumptions, latency=self.elapsed())

    def final(self, error: SGLangClientError) -> SGLangClientError:
        """The error of the last attempt, told as the end of the whole call."""
        error.attempts = len(self.failures)
        if error.attempts > 1:
            error.add_note(f"this was attempt {error.attempts}, {self.elapsed():.1f} s after the first")
        return error

    def out_of_time(self, server: Server, rid: str) -> SGLangTimeoutError:
        last = f"; the last failure before: {self.failures[-1]}" if self.failures else ""
        return SGLangTimeoutError(
            f"{server.url('/generate')} gave no answer within the deadline of {self.options.timeout} s{last}",
            url=server.url("/generate"),
            rid=rid,
            attempts=len(self.failures) + 1,
            hint="raise timeout= of SGLangClient, or lower max_new_tokens or the number of concurrent requests",
        )

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def remaining(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def _are_events(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").strip().lower().startswith(_EVENTS)


def read_answer(answer: Answer, request: GenerateRequest, *, rid: str, url: str) -> GenerateReply:
    """Return the reply of an answer, or raise the error that it is."""
    if answer.status != 200:
        raise error_from_answer(answer.status, answer.headers, answer.body, url=url, rid=rid)
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        kind = answer.headers.get("content-type", "no content type")
        raise SGLangDecodingError(
            f"{url} answered 200 with {len(answer.body)} bytes of {kind} that are not JSON: {error}",
            body=answer.body[:500].decode("utf-8", "replace"),
            url=url,
            rid=rid,
            hint="is this an SGLang server, and the URL its root?",
        ) from error
    raise_abort_with_status(body, url=url, rid=rid)
    return GenerateReply.from_body(body, request, rid=rid, url=url)

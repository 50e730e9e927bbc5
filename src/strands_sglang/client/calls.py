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
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangClientError,
    SGLangConnectionError,
    SGLangContextLengthError,
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

from . import endings
from .answers import read_answer
from .gate import Gate, Places
from .inquiry import Inquiry
from .patience import Patience
from .pool import Answer, Pool, read_parts, read_whole
from .pulse import BusyProcessError, never_connected
from .receiver import OnDelta, ReceiverError, told_apart
from .routers import may_be_dropped
from .servers import Route, Server, Servers, conversation_key, new_rid
from .streams import EventReader, StreamAssembly

logger = logging.getLogger(__name__)

ROUTING_HEADER = "x-smg-routing-key"
_ABORT_SECONDS = 1.0  # how long a call that ends waits for its aborts to be taken: its loop may end with it
_ABORT_AGAIN_SECONDS = (1.0, 4.0, 16.0)
_INQUIRY_SECONDS = 2.0
_QUEUED_ABORT_DELAY = 0.05  # doubled for each abort in a row that brought no token
_QUEUED_ABORT_MAX_DELAY = 5.0
_EVENTS = "text/event-stream"
_LEFT_RUNNING = frozenset({408, 502, 504})  # a gateway gave up; the engine behind it may not have


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
        known: The calls from their begin to their end, whatever they wait for.
        in_flight: The attempts on their way, by request id.
        abort: Ends a request on a server; must not raise.
    """

    pool: Pool
    servers: Servers
    gate: Gate
    options: CallOptions
    places: Places
    inquiry: Inquiry
    abort: Callable[[Server, str], Coroutine[Any, Any, None]]
    known: set[_Call] = field(default_factory=set)
    in_flight: dict[str, _Call] = field(default_factory=dict)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, request: GenerateRequest, on_delta: OnDelta | None) -> Coroutine[Any, Any, GenerateReply]:
        """Send a request until it is answered; see `SGLangClient.send`."""
        return _Call(self, request, on_delta).run()

    def matching(self, rid: str | None, conversation_id: str | None) -> list[tuple[Server, str]]:
        """End the calls that a caller wants ended; return what of them a server has to end. Without a filter, all.

        A call that waits for something sends no more; one that is on its way ends by the server's answer.
        """
        key = None if conversation_id is None else conversation_key(conversation_id)
        found = []
        for call in list(self.known):
            if rid not in (None, call.rid) or key not in (None, call.route.key):
                continue
            call.patience.abort()
            if self.in_flight.get(call.rid) is call:
                found.append((call.route.server, call.rid))
        return found

    async def end(self, server: Server, rid: str) -> None:
        """End an attempt on its server, for good: an abort that overtakes its own request is not known there."""
        await self.abort(server, rid)
        if rid in self.in_flight:
            self._in_background(self._insist(server, rid))

    async def _insist(self, server: Server, rid: str) -> None:
        for seconds in _ABORT_AGAIN_SECONDS:
            await asyncio.sleep(seconds)
            if rid not in self.in_flight:
                return
            await self.abort(server, rid)

    def abort_later(self, server: Server, rid: str) -> asyncio.Task[None]:
        """End a request on its server without waiting for it."""
        return self._in_background(self.abort(server, rid))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class _Call:
    """The state of one call."""

    __slots__ = (
        "attempts",
        "calls",
        "failures",
        "farewells",
        "fruitless_aborts",
        "headers",
        "is_final",
        "on_delta",
        "options",
        "partial",
        "patience",
        "request",
        "resumptions",
        "rid",
        "route",
    )

    def __init__(self, calls: Calls, request: GenerateRequest, on_delta: OnDelta | None) -> None:
        self.calls, self.options = calls, calls.options
        self.on_delta = None if on_delta is None else told_apart(on_delta)
        # Encoded once, however many attempts there will be.
        self.request = request.encoded()
        self.route = Route(calls.servers, conversation_key(request.conversation_id))
        self.headers = self.options.headers
        if request.conversation_id is not None:
            self.headers = {**self.headers, ROUTING_HEADER: self.route.key}
        self.patience = Patience(calls.options.timeout)
        self.partial: GenerateReply | None = None
        self.failures: list[SGLangClientError] = []
        self.attempts = self.resumptions = 0
        self.fruitless_aborts = 0
        self.is_final = False  # no further attempt, whatever the policy says
        self.rid = ""  # of the last attempt
        self.farewells: list[asyncio.Task[None]] = []  # the aborts of its attempts

    async def run(self) -> GenerateReply:
        self.calls.known.add(self)
        try:
            return await self.answered()
        except ReceiverError as failed:
            error = failed.error
        finally:
            self.calls.known.discard(self)
            farewells = [abort for abort in self.farewells if not abort.done()]
            if farewells:
                await asyncio.wait(farewells, timeout=_ABORT_SECONDS)
        raise error

    async def answered(self) -> GenerateReply:
        """Make one attempt after the other until there is a whole reply."""
        await self.look_at_routers()
        while True:
            request = self.request if self.partial is None else resume_request(self.request, self.partial)
            if request is None:
                return self.end_of_budget()
            places = self.calls.places.here()
            if not await self.patience.leave(self.calls.gate, places):
                raise self.unsent()
            try:
                reply = await self.attempt(request, places)
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

    async def look_at_routers(self) -> None:
        """Have it warned of that a router drops what is asked for; no call waits long for that."""
        if may_be_dropped(self.request):
            remaining = self.patience.remaining()
            seconds = _INQUIRY_SECONDS if remaining is None else min(_INQUIRY_SECONDS, remaining / 4)
            await self.patience.wait(self.calls.inquiry.look(self.request), seconds)

    async def attempt(self, request: GenerateRequest, places: asyncio.Semaphore) -> GenerateReply:
        """Make one attempt and give its place back."""
        try:
            self.rid = new_rid(self.route.key)
            body = request.body(rid=self.rid, stream=self.on_delta is not None)
            return await self.sent(self.route.choose(), request, self.rid, body)
        finally:
            places.release()

    async def sent(self, server: Server, request: GenerateRequest, rid: str, body: bytes) -> GenerateReply:
        deadline = asyncio.timeout(self.patience.remaining())
        self.attempts += 1
        self.calls.in_flight[rid] = self
        try:
            async with deadline:
                return await self.exchange(server, request, rid, body)
        except SGLangConnectionError as error:
            self.no_answer(server, rid, error)
            raise
        except SGLangClientError as error:
            if getattr(error, "status", None) in _LEFT_RUNNING:
                self.say_farewell(server, rid)
            raise
        except BaseException as error:
            # Out of time, or cancelled, or the receiver of the deltas failed: nobody wants the rest.
            self.say_farewell(server, rid)
            if isinstance(error, TimeoutError) and deadline.expired():
                raise self.out_of_time("{} gave no answer", server, rid) from None
            raise
        finally:
            del self.calls.in_flight[rid]

    def say_farewell(self, server: Server, rid: str) -> None:
        self.farewells.append(self.calls.abort_later(server, rid))

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
        if isinstance(error.__cause__, BusyProcessError):
            return  # that says nothing about the server
        self.route.was_left_unanswered()
        if server.gave_no_answer(self.calls.servers.clock()):
            logger.warning("url=<%s> | server gives no answer: %s", server.base_url, error)
        if error.hint is None and not never_connected(error.__cause__):  # the request may have arrived
            self.say_farewell(server, rid)

    async def failed(self, error: SGLangClientError) -> None:
        """Wait for the next attempt, or raise."""
        self.failures.append(error)
        if self.patience.is_aborted and error.retryable:
            raise self.abort_error(error, "") from error
        remaining = self.patience.remaining()
        moves_on = isinstance(error, SGLangConnectionError) and remaining != 0 and self.route.moves_on()
        delay = self.options.retry.next_delay(
            self.failures,
            first_contacts=self.route.first_contacts(),
            remaining=None if moves_on else remaining,
            chance=random.random(),
        )
        if delay is None or self.is_final:
            raise self.final(error)
        if moves_on:
            delay = 0.0
        logger.debug("rid=<%s>, attempt=<%d>, delay=<%.2f> | retrying: %s", error.rid, len(self.failures), delay, error)
        await self.patience.wait(asyncio.sleep(delay), None)

    async def aborted(self, reply: GenerateReply | None, error: SGLangAbortedError | None) -> None:
        """Keep what was sampled and get ready to carry on, or raise."""
        fruitful = reply is not None and bool(reply.output_ids)
        if reply is not None:
            self.partial = self.joined(reply)
        if self.options.on_abort == "raise" or self.patience.is_aborted:
            raise self.abort_error(reply or error, "")
        if self.resumptions >= self.options.max_resumptions:
            raise self.abort_error(reply or error, f" after it was carried on {self.resumptions} times")
        if self.request.is_constrained and self.partial is not None and self.partial.output_ids:
            # The server would begin the grammar anew behind what was sampled of it.
            if self.on_delta is not None:
                raise self.abort_error(reply or error, " within a grammar, which cannot be carried on,")
            self.partial = None
        self.resumptions += 1
        self.fruitless_aborts = 0 if fruitful else self.fruitless_aborts + 1
        if self.fruitless_aborts:
            delay = min(_QUEUED_ABORT_DELAY * 2.0 ** (self.fruitless_aborts - 1), _QUEUED_ABORT_MAX_DELAY)
            delay *= (1 + random.random()) / 2
            remaining = self.patience.remaining()
            if remaining is not None and delay >= remaining:
                raise self.abort_error(reply or error, f" up to the deadline of {self.options.timeout} s")
            await self.patience.wait(asyncio.sleep(delay), None)

    def abort_error(self, cause: GenerateReply | SGLangClientError | None, when: str) -> SGLangAbortedError:
        partial = None if self.partial is None else self.done(self.partial)
        return endings.aborted(cause, partial, when, self.attempts)

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
                self.patience.elapsed(),
                self.failures[-1],
            )
        return replace(reply, retries=len(self.failures), resumptions=self.resumptions, latency=self.patience.elapsed())

    def final(self, error: SGLangClientError) -> SGLangClientError:
        """The error of the last attempt, told as the end of the whole call."""
        error.attempts = len(self.failures)
        if error.attempts > 1:
            error.add_note(f"this was attempt {error.attempts}, {self.patience.elapsed():.1f} s after the first")
        return error

    def unsent(self) -> SGLangClientError:
        """The error of a call that ends while none of its requests is on its way."""
        if self.patience.is_aborted:
            return self.abort_error(None, "")
        return self.out_of_time("no request could leave for {}", self.route.choose(), None)

    def out_of_time(self, what: str, server: Server, rid: str | None) -> SGLangTimeoutError:
        url = server.url("/generate")
        seconds, attempts = self.options.timeout, self.attempts
        return endings.out_of_time(what.format(url), seconds, self.failures, url=url, rid=rid, attempts=attempts)


def _are_events(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").strip().lower().startswith(_EVENTS)

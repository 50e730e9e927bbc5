"""`SGLangClient`: what the library and its users call.

One client is shared by thousands of episodes for days. It holds the connections, the servers and the pause gate, and
gives each request to `calls`, each question and order to `control`. A failed or cancelled call leaves nothing behind.

It never changes a request's meaning and never returns a reply that was not validated.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from strands_sglang.errors import (
    SGLangClientError,
    SGLangConfigError,
    SGLangConnectionError,
    SGLangDecodingError,
)
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import GenerateReply, GenerateRequest

from .calls import CallOptions, Calls
from .control import Control, PauseMode, json_object
from .gate import Gate, Places
from .headers import check_credentials, request_headers
from .inquiry import Inquiry
from .pool import Pool, PoolOptions, environment_proxy
from .receiver import OnDelta
from .routers import ServerKind
from .servers import Servers
from .streams import StreamDelta

logger = logging.getLogger(__name__)

DEFAULT_MAX_CONNECTIONS = 1000
_CONTROL_CONNECTIONS = 32
_CONTROL_SECONDS = 600.0
_LIMIT_QUESTIONS = 3


class SGLangClient:
    """Client of one SGLang server, router, or list of servers.

    Example:
        async with SGLangClient("http://localhost:30000") as client:
            reply = await client.generate([1, 2, 3], sampling_params={"max_new_tokens": 16})
            print(reply["output_ids"])

    Attributes:
        base_url: The first address.
        base_urls: Every address.
        max_retries: Retries of one call at most.
        retry_delay: Seconds before the first retry.
        vocab_size: Ids from here on are refused before they are sent (they kill a server); None for no check.
        prompt_limit: Tokens that a prompt must stay below, once a server has said so; see `learn_prompt_limit`.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        *,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        timeout: float | None = 900.0,
        connect_timeout: float | None = 5.0,
        max_retries: int | None = None,
        retry_delay: float | None = None,
        retry: RetryPolicy | None = None,
        api_key: str | None = None,
        admin_api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        verify: ssl.SSLContext | bool = True,
        on_abort: Literal["resume", "raise"] = "resume",
        max_resumptions: int = 16,
        vocab_size: int | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create a client; nothing is connected before the first request.

        Args:
            base_url: Root address of the server, or several: then the turns of one conversation stay on one of them,
                and move on when it gives no answer.
            max_connections: Requests on their way at once; further ones wait.
            timeout: Seconds for one call with all its attempts; None for no limit.
            connect_timeout: Seconds for a connection to come up; tried again where this process was too busy to tell.
            max_retries: Retries of one call at most; short for `retry=RetryPolicy(max_retries=...)`.
            retry_delay: Seconds before the first retry; short for `retry=RetryPolicy(base_delay=...)`.
            retry: The whole retry policy; not together with the two short forms.
            api_key: The server's API key.
            admin_api_key: The server's key for orders (abort, pause, weights), where it has one of its own.
            headers: Further headers for every request.
            verify: False to accept any TLS certificate, or an SSL context of your own.
            on_abort: What an aborted generation becomes: carried on from its own tokens, or `SGLangAbortedError`.
            max_resumptions: How many times one generation is carried on at most.
            vocab_size: The model's vocabulary size, if known.
            transport: Send through this instead of real connections: an engine in this process, a test's double. It
                stays yours to close.
        """
        policy = _retry_policy(retry, max_retries, retry_delay)
        self._check_options(max_connections, timeout, on_abort, max_resumptions)
        self._servers = Servers([base_url] if isinstance(base_url, str) else base_url)
        self.base_urls = tuple(server.base_url for server in self._servers.all)
        self.base_url = self.base_urls[0]
        self.max_retries, self.retry_delay = policy.max_retries, policy.base_delay
        self.vocab_size = vocab_size

        connections = PoolOptions(
            max_connections=max_connections, connect_timeout=connect_timeout, verify=verify, transport=transport
        )
        self._pool = Pool(connections)
        if transport is None:
            for url in self.base_urls:
                environment_proxy(url)  # a bad one is told here, and not by the first request
        self._control_pool = Pool(replace(connections, max_connections=_CONTROL_CONNECTIONS))
        own = request_headers(headers, api_key)
        admin = request_headers(headers, admin_api_key, option="admin_api_key") if admin_api_key else own
        check_credentials(self.base_urls, own, admin)
        self._control = Control(self._servers, self._control_pool, headers=own, admin_headers=admin)
        self._gate = Gate()
        options = CallOptions(
            timeout=timeout, retry=policy, on_abort=on_abort, max_resumptions=max_resumptions, headers=own
        )
        places, inquiry = Places(max_connections), Inquiry(self._servers, self._control.kind)
        self._calls = Calls(
            self._pool, self._servers, self._gate, options, places, inquiry=inquiry, abort=self._control.abort
        )
        self.prompt_limit: int | None = None
        self._limit_questions = _LIMIT_QUESTIONS
        self._is_multimodal: bool | None = None

    @classmethod
    def from_slime_args(cls, args: Any, **options: Any) -> Self:
        """Make a client of its own for slime's training arguments, as slime's example does.

        Args:
            args: See `get_client_from_slime_args`.
            **options: Further arguments of the constructor.
        """
        connections = args.sglang_server_concurrency * args.rollout_num_gpus // args.rollout_num_gpus_per_engine
        url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}"
        return cls(url, **{"max_connections": max(1, int(connections)), **options})

    # --- generation --------------------------------------------------------------------------------------

    async def send(self, request: GenerateRequest, *, on_delta: OnDelta | None = None) -> GenerateReply:
        """Generate, with retries and resumptions, until there is one finished reply.

        Cancelling the task ends the generation on the server.

        Args:
            request: What to generate from.
            on_delta: Called with each piece as it is sampled; the request is streamed then. The reply is the same.

        Raises:
            SGLangClientError: One of its kinds, once nothing more can be tried.
            SGLangConfigError: The request cannot be sent at all.
        """
        request = request.encoded()
        if self.vocab_size is not None and (highest := request.prompt.highest) >= self.vocab_size:
            raise SGLangConfigError(f"input_ids holds {highest}, but the vocabulary has {self.vocab_size} ids")
        return await self._calls.send(request, on_delta)

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamDelta | GenerateReply, None]:
        """Generate, yielding each piece as it is sampled and the whole reply at the end.

        Leaving early ends the generation on the server.

        Raises:
            SGLangClientError: See `send`.
        """
        deltas: asyncio.Queue[StreamDelta | None] = asyncio.Queue()
        task = asyncio.create_task(self.send(request, on_delta=deltas.put_nowait))
        task.add_done_callback(lambda _: deltas.put_nowait(None))
        try:
            while (delta := await deltas.get()) is not None:
                yield delta
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def generate(self, input_ids: Sequence[int], **request: Any) -> dict[str, Any]:
        """Generate and return the reply's body as SGLang wrote it, validated.

        Args:
            input_ids: The prompt.
            **request: Further fields of `/generate`, such as `sampling_params` or `return_logprob`.

        Raises:
            SGLangClientError: See `send`.
        """
        return (await self.send(_request_from_fields(input_ids, request))).raw

    def pause(self) -> Awaitable[None]:
        """Hold new requests in this client until `resume()`; the server is not told.

        It is done at once, from any thread; awaiting the result is allowed and does nothing more.
        """
        self._gate.close()
        return _Done()

    def resume(self) -> Awaitable[None]:
        """Let the held requests go; as `pause`, at once and from any thread."""
        self._gate.open()
        return _Done()

    async def abort(self, rid: str | None = None, *, conversation_id: str | None = None) -> None:
        """End generations on the server; each surfaces as `SGLangAbortedError` with what was sampled.

        Args:
            rid: The request to end; it may be another client's.
            conversation_id: End what this client has on its way for a conversation. Without both: everything that
                this client has on its way.
        """
        mine = self._calls.matching(rid, conversation_id)
        if not mine and rid is not None:
            await asyncio.gather(*(self._control.abort(server, rid) for server in self._servers.all))
        await asyncio.gather(*(self._calls.end(server, own) for server, own in mine))

    # --- questions ---------------------------------------------------------------------------------------

    async def health(self) -> bool:
        """Whether any server takes requests; never makes it generate."""
        return any(await asyncio.gather(*(self._control.healthy(server) for server in self._servers.all)))

    async def model_info(self) -> dict[str, Any]:
        """Return what the server says about its model, such as `model_path` and `weight_version`."""
        return await self._control.question("/model_info", "/get_model_info")

    async def server_info(self) -> dict[str, Any]:
        """Return the server's settings and version."""
        return await self._control.question("/server_info", "/get_server_info")

    async def learn_prompt_limit(self) -> int | None:
        """Return `prompt_limit`, for which the server is asked once; it never raises.

        Of several calls at once the first one asks, and the others do not wait for it. A server that does not say
        (a router) is not asked again; one that gives no answer is, a few times.
        """
        questions, self._limit_questions = self._limit_questions, 0
        if questions:
            left = questions  # when this is cancelled, nothing was learned
            try:
                self.prompt_limit = _prompt_limit(await self.server_info())
                left = 0
            except SGLangConnectionError:
                left = questions - 1
            except SGLangClientError as error:
                left = 0
                logger.debug("url=<%s> | does not say how long a prompt may be: %s", self.base_url, error)
            finally:
                self._limit_questions = left
        return self.prompt_limit

    async def is_multimodal(self) -> bool | None:
        """Whether the model takes images; None when the server does not say or gives no answer."""
        if self._is_multimodal is None:
            try:
                said = (await self.model_info()).get("has_image_understanding")
            except SGLangClientError:
                return None
            self._is_multimodal = said if isinstance(said, bool) else None
        return self._is_multimodal

    async def server_kinds(self) -> dict[str, ServerKind]:
        """Return what stands behind each address: an engine, or which router."""
        kinds = await asyncio.gather(*(self._control.kind(server) for server in self._servers.all))
        return dict(zip(self.base_urls, kinds, strict=True))

    async def loads(self) -> list[dict[str, Any]]:
        """Return the load of every server (SGLang 0.5.9 and newer)."""
        return await self._control.question_each("/v1/loads")

    # --- orders, to every server -------------------------------------------------------------------------

    async def pause_generation(self, mode: PauseMode = "abort") -> None:
        """Tell the servers to stop sampling.

        Args:
            mode: "abort" ends what is running (this client carries it on after `continue_generation`), "retract"
                puts it back into the queue, "in_place" freezes it. Where weights are updated meanwhile, "retract" loses
                the routing rows of what a mixture of experts had sampled.
        """
        await self._control.order("/pause_generation", {"mode": mode}, timeout=_CONTROL_SECONDS)

    async def continue_generation(self) -> None:
        """Tell the servers to sample again."""
        await self._control.order("/continue_generation", {}, timeout=_CONTROL_SECONDS)

    async def flush_cache(self) -> None:
        """Empty the prefix caches; a server that is busy refuses."""
        await self._control.order("/flush_cache", None, timeout=_CONTROL_SECONDS)

    async def update_weights_from_disk(
        self, model_path: str, *, weight_version: str | None = None, abort_all_requests: bool = False, **options: Any
    ) -> None:
        """Load other weights of the same architecture.

        Args:
            model_path: Where the servers find them.
            weight_version: The name of these weights in replies; without it the old name stays.
            abort_all_requests: End what is running (this client carries it on), instead of waiting for it.
            **options: Further fields of the endpoint.

        Raises:
            SGLangBadRequestError: A server could not load them; it goes on with the old ones.
        """
        body = {"model_path": model_path, "abort_all_requests": abort_all_requests, **options}
        if weight_version is not None:
            body["weight_version"] = weight_version
        path = "/update_weights_from_disk"
        answers = await self._control.order(path, body, timeout=None)
        for server, answer in zip(self._servers.all, answers, strict=True):
            said = json_object(answer, server.url(path))
            if not said.get("success"):
                url = server.url(path)
                raise SGLangDecodingError(f"{url}: the weights were not updated: {said.get('message')}", url=url)

    # --- life --------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every connection; the client may be used again.

        Calls that are on their way break off and are tried again, on new connections. Event loops that are blocked
        are not waited for: theirs are closed when they go on.
        """
        await asyncio.gather(self._pool.aclose(), self._control_pool.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"SGLangClient({', '.join(map(repr, self.base_urls))})"

    @staticmethod
    def _check_options(max_connections: int, timeout: float | None, on_abort: str, max_resumptions: int) -> None:
        if max_connections < 1:
            raise SGLangConfigError(f"max_connections must be 1 or more, got {max_connections}")
        if timeout is not None and timeout <= 0:
            raise SGLangConfigError(f"timeout must be more than 0, or None for no limit; got {timeout}")
        if on_abort not in ("resume", "raise"):
            raise SGLangConfigError(f"on_abort must be 'resume' or 'raise', got {on_abort!r}")
        if max_resumptions < 0:
            raise SGLangConfigError(f"max_resumptions must be 0 or more, got {max_resumptions}")


class _Done:
    """An awaitable of something that is done."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_REQUEST_FIELDS = frozenset(GenerateRequest.__dataclass_fields__) - {"input_ids", "extra"}


def _request_from_fields(input_ids: Sequence[int], fields: dict[str, Any]) -> GenerateRequest:
    if fields.pop("stream", False):
        raise SGLangConfigError("generate() returns one whole reply: stream=True is not for it")
    # `/generate` itself gives no log-probabilities unless asked.
    known: dict[str, Any] = {"return_logprob": False}
    given = {name: value for name, value in fields.items() if value is not None}
    known |= {name: given.pop(name) for name in _REQUEST_FIELDS & given.keys()}
    return GenerateRequest(input_ids=input_ids, extra=given, **known)


def _prompt_limit(server_info: Mapping[str, Any]) -> int | None:
    """Return what a prompt must stay below: the scheduler's own limit, or else the context length."""
    told = (server_info.get(name) for name in ("max_req_input_len", "context_length"))
    return next((limit for limit in told if type(limit) is int and limit > 0), None)


def _retry_policy(retry: RetryPolicy | None, max_retries: int | None, retry_delay: float | None) -> RetryPolicy:
    if retry is not None:
        if max_retries is not None or retry_delay is not None:
            raise SGLangConfigError("give either retry=, or max_retries= and retry_delay=")
        return retry
    short = {"max_retries": max_retries, "base_delay": retry_delay}
    return RetryPolicy(**{name: value for name, value in short.items() if value is not None})  # type: ignore[arg-type]

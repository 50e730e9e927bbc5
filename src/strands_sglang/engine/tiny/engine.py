"""`TinyEngine`: a real small chat model behind SGLang's `/generate`, in NumPy.

Owns the HTTP side: reading requests, waiting for answers, aborting what nobody waits for.
Invariant: the same request gives the same answer as an SGLang server with the same checkpoint, or is refused.
Never needs closing: its thread lives only while there is something to do. Needs the extra `demo` (NumPy).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from strands_sglang.engine import info
from strands_sglang.engine.answers import DONE, event, json_answer, stream_answer, stream_error
from strands_sglang.engine.api import NativeApi, request_id
from strands_sglang.engine.protocol import EngineResponse
from strands_sglang.engine.tiny.ask import Ask, check_admission, read, read_body
from strands_sglang.errors import SGLangBadRequestError, SGLangConfigError

if TYPE_CHECKING:
    from strands_sglang.engine.tiny.core import Core, Generation

CACHE_TOKENS = 32768
"""Tokens of finished sequences that are remembered."""


class TinyEngine(NativeApi):
    """Generates with a small Qwen3 checkpoint.

    Example:
        client = SGLangClient("http://engine", transport=EngineTransport(TinyEngine()))
    """

    def __init__(
        self,
        model_dir: str | Path | None = None,
        *,
        max_running_requests: int = 16,
        seed: int | None = None,
        weight_version: str = "default",
    ) -> None:
        """Load the model; about 0.1 s for the shipped one.

        Args:
            model_dir: A folder with a dense Qwen3 checkpoint; None: the model of this package.
            max_running_requests: Sequences generated at the same time; further ones wait.
            seed: Makes what is sampled a function of the requests and their order; None: of nothing.
            weight_version: The label of the weights until `/update_weight_version` names another.

        Raises:
            SGLangConfigError: NumPy is missing, or the folder holds no such checkpoint.
        """
        if max_running_requests < 1:
            raise SGLangConfigError(f"max_running_requests must be at least 1, got {max_running_requests}")
        self._core = _core(model_dir, max_running=max_running_requests, seed=seed, version=weight_version)
        self._max_running = max_running_requests

    @property
    def model_dir(self) -> Path:
        """The folder of the checkpoint; transformers reads its tokenizer from there."""
        return self._core.folder

    async def generate(self, body: dict[str, Any]) -> EngineResponse:
        """Answer `/generate`."""
        body = read_body(body)
        rid = request_id(body)
        try:
            ask = read(body, self._core.limits)
        except SGLangBadRequestError as error:
            if body.get("stream"):
                return stream_answer(_refused(stream_error(error)))
            raise
        return await self._generate(ask, rid)

    async def _generate(self, ask: Ask, rid: str) -> EngineResponse:
        try:
            check_admission(ask, self._core.limits)
            generation = await self._core.start(ask, rid)
        except SGLangBadRequestError as error:
            if ask.stream:
                return stream_answer(_refused(self._core.refusal(ask, rid, error).body()))
            raise
        if ask.stream:
            return stream_answer(_Events(generation))
        try:
            return json_answer((await generation.get()).body())
        except asyncio.CancelledError:
            generation.abort()
            raise

    def model_info(self) -> dict[str, Any]:
        """Return the body of `/model_info`."""
        return info.model_info(
            path=str(self.model_dir),
            model_type="qwen3",
            architectures=["Qwen3ForCausalLM"],
            weight_version=self._core.scheduler.weight_version,
        )

    def server_info(self) -> dict[str, Any]:
        """Return the body of `/server_info`."""
        return info.server_info(
            path=str(self.model_dir),
            context_length=self._core.config.context,
            max_running=self._max_running,
            max_tokens=CACHE_TOKENS,
            weight_version=self._core.scheduler.weight_version,
        )

    def loads(self) -> dict[str, Any]:
        """Return the body of `/v1/loads`."""
        scheduler = self._core.scheduler
        return info.loads(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            used_tokens=scheduler.used_tokens,
            max_tokens=CACHE_TOKENS,
            max_running=self._max_running,
        )

    async def healthy(self) -> bool:
        """Say whether a generation would get through; a paused SGLang server hangs, this one says no."""
        return not self._core.scheduler.paused

    def abort(self, rid: str) -> None:
        """Abort the request of this id, whether it runs, waits or is held by a pause."""
        self._core.worker.post(lambda: self._core.scheduler.abort(rid))

    def abort_all(self) -> None:
        """Abort every request."""
        self._core.worker.post(self._core.scheduler.abort_all)

    async def pause(self, mode: str) -> None:
        """Stop generating."""
        await self._core.worker.ask(lambda: self._core.scheduler.pause(mode))

    def resume(self) -> None:
        """Go on generating."""
        self._core.worker.post(self._core.scheduler.resume)

    async def flush_cache(self) -> bool:
        """Forget cached prefixes."""
        return await self._core.worker.ask(self._core.scheduler.flush_cache)

    async def set_weight_version(self, version: str) -> None:
        """Take `version` as the label of the weights from the next token on."""

        def set_version() -> None:
            self._core.scheduler.weight_version = version

        await self._core.worker.ask(set_version)


def _core(model_dir: str | Path | None, *, max_running: int, seed: int | None, version: str) -> Core:
    try:
        from strands_sglang.engine.tiny.core import SHIPPED, Core
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise SGLangConfigError(
            "TinyEngine needs NumPy, which is not installed", hint='pip install "strands-sglang[demo]"'
        ) from None
    folder = SHIPPED if model_dir is None else Path(model_dir)
    return Core(folder, max_running=max_running, cache_tokens=CACHE_TOKENS, seed=seed, version=version)


async def _refused(said: dict[str, Any]) -> AsyncIterator[bytes]:
    yield event(said)
    yield DONE


class _Events:
    """The events of a streamed answer; closing them early aborts the generation."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._finished = False
        self._done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._done:
            raise StopAsyncIteration
        if self._finished:
            self._done = True
            return DONE
        reply = await self._generation.get()
        self._finished = reply.finish is not None
        return event(reply.body())

    async def aclose(self) -> None:
        if not self._finished:
            self._generation.abort()
            self._finished = self._done = True

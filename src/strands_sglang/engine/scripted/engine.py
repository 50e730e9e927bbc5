"""`ScriptedEngine`: an engine for tests that plays the turns it is given and records what it was asked.

Owns which step answers which request, and the record of the requests.
Invariant: each step is played exactly once, in order; a request without a step is an error that says so.
Never looks at what a prompt means: the ids of a turn are the script's, whatever was asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from strands_sglang.engine import info
from strands_sglang.engine.answers import DONE, bad_value, event, json_answer, stream_answer
from strands_sglang.engine.api import NativeApi, request_id
from strands_sglang.engine.protocol import EngineRequest, EngineResponse
from strands_sglang.engine.scripted.order import Conversations, InOrder
from strands_sglang.engine.scripted.playback import Playback
from strands_sglang.engine.scripted.script import Refusal, Step, Turn
from strands_sglang.engine.text import TextCodec, text_codec
from strands_sglang.errors import SGLangConfigError, SGLangConnectionError

Script = Sequence[Step] | Callable[[dict[str, Any]], Step | Awaitable[Step]]
"""The steps in order, or a function of the request's body."""


class ScriptedEngine(NativeApi):
    """Plays a script.

    Example:
        engine = ScriptedEngine([Turn(ids=[5, 6, 2]), Refusal(status=503), Turn(ids=[7], finish="length")])
        client = SGLangClient("http://engine", transport=EngineTransport(engine))

    Attributes:
        requests: The body of every `/generate`, in order of arrival.
        calls: Every call as (method, path, body as bytes), control endpoints included.
        aborts: The ids that `/abort_request` named, in order.
        disconnects: The ids of requests whose client left before the answer was complete.
        weight_version: The version of turns that name none.
        paused: Whether `/pause_generation` holds.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        conversations: Sequence[Sequence[Step]] | None = None,
        tokenizer: Any = None,
        weight_version: str = "default",
        model_info: Mapping[str, Any] | None = None,
        server_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the engine.

        Args:
            script: Steps for the requests in order of arrival, or a function of the request (plain or async).
            conversations: One list of steps per conversation instead: a request whose prompt extends one that was
                answered goes on with its list, any other takes the next list.
            tokenizer: Encodes `Turn.text` and decodes ids: of transformers or of tokenizers. Without one a turn
                must give `ids`.
            weight_version: The version until `/update_weight_version` names another.
            model_info: Keys of `/model_info` to add or replace.
            server_info: Keys of `/server_info` to add or replace.
        """
        if conversations is not None and script:
            raise SGLangConfigError("give either `script` or `conversations`, not both")
        self.requests: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, bytes]] = []
        self.aborts: list[str] = []
        self.disconnects: list[str] = []
        self.weight_version = weight_version
        self._codec: TextCodec | None = None if tokenizer is None else text_codec(tokenizer)
        self._next_step = self._source(script, conversations)
        self._info = dict(model_info or {}), dict(server_info or {})
        self._playing: dict[str, Playback] = {}
        self._held: asyncio.Event | None = None

    def _source(
        self, script: Script, conversations: Sequence[Sequence[Step]] | None
    ) -> Callable[[dict[str, Any]], Any]:
        if conversations is not None:
            return Conversations(conversations, ids_of=self.ids_of).step
        return script if callable(script) else InOrder(script).step

    @property
    def prompts(self) -> list[list[int]]:
        """The `input_ids` of every request, in order of arrival."""
        return [list(body.get("input_ids") or ()) for body in self.requests]

    @property
    def paused(self) -> bool:
        """Whether requests are held."""
        return self._held is not None

    def ids_of(self, turn: Turn) -> list[int]:
        """Return the ids that a turn samples."""
        if turn.ids is not None:
            return list(turn.ids)
        if turn.text is None:
            return []
        if self._codec is None:
            raise SGLangConfigError(
                f"{turn.text!r} cannot be encoded: give the ScriptedEngine a tokenizer, or Turn ids="
            )
        return self._codec.encode(turn.text)

    async def handle(self, request: EngineRequest) -> EngineResponse:
        """Answer one request; see `Engine`.

        Raises:
            SGLangConfigError: The script has no step for this request.
            SGLangConnectionError: The step is a `Drop`.
        """
        self.calls.append((request.method, request.path, request.body))
        return await super().handle(request)

    async def generate(self, body: dict[str, Any]) -> EngineResponse:
        """Play the next step."""
        self.requests.append(body)
        while self._held is not None:
            await self._held.wait()
        step = self._next_step(body)
        return await self._play(await step if inspect.isawaitable(step) else step, body)

    async def _play(self, step: Step, body: dict[str, Any]) -> EngineResponse:
        if isinstance(step, Turn):
            return await self._play_turn(step, body)
        await asyncio.sleep(step.delay)
        if isinstance(step, Refusal):
            return EngineResponse(status=step.status, body=step.content(), headers=step.headers)
        raise SGLangConnectionError("Server disconnected without sending a response.")

    async def _play_turn(self, turn: Turn, body: dict[str, Any]) -> EngineResponse:
        rid = request_id(body)
        if rid in self._playing:
            raise bad_value(f"Duplicate request ID detected: {rid}")
        ids = self.ids_of(turn)
        text_of = self._text_of(turn, ids, body)
        playback = Playback(turn, ids, text_of, rid=rid, body=body, version=self.weight_version)
        self._playing[rid] = playback
        if body.get("stream"):
            return stream_answer(self._events(playback))
        # Only the last answer is made: making one per id would take time quadratic in their number.
        count, finish, complete = [at async for at in self._progress(playback)][-1]
        return json_answer(playback.answer(count, finish, last=complete))

    async def _progress(self, playback: Playback) -> AsyncGenerator[tuple[int, dict[str, Any] | None, bool], None]:
        """Yield the number of ids, the finish reason and whether it is the end; the client's leaving is recorded."""
        complete = False
        try:
            async with aclosing(playback.progress()) as progress:
                async for count, finish in progress:
                    complete = finish is not None or count == len(playback.ids)
                    yield count, finish, complete
        except SGLangConnectionError:
            complete = True
            raise
        finally:
            del self._playing[playback.rid]
            if not complete:
                self.disconnects.append(playback.rid)

    async def _events(self, playback: Playback) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._progress(playback)) as progress:
            async for count, finish, complete in progress:
                yield event(playback.answer(count, finish, last=complete))
        yield DONE

    def _text_of(self, turn: Turn, ids: list[int], body: dict[str, Any]) -> Callable[[int], str]:
        """Return the text after so many ids; a text that was given beside ids comes whole, at the end."""
        codec, skip = self._codec, (body.get("sampling_params") or {}).get("skip_special_tokens", True)
        if turn.ids is not None and turn.text is not None:
            whole = turn.text
            return lambda count: whole if count == len(ids) else ""
        if codec is None:
            return lambda _: ""
        return lambda count: codec.decode(ids[:count], skip_special=skip)

    def model_info(self) -> dict[str, Any]:
        """Return the body of `/model_info`."""
        base = info.model_info(
            path="scripted", model_type="qwen3", architectures=["Qwen3ForCausalLM"], weight_version=self.weight_version
        )
        return {**base, **self._info[0]}

    def server_info(self) -> dict[str, Any]:
        """Return the body of `/server_info`."""
        base = info.server_info(
            path="scripted",
            context_length=1 << 20,  # a script's prompts are as long as a test likes
            max_running=1024,
            max_tokens=1 << 20,
            weight_version=self.weight_version,
        )
        return {**base, **self._info[1]}

    def loads(self) -> dict[str, Any]:
        """Return the body of `/v1/loads`."""
        return info.loads(running=len(self._playing), waiting=0, used_tokens=0, max_tokens=1 << 20, max_running=1024)

    async def healthy(self) -> bool:
        """Say whether requests are answered now."""
        return not self.paused

    def abort(self, rid: str) -> None:
        """Abort a turn that is being played."""
        self.aborts.append(rid)
        if rid in self._playing:
            self._playing[rid].abort.set()

    def abort_all(self) -> None:
        """Abort every turn that is being played."""
        for rid in list(self._playing):
            self.abort(rid)

    async def pause(self, mode: str) -> None:
        """Hold requests that come from now on; mode `abort` ends those being played."""
        self._held = self._held or asyncio.Event()
        if mode == "abort":
            self.abort_all()

    def resume(self) -> None:
        """Let held requests go on."""
        if self._held is not None:
            self._held.set()
        self._held = None

    async def flush_cache(self) -> bool:
        """There is no cache; refused while turns are being played, as SGLang does."""
        return not self._playing

    async def set_weight_version(self, version: str) -> None:
        """Take `version` for turns that name none."""
        self.weight_version = version

"""One turn of the provider: prepare, send, read, commit.

Nothing is recorded before the whole reply is there and read, and the commit has no await in it (guarantee G8).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from strands.types.exceptions import ContextWindowOverflowException
from strands.types.streaming import StreamEvent

from strands_sglang.client import SGLangClient
from strands_sglang.errors import UnsupportedContentError
from strands_sglang.session import Conversation, HostHistory, OnDivergence, PendingTurn
from strands_sglang.tool_parsers import ParsedTurn, parse_turn_with
from strands_sglang.wire import FinishType, GenerateReply, GenerateRequest

from .answer import Answer, Shown, usage_of
from .config import SGLangConfig
from .constraint import Constraint
from .facts import sampled_facts
from .failures import as_host_errors
from .narration import LiveText, Narration

T = TypeVar("T")

# Strands' cancel signal is a threading.Event, which cannot be awaited: it is looked at this often, in seconds.
_CANCEL_POLL = 0.05


@dataclass(slots=True, kw_only=True, eq=False)
class TurnCall:
    """One call of the engine for one conversation.

    Attributes:
        client: Sends the request.
        tokenizer: The tokenizer as the user gave it.
        tool_parser: Reads calls.
        config: The options as they were when the call began.
        tool_parse_errors: Counts failed call attempts, by attempted name.
        conversation: Where the turn goes.
        history: What is to be continued.
        constraint: What the answer must look like, or None.
        cancel_signal: Ends the generation when set, or None.
        answer: The finished answer; None before it, and where the call was cancelled.
    """

    client: SGLangClient
    tokenizer: Any
    tool_parser: Any
    config: SGLangConfig
    tool_parse_errors: dict[str, int]
    conversation: Conversation
    history: HostHistory
    constraint: Constraint | None = None
    cancel_signal: threading.Event | None = None
    answer: Answer | None = None

    async def events(self) -> AsyncIterator[StreamEvent]:
        """Run the turn and yield Strands' events of it; none are missing when it was cancelled before it was done."""
        with as_host_errors():
            pending = await self._prepared()
        narration = Narration()
        live = LiveText(narration, lambda ids: self._parse(pending, ids, FinishType.LENGTH))
        reply: GenerateReply | None = None
        async with aclosing(self._sampled(pending.request)) as sampled:
            async for piece in sampled:
                if isinstance(piece, GenerateReply):
                    reply = piece
                else:
                    for event in live.feed(piece):
                        yield event
        if reply is None:
            return
        parsed = self._parse(pending, _without_stop(reply), reply.finish_reason.type)
        self.answer = Answer.of(parsed, reply.finish_reason, narration.shown)
        facts = sampled_facts(pending.request, reply, parsed, carried=len(pending.unfinished))
        pending.commit(reply, answers=self.answer.host_forms(), facts=facts)
        for attempt in parsed.calls:
            if attempt.is_error:
                self.tool_parse_errors[attempt.name] = self.tool_parse_errors.get(attempt.name, 0) + 1
        usage = usage_of(len(pending.request.input_ids), reply)
        for event in narration.finish(self.answer, usage, round(reply.latency * 1000)):
            yield event

    async def _prepared(self) -> PendingTurn:
        """Prepare the turn and check what can be checked before anything is sent."""
        config = self.config
        pending = self.conversation.prepare(
            self.history,
            on_divergence=OnDivergence(config.get("on_divergence", OnDivergence.BRANCH)),
            continue_truncated=bool(config.get("continue_truncated")),
            sampling_params={"max_new_tokens": None, **(config.get("sampling_params") or {})},
            return_logprob=config.get("return_logprob") is not False,
            return_prompt_logprob=bool(config.get("return_prompt_logprob")),
            return_routed_experts=bool(config.get("return_routed_experts")),
            return_indexer_topk=bool(config.get("return_indexer_topk")),
            return_sampling_mask=bool(config.get("return_sampling_mask")),
        )
        request = pending.request
        if self.constraint is not None:
            close = self.conversation.chat_tokenizer.reasoning_close(request.input_ids)
            grammar = self.constraint.grammar(close)
            pending.request = replace(request, sampling_params={**request.sampling_params, **grammar})
        limit = config.get("context_window_limit")
        if limit is None and hasattr(self.client, "learn_prompt_limit"):  # a stand-in for the client need not have it
            limit = await self.client.learn_prompt_limit()
        _check_fits(len(request.input_ids), limit)
        if pending.images:
            await self._check_takes_images()
        return pending

    async def _sampled(self, request: GenerateRequest) -> AsyncGenerator[Sequence[int] | GenerateReply, None]:
        """Yield sampled ids as they come where text is to be streamed, and the reply; nothing more once cancelled."""
        if not self.config.get("stream"):
            with as_host_errors():
                reply = await _unless(self.cancel_signal, self.client.send(request))
            if reply is not None:
                yield reply
            return
        async with aclosing(self.client.stream(request)) as pieces:
            # Pieces that show nothing may come faster than the signal is looked at while one is awaited.
            while self.cancel_signal is None or not self.cancel_signal.is_set():
                with as_host_errors():
                    piece = await _unless(self.cancel_signal, anext(pieces, None))
                if piece is None:
                    return
                yield piece if isinstance(piece, GenerateReply) else piece.output_ids

    def _parse(self, pending: PendingTurn, ids: Sequence[int], finish: FinishType) -> ParsedTurn:
        """Read what is new in an answer: all of it, or what goes beyond the truncated one that it continues."""
        parsed = self._read(pending, [*pending.unfinished, *ids], finish)
        if not pending.unfinished:
            return parsed
        before = self._read(pending, pending.unfinished, FinishType.LENGTH)
        if not Shown(reasoning=before.reasoning or "", text=before.content).begins(
            parsed.reasoning or "", parsed.content
        ):
            return parsed
        return replace(
            parsed,
            reasoning=(parsed.reasoning or "")[len(before.reasoning or "") :],
            content=parsed.content[len(before.content) :],
        )

    def _read(self, pending: PendingTurn, ids: Sequence[int], finish: FinishType) -> ParsedTurn:
        """Read reasoning, content and calls from sampled ids, the stop token left out."""
        chat_tokenizer = pending.conversation.chat_tokenizer
        trajectory = pending.conversation.trajectory
        text = chat_tokenizer.decode(ids)
        if self.constraint is not None and self.constraint.is_json:
            return _json_turn(text, chat_tokenizer.reasoning_close(pending.request.input_ids))
        return parse_turn_with(
            self.tool_parser,
            text,
            tools=self.history.tools,
            token_ids=ids,
            tokenizer=self.tokenizer,
            reasoning_open=pending.reasoning_open,
            finish_reason=finish.value,
            # Unique over providers and resets: a restored history holds the calls of both.
            id_prefix=f"call_{trajectory.id[:8]}_{len(trajectory.turns)}",
        )

    async def _check_takes_images(self) -> None:
        """Refuse images for a model that would silently ignore them."""
        takes_images = await self.client.is_multimodal()
        if not takes_images:
            why = "takes text only" if takes_images is False else "does not say whether it takes images"
            raise UnsupportedContentError(f"the history holds images, but the model at {self.client.base_url} {why}")


def _check_fits(prompt_tokens: int, limit: int | None) -> None:
    """Refuse a prompt that leaves no room for an answer, where the limit is known."""
    if limit is not None and prompt_tokens >= limit:
        raise ContextWindowOverflowException(
            f"the prompt has {prompt_tokens} tokens and the context window {limit}; nothing was sent"
        )


def _without_stop(reply: GenerateReply) -> list[int]:
    """Return the sampled ids without the stop token that ended them."""
    ids, finish = reply.output_ids, reply.finish_reason
    return ids[:-1] if ids and finish.type is FinishType.STOP and finish.matched == ids[-1] else ids


def _json_turn(text: str, reasoning_close: str | None) -> ParsedTurn:
    """Read an answer that is JSON by construction: whatever it holds is content."""
    if reasoning_close is None:
        return ParsedTurn(reasoning=None, content=text, calls=())
    reasoning, _, content = text.partition(reasoning_close.strip())
    return ParsedTurn(reasoning=reasoning, content=content.strip(), calls=())


async def _unless(signal: threading.Event | None, awaited: Any) -> Any:
    """Await something; None, and it is cancelled, if the signal is set first."""
    if signal is None:
        return await awaited
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        if signal.is_set():
            scope.reschedule(loop.time())
        else:
            timer = loop.call_later(_CANCEL_POLL, look)

    timer = loop.call_later(_CANCEL_POLL, look)
    try:
        # Cancelling from a timer costs a tenth of waiting for a task of its own.
        async with asyncio.timeout(None) as scope:
            return await awaited
    except TimeoutError:
        if not scope.expired():
            raise
        return None
    finally:
        timer.cancel()

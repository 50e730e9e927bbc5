"""`SGLangModel`: Strands' model provider over SGLang's `/generate`.

One call of `stream` is one turn: prepare (nothing changes), send, parse, commit (one step without an await), and only
then the events, so that a call that fails or is cancelled leaves the record as it was, and a consumer that leaves early
loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from pydantic import BaseModel, ValidationError
from strands.models import Model
from strands.models._validation import warn_on_tool_choice_not_supported
from strands.types.content import Messages, SystemContentBlock
from strands.types.exceptions import ContextWindowOverflowException
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolChoice, ToolSpec

from strands_sglang.client import SGLangClient
from strands_sglang.errors import SGLangGenerationError, UnsupportedContentError
from strands_sglang.rollout import Rollout
from strands_sglang.session import Conversation, HostHistory, OnDivergence, PendingTurn
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.tool_parsers import HermesToolParser, ParsedTurn, ToolParser, ToolParseResult, parse_turn_with
from strands_sglang.trajectory import Trajectory
from strands_sglang.wire import FinishType, GenerateReply

from .answer import Answer, usage_of
from .config import SGLangConfig as Config
from .config import validated
from .conversations import Conversations
from .failures import as_host_errors
from .messages import images_of, system_text, to_chat, to_tools

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=BaseModel)


class SGLangModel(Model):
    """A Strands model whose every call leaves a record exact to the token.

    Share one client and one tokenizer between all models of a process; make one model per episode, or call `reset()`
    between episodes.

    Example:
        >>> from strands_sglang.engine import EngineTransport, TinyEngine, tiny_tokenizer
        >>> client = SGLangClient("http://engine", transport=EngineTransport(TinyEngine()))
        >>> model = SGLangModel(client=client, tokenizer=tiny_tokenizer())
        >>> len(model.rollout)
        0

    Attributes:
        client: The client through which requests are sent.
        tokenizer: The tokenizer as given.
        tool_parser: Reads calls from what was sampled.
        config: The options, a dict.
        tool_parse_errors: Failed call attempts so far, by attempted tool name.
    """

    SGLangConfig = Config

    def __init__(
        self,
        *,
        client: SGLangClient,
        tokenizer: PreTrainedTokenizerBase,
        tool_parser: ToolParser | None = None,
        **config: Unpack[Config],
    ) -> None:
        """Create a model.

        Args:
            client: Sends requests to the server.
            tokenizer: Tokenizer of the model that the server runs, with a chat template.
            tool_parser: Reads calls from what was sampled; see `strands_sglang.tool_parsers.get_tool_parser`.
                Default: Hermes' format, as Qwen2.5 and Qwen3 use it.
            **config: See `SGLangConfig`.

        Raises:
            SGLangConfigError: If an option does not exist, or its value cannot be meant.
            ChatTemplateMissingError: If the tokenizer has no chat template.
        """
        self.client = client
        self.tokenizer = tokenizer
        self.tool_parser = tool_parser if tool_parser is not None else HermesToolParser()
        self.config: Config = validated(config)
        self._chat_tokenizer()  # a tokenizer that cannot serve is refused here, not in the middle of an episode
        self.reset()
        logger.debug("config=<%s> | initialized", self.config)

    def reset(self) -> None:
        """Forget the record, for a new episode."""
        self._conversations = Conversations()
        self.tool_parse_errors: dict[str, int] = {}

    @property
    def rollout(self) -> Rollout:
        """The active branch of the agent's own conversation, up to its newest turn; empty before the first."""
        main = self._conversations.main
        turn = main.last_turn if main else None
        return turn.rollout() if turn else Rollout()

    @property
    def trajectory(self) -> Trajectory:
        """Everything since the last reset: all conversations, branches and discarded answers."""
        return self._conversations.trajectory

    def update_config(self, **model_config: Unpack[Config]) -> None:  # type: ignore[override]
        """Change options; they take effect with the next call.

        Raises:
            SGLangConfigError: If an option does not exist, or its value cannot be meant.
        """
        self.config = validated({**self.config, **model_config})

    def get_config(self) -> Config:
        """Return the options."""
        return self.config

    async def stream(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
        cancel_signal: threading.Event | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        """Generate one turn.

        Args:
            messages: The whole history.
            tool_specs: Tools on offer.
            system_prompt: The system prompt as text.
            tool_choice: Not supported; a warning says so.
            system_prompt_content: The system prompt as blocks; wins over `system_prompt`.
            cancel_signal: Ends the generation when set, and tells whose loop this is.
            **kwargs: What else Strands passes; it has no bearing on a prompt.

        Yields:
            Strands' stream events, all of them after the turn was recorded.

        Raises:
            ContextWindowOverflowException: If the prompt does not fit.
            ModelThrottledException: If the server is busy and the client's retries are used up.
            SGLangError: For everything else that goes wrong; see `strands_sglang.errors`.
        """
        warn_on_tool_choice_not_supported(tool_choice)
        history = _history(messages, tool_specs, system_text(system_prompt, system_prompt_content))
        chat_tokenizer = self._chat_tokenizer()
        if cancel_signal is None:
            conversation = self._conversations.aside(history, chat_tokenizer)
        else:
            conversation = self._conversations.of_agent(cancel_signal, chat_tokenizer)
        outcome = await self._turn(conversation, history, cancel_signal)
        if outcome is None:
            return  # cancelled: without a messageStop event Strands reports it as such
        pending, reply, answer = outcome
        logger.debug("stop_reason=<%s>, sampled=<%d> | turn committed", answer.stop_reason, len(reply.output_ids))
        for event in answer.events(usage_of(len(pending.request.input_ids), reply), _latency_ms(reply)):
            yield event

    async def structured_output(
        self, output_model: type[T], prompt: Messages, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncGenerator[dict[str, T | Any], None]:
        """Generate one answer constrained to a pydantic model's JSON schema, as a side call.

        Args:
            output_model: The model that the answer must be an instance of.
            prompt: The messages to answer.
            system_prompt: The system prompt.
            **kwargs: What else Strands passes; it has no bearing on a prompt.

        Yields:
            `{"output": instance}`.

        Raises:
            SGLangGenerationError: If the answer was cut, or is not an instance in spite of the grammar.
        """
        history = _history(prompt, None, system_prompt)
        conversation = self._conversations.aside(history, self._chat_tokenizer())
        schema = json.dumps(output_model.model_json_schema())
        outcome = await self._turn(conversation, history, None, json_schema=schema)
        assert outcome is not None  # only a cancel signal gives None
        text = "".join(block.get("text", "") for block in outcome[2].blocks)
        try:
            yield {"output": output_model.model_validate_json(text)}
        except ValidationError as error:
            raise SGLangGenerationError(
                f"the answer is no {output_model.__name__} ({outcome[2].stop_reason}): {text[:200]!r}"
            ) from error

    async def _turn(
        self,
        conversation: Conversation,
        history: HostHistory,
        cancel_signal: threading.Event | None,
        **constraint: str,
    ) -> tuple[PendingTurn, GenerateReply, Answer] | None:
        """Prepare, send, parse and commit one turn; None if it was cancelled."""
        sampling_params = {"max_new_tokens": None, **(self.config.get("sampling_params") or {}), **constraint}
        with as_host_errors():
            pending = conversation.prepare(
                history,
                on_divergence=OnDivergence(self.config.get("on_divergence", OnDivergence.BRANCH)),
                sampling_params=sampling_params,
                return_logprob=self.config.get("return_logprob") is not False,
                return_prompt_logprob=bool(self.config.get("return_prompt_logprob")),
                return_routed_experts=bool(self.config.get("return_routed_experts")),
            )
            self._check_fits(len(pending.request.input_ids))
            if pending.images:
                await self._check_takes_images()
            reply = await _unless_cancelled(self.client.send(pending.request), cancel_signal)
        if reply is None:
            return None
        parsed = self._parse(pending, reply, history)
        answer = Answer.of(parsed, reply.finish_reason)
        pending.commit(reply, answers=answer.host_forms(), facts=_facts(reply, sampling_params, parsed))
        for call in parsed.calls:
            if call.is_error:
                self.tool_parse_errors[call.name] = self.tool_parse_errors.get(call.name, 0) + 1
        return pending, reply, answer

    def _parse(self, pending: PendingTurn, reply: GenerateReply, history: HostHistory) -> ParsedTurn:
        """Read reasoning, content and calls from the sampled ids, the stop token left out."""
        ids = list(reply.output_ids)
        if ids and reply.finish_reason.type is FinishType.STOP and reply.finish_reason.matched == ids[-1]:
            ids.pop()
        return parse_turn_with(
            self.tool_parser,
            pending.conversation.chat_tokenizer.decode(ids),
            tools=history.tools,
            token_ids=ids,
            tokenizer=self.tokenizer,
            reasoning_open=pending.reasoning_open,
            finish_reason=reply.finish_reason.type.value,
            id_prefix=f"call_{len(self.trajectory.turns)}",
        )

    def _chat_tokenizer(self) -> ChatTokenizer:
        """Return the chat tokenizer for the options as they are now."""
        return _chat_tokenizer(
            self.tokenizer,
            self.config.get("enable_thinking"),
            json.dumps(self.config.get("chat_template_kwargs") or {}, sort_keys=True),
            self.config.get("control_tokens", "escape"),
        )

    def _check_fits(self, prompt_tokens: int) -> None:
        """Refuse a prompt that leaves no room for an answer, where the limit is known."""
        limit = self.config.get("context_window_limit")
        if limit is not None and prompt_tokens >= limit:
            raise ContextWindowOverflowException(
                f"the prompt has {prompt_tokens} tokens and the context window {limit}; nothing was sent"
            )

    async def _check_takes_images(self) -> None:
        """Refuse images for a model that would silently ignore them."""
        takes_images = await self.client.is_multimodal()
        if not takes_images:
            why = "takes text only" if takes_images is False else "does not say whether it takes images"
            raise UnsupportedContentError(f"the history holds images, but the model at {self.client.base_url} {why}")


@lru_cache(maxsize=32)
def _chat_tokenizer(
    tokenizer: Any,
    enable_thinking: bool | None,
    template_kwargs: str,
    control_tokens: Literal["escape", "raise", "allow"],
) -> ChatTokenizer:
    """Make a chat tokenizer once for all models of a process that share a tokenizer and its options."""
    return ChatTokenizer(
        tokenizer,
        enable_thinking=enable_thinking,
        chat_template_kwargs=json.loads(template_kwargs),
        control_tokens=control_tokens,
    )


def _history(
    messages: Sequence[Mapping[str, Any]], tool_specs: Sequence[Mapping[str, Any]] | None, system_prompt: str | None
) -> HostHistory:
    """Describe what Strands holds to the session."""
    # Side calls pass the agent's own messages, with keys that have no bearing on a prompt.
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    return HostHistory(
        messages=plain,
        system=system_prompt,
        tools=to_tools(tool_specs),
        chat=lambda start, stop: list(to_chat(plain, start, stop, system_prompt=system_prompt)),
        images=lambda start, stop: images_of(plain, start, stop),
    )


async def _unless_cancelled(sending: Any, cancel_signal: threading.Event | None) -> GenerateReply | None:
    """Await a reply; None, and the request aborted, if the signal is set first."""
    if cancel_signal is None:
        reply: GenerateReply = await sending
        return reply
    task: asyncio.Task[GenerateReply] = asyncio.ensure_future(sending)
    try:
        while not task.done():
            # The signal is a threading.Event: it cannot be awaited, so it is looked at between short waits.
            await asyncio.wait({task}, timeout=0.05)
            if cancel_signal.is_set() and not task.done():
                return None
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _facts(reply: GenerateReply, sampling_params: Mapping[str, Any], parsed: ParsedTurn) -> dict[str, Any]:
    """Return what is worth keeping of a turn beside its tokens."""
    facts: dict[str, Any] = {
        "finish_reason": reply.finish_reason.type.value,
        "matched": reply.finish_reason.matched,
        "sampling_params": dict(sampling_params),
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "latency": reply.latency,
        "rid": reply.rid,
        "retries": reply.retries or None,
        "resumptions": reply.resumptions or None,
        "routed_experts": reply.routed_experts,
        "calls": [_call_facts(call) for call in parsed.calls] or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _call_facts(call: ToolParseResult) -> dict[str, Any]:
    """Return what a trainer may want to know of a call attempt."""
    facts = {"name": call.name, "id": call.id, "status": str(call.status), "token_span": call.token_span}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _latency_ms(reply: GenerateReply) -> int:
    """Return the generation's wall time in milliseconds."""
    return round(reply.latency * 1000)

"""`SGLangModel`: Strands' model provider over SGLang's `/generate`.

It holds the options and the episode's conversations; `turn.py` runs a turn, so that a call that fails or is cancelled
leaves the record as it was.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast

from pydantic import BaseModel, ValidationError
from strands.models import Model
from strands.models._validation import warn_on_tool_choice_not_supported
from strands.types.content import Messages, SystemContentBlock
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolChoice, ToolSpec

from strands_sglang.client import SGLangClient
from strands_sglang.errors import SGLangConfigError, SGLangGenerationError, TokenizationError
from strands_sglang.rollout import Rollout
from strands_sglang.session import Conversation, HostHistory
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.tool_parsers import HermesToolParser, ToolParser
from strands_sglang.trajectory import Trajectory

from .config import SGLangConfig as Config
from .config import validated
from .constraint import Constraint, forced_call, json_answer
from .conversations import Conversations, tracking_ids
from .history import host_history
from .messages import system_text
from .turn import TurnCall

if TYPE_CHECKING:
    from strands.agent.agent_metadata import AgentMetadata
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=BaseModel)


class SGLangModel(Model):
    """A Strands model whose every call leaves a record exact to the token.

    Share one client and one tokenizer between all models of a process; make one model per episode, or call `reset()`
    between episodes.

    Example:
        >>> from strands_sglang import get_tokenizer
        >>> from strands_sglang.engine import TINY_MODEL, EngineTransport, TinyEngine
        >>> client = SGLangClient("http://engine", transport=EngineTransport(TinyEngine()))
        >>> model = SGLangModel(client=client, tokenizer=get_tokenizer(TINY_MODEL))
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
    # With this Strands keeps the whole tool list in a forced structured-output call, so that the prompt only grows.
    _supports_structured_output = True

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
            TemplateNotExactError: If the chat template fails the check.
        """
        _check_parts(client, tool_parser)
        self.client = client
        self.tokenizer = tokenizer
        self.tool_parser = tool_parser if tool_parser is not None else HermesToolParser()
        self.config: Config = validated(config)
        self._chat_tokenizer()  # without a template, or with one that drifts, it is refused before the first episode
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
    def token_manager(self) -> Rollout:
        """The rollout, by the name under which slime's example reads it."""
        return self.rollout

    @property
    def trajectory(self) -> Trajectory:
        """Everything since the last reset: all conversations, branches and discarded answers."""
        return self._conversations.trajectory

    @property
    def context_window_limit(self) -> int | None:
        """The option, or else what the server said its longest prompt is; None before the first call."""
        given = self.config.get("context_window_limit")
        return given if given is not None else getattr(self.client, "prompt_limit", None)

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
        invocation_state: dict[str, Any] | None = None,
        cancel_signal: threading.Event | None = None,
        agent_metadata: AgentMetadata | None = None,
        structured_output_model: type[BaseModel] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        """Generate one turn.

        Args:
            messages: The whole history.
            tool_specs: Tools on offer.
            system_prompt: The system prompt as text.
            tool_choice: Whether the answer must be a call, by constrained decoding. A warning says where the tool-call
                format has no grammar.
            system_prompt_content: The system prompt as blocks; wins over `system_prompt`.
            invocation_state: Names the agent, where it can be believed; its messages' identities are read from it.
            cancel_signal: Ends the generation when set, and tells whose loop this is.
            agent_metadata: Names the agent's saved session, by which a restored agent goes on in its conversation.
            structured_output_model: Constrains the answer to a JSON object of this model.
            **kwargs: What else Strands passes; it has no bearing on a prompt.

        Yields:
            Strands' stream events. Without `stream=True` all of them come after the turn was recorded.

        Raises:
            ContextWindowOverflowException: If the prompt does not fit.
            ModelThrottledException: If the server is busy and the client's retries are used up.
            SGLangError: For everything else that goes wrong; see `strands_sglang.errors`.
        """
        history = host_history(
            messages,
            tool_specs,
            system_text(system_prompt, system_prompt_content),
            tracking_ids(messages, cancel_signal, invocation_state),
            self._conversations.converted if cancel_signal is not None else None,
        )
        chat_tokenizer = self._chat_tokenizer()
        if history.tools and self.config.get("check_template") is not False:
            _warn_once_of_ignored_tools(chat_tokenizer)
        if cancel_signal is None:
            conversation = self._conversations.aside(history, chat_tokenizer)
        else:
            session_id = agent_metadata.session_id if agent_metadata else None
            conversation = self._conversations.of_agent(cancel_signal, chat_tokenizer, history, session_id)
        call = self._call(
            conversation,
            history,
            constraint=self._constraint(structured_output_model, tool_choice, history),
            cancel_signal=cancel_signal,
        )
        # Cancelled, the events end without a messageStop, and Strands reports the answer as cancelled.
        async for event in call.events():
            yield event

    async def count_tokens(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
    ) -> int:
        """Count the tokens of a prompt: exactly where `context_window_limit` is set, else by Strands' estimate.

        Strands asks before every call, also where nothing looks at the number; encoding everything once more for
        nothing would be the most expensive part of a turn. Messages that are no conversation of their own, such as a
        tool result without its call, are estimated where the template does not render them.
        """
        if self.config.get("context_window_limit") is not None:
            history = host_history(messages, tool_specs, system_text(system_prompt, system_prompt_content))
            try:
                return len(self._chat_tokenizer().first(history.chat(0, len(messages)), history.tools).ids)
            except TokenizationError as error:
                logger.debug("error=<%s> | no conversation of its own, estimating", error)
        return await super().count_tokens(messages, tool_specs, system_prompt, system_prompt_content)

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
            Strands' stream events, then `{"output": instance}`.

        Raises:
            SGLangGenerationError: If the answer was cut, or is not an instance in spite of the grammar.
        """
        history = host_history(prompt, None, system_prompt)
        conversation = self._conversations.aside(history, self._chat_tokenizer())
        call = self._call(conversation, history, constraint=json_answer(output_model.model_json_schema()))
        async for event in call.events():
            yield dict(event)
        blocks = call.answer.blocks if call.answer else ()
        text = "".join(block.get("text", "") for block in blocks)
        try:
            yield {"output": output_model.model_validate_json(text)}
        except ValidationError as error:
            raise SGLangGenerationError(f"the answer is no {output_model.__name__}: {text[:200]!r}") from error

    def _call(self, conversation: Conversation, history: HostHistory, **options: Any) -> TurnCall:
        """Describe one call of the engine, with the options as they are now."""
        return TurnCall(
            client=self.client,
            tokenizer=self.tokenizer,
            tool_parser=self.tool_parser,
            config=self.config,
            tool_parse_errors=self.tool_parse_errors,
            conversation=conversation,
            history=history,
            **options,
        )

    def _constraint(
        self, output_model: type[BaseModel] | None, tool_choice: ToolChoice | None, history: HostHistory
    ) -> Constraint | None:
        """Return what the answer must look like."""
        if output_model is not None:
            return json_answer(output_model.model_json_schema())
        choice = cast(Mapping[str, Any], tool_choice or {"auto": {}})
        if "auto" in choice:
            return None
        constraint = forced_call(self.tool_parser, history.tools, choice.get("tool", {}).get("name"))
        if constraint is None:
            warn_on_tool_choice_not_supported(tool_choice)
        return constraint

    def _chat_tokenizer(self) -> ChatTokenizer:
        """Return the chat tokenizer for the options as they are now."""
        arguments = self.config.get("chat_template_kwargs")
        chat_tokenizer = _chat_tokenizer(
            self.tokenizer,
            self.config.get("enable_thinking"),
            json.dumps(arguments, sort_keys=True) if arguments else "{}",
            self.config.get("control_tokens", "escape"),
        )
        if self.config.get("check_template") is not False:
            _check_once(chat_tokenizer)
        return chat_tokenizer


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


def _check_parts(client: Any, tool_parser: Any) -> None:
    """Refuse what is no client or no parser before a generation is paid for."""
    if not hasattr(client, "send"):
        raise SGLangConfigError(f"client must be an SGLangClient, got {client!r}", hint="client=SGLangClient(base_url)")
    if tool_parser is None:
        return
    if isinstance(tool_parser, type) or not (hasattr(tool_parser, "parse") or hasattr(tool_parser, "parse_turn")):
        raise SGLangConfigError(
            f"tool_parser must be a parser, got {tool_parser!r}", hint='tool_parser=get_tool_parser("hermes")'
        )


@lru_cache(maxsize=32)
def _check_once(chat_tokenizer: ChatTokenizer) -> None:
    """Refuse a template that would drift, and say what a good one refuses; what passed once is not checked again."""
    from strands_sglang.tokenization import quick_check

    report = quick_check(chat_tokenizer)
    report.raise_on_fault(
        hint="`strands-sglang check MODEL` shows all shapes; SGLangModel(check_template=False) uses it all the same"
    )
    if report.refusal_warning:
        logger.warning("model=<%s> | %s", report.model, report.refusal_warning)


@lru_cache(maxsize=32)
def _warn_once_of_ignored_tools(chat_tokenizer: ChatTokenizer) -> None:
    """Say that a model will not see the tools it is given."""
    from strands_sglang.tokenization import quick_check

    if warning := quick_check(chat_tokenizer).tools_warning:
        logger.warning("model=<%s> | %s", chat_tokenizer.name, warning)

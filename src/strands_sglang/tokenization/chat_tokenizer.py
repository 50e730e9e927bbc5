"""Messages to ids: the first prompt whole, later only what is new.

Owns the two operations that the rest of the library needs, `first` and `bridge`. Invariant, for a turn sampled after
`prompt_ids` with `ids` (and `t = bridge.trimmed`):

    next prompt = prompt_ids + ids[:len(ids) - t] + bridge.ids

Never encodes sampled text, never truncates, never adds special tokens that the template does not print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.errors import TemplateNotExactError

from .guard import ControlTokens, Disguise, Guard
from .suffix import Suffix, SuffixSource
from .template import ChatTemplate
from .turn import PromptTokens, SampledTurn
from .vocabulary import ControlToken, Vocabulary


class ChatTokenizer:
    """Tokenises conversations of one model exactly and incrementally.

    Thread safe: it works on a private view of the tokenizer that nothing changes.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        chat_template: str | None = None,
        enable_thinking: bool | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        control_tokens: ControlTokens = "escape",
    ) -> None:
        """Take a tokenizer and freeze how its template is rendered.

        Args:
            tokenizer: A transformers tokenizer (fast or slow) or a `tokenizers.Tokenizer`.
            chat_template: The template to use; None takes the tokenizer's own.
            enable_thinking: Passed to the template in every rendering; None passes nothing.
            chat_template_kwargs: Further arguments passed to the template in every rendering.
            control_tokens: What to do with control token literals in content: "escape" encodes them as plain text,
                "raise" refuses them, "allow" lets them become control tokens.
        """
        self._vocabulary = Vocabulary(tokenizer)
        variables = {**self._vocabulary.special_tokens, **(chat_template_kwargs or {})}
        if enable_thinking is not None:
            variables["enable_thinking"] = enable_thinking
        self._template = ChatTemplate(
            chat_template or getattr(tokenizer, "chat_template", None), name=self._vocabulary.name, variables=variables
        )
        self._guard = Guard(self._vocabulary, control_tokens)
        self._suffixes = SuffixSource(self._template, self._vocabulary)

    @property
    def name(self) -> str:
        """Name or path of the tokenizer."""
        return self._vocabulary.name

    def first(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> PromptTokens:
        """Return the ids of a whole conversation, with the generation prompt at the end.

        Args:
            messages: The messages in chat form.
            tools: The tools in function form; None or empty for none.
        """
        covered, disguise = self._guard.disguise(messages=list(messages), tools=list(tools or ()))
        text = self._template.render(covered["messages"], covered["tools"])
        return PromptTokens(ids=disguise.encode(text), guarded=disguise.guarded)

    def bridge(
        self,
        context: Sequence[Mapping[str, Any]],
        turn: SampledTurn,
        new_messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> PromptTokens:
        """Return the ids that follow a sampled turn up to the next one.

        Args:
            context: The messages before the turn.
            turn: The turn as it was sampled.
            new_messages: The messages after it.
            tools: The tools in function form; the same as in the prompt of the turn.
        """
        covered, disguise = self._guard.disguise(
            new_messages=list(new_messages), tools=list(tools or ()), context=list(context), turn=dict(turn.message)
        )
        suffix = self._suffixes.suffix(
            covered["context"], covered["turn"], covered["new_messages"], covered["tools"], disguise.marker
        )
        text, after, trimmed = self._continue(suffix, turn)
        guarded = tuple(g for g in disguise.guarded if g.where.startswith("new_messages"))
        return PromptTokens(ids=self._encode(text, after, disguise), guarded=guarded, trimmed=trimmed)

    def reasoning_open(self, ids: Sequence[int]) -> bool:
        """Return whether ids end inside an open reasoning block, judged by its marks since the last turn began."""
        for token_id in reversed(ids):
            token = self._vocabulary.by_id.get(token_id)
            if token is not None and "think" in token.text.lower():
                return "/" not in token.text
        return False

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens kept, without clean-up."""
        return self._vocabulary.decode(ids)

    def _continue(self, suffix: Suffix, turn: SampledTurn) -> tuple[str, ControlToken | None, int]:
        """Return the text still to be encoded, the control token it follows, and how many sampled ids it replaces."""
        last = self._vocabulary.by_id.get(turn.ids[-1]) if turn.ids else None
        for token, end in suffix.ends:
            if last is token:
                return suffix.text[end:], last, 0
        if last is not None and last.id in suffix.replaced:
            return self._from_control_token(suffix.text), None, 1
        tail = [*turn.prompt_ids[-200:], *turn.ids]
        if self.reasoning_open(tail):
            return self._from_control_token(suffix.reasoning_close + suffix.text), None, 0
        return self._from_control_token(suffix.text), None, 0

    def _from_control_token(self, text: str) -> str:
        """Return a text from its first control token on; what is before it must be whitespace."""
        match = next(self._vocabulary.find(text), None)
        if match is None or text[: match.start()].strip():
            raise TemplateNotExactError(
                f"the chat template of {self.name} cannot be continued exactly after an unfinished turn: what follows "
                f"begins with ordinary text ({text[:40]!r}), which would merge with the text before it",
                model=self.name,
            )
        return text[match.start() :]

    def _encode(self, text: str, after: ControlToken | None, disguise: Disguise) -> list[int]:
        return disguise.encode(text, after=after)

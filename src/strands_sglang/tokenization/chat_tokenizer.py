"""Messages to ids: the first prompt whole, later only what is new.

Owns the two operations that the rest of the library needs, `first` and `bridge`. Invariant, for a turn sampled after
`prompt_ids` with `ids` (and `t = bridge.trimmed`):

    next prompt = prompt_ids + ids[:len(ids) - t] + bridge.ids

Never encodes sampled text, never truncates, never adds special tokens that the template does not print.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.errors import ChatTemplateError, UnknownNameError, UnsupportedContentError

from .disguise import Disguise
from .ending import TurnEnding
from .guard import ControlTokens, Guard
from .messages import check_messages, first_left_out
from .reasoning import ReasoningMarks
from .stand_in import Message, Tools, count_calls, round_of, shape_of_turn, stand_in_context, with_every_call
from .suffix import Suffix, SuffixSource
from .template import ChatTemplate, plain_arguments
from .turn import PromptTokens, SampledTurn
from .turn_ends import find_turn_ends
from .vocabulary import Vocabulary


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
            tokenizer: A transformers tokenizer (fast or slow) or a `tokenizers.Tokenizer`. What is changed about it
                later has no effect.
            chat_template: The template to use, or the name of one of several the tokenizer has; None takes the
                tokenizer's own.
            enable_thinking: Passed to the template in every rendering; None passes nothing.
            chat_template_kwargs: Further arguments passed to the template in every rendering. A `tokenizers.Tokenizer`
                does not name its special tokens: `eos_token`, `bos_token` and the like go here.
            control_tokens: What to do with control token literals in content: "escape" encodes them as plain text,
                "raise" refuses them, "allow" lets them become control tokens.
        """
        arguments = {**(chat_template_kwargs or {})}
        if enable_thinking is not None:
            arguments["enable_thinking"] = enable_thinking
        self._vocabulary = Vocabulary(tokenizer, special_tokens=arguments)
        own = getattr(tokenizer, "chat_template", None)
        if isinstance(own, Mapping) and chat_template is not None and "{" not in chat_template:
            if chat_template not in own:
                raise UnknownNameError("chat template", chat_template, own)
            chat_template = own[chat_template]
        self._template = ChatTemplate(
            chat_template or own,
            name=self._vocabulary.name,
            variables={**self._vocabulary.special_tokens, **plain_arguments(arguments)},
        )
        self._guard = Guard(self._vocabulary, control_tokens)
        self._turn_ends = find_turn_ends(self._template, self._vocabulary)
        borders = (*self._turn_ends.header, *self._turn_ends.stops, *self._turn_ends.others)
        self._marks = ReasoningMarks(self._template, self._vocabulary, borders)
        self._suffixes = SuffixSource(self._template, self._vocabulary, self._marks, self._turn_ends)
        self._ending = TurnEnding(self._vocabulary, self._marks)
        self._numbers_calls: dict[bool, bool] = {}

    @property
    def name(self) -> str:
        """Name or path of the tokenizer."""
        return self._vocabulary.name

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The ids a model of this template stops on: its end-of-sequence token and what the template ends turns by."""
        eos = [self._vocabulary.eos] if self._vocabulary.eos else []
        return tuple(dict.fromkeys(token.id for token in [*eos, *self._turn_ends.stops]))

    def first(self, messages: Sequence[Message], tools: Tools | None = None) -> PromptTokens:
        """Return the ids of a whole conversation, with the generation prompt at the end.

        Args:
            messages: The messages in chat form.
            tools: The tools in function form; None or empty for none.
        """
        check_messages(messages, self.name, least=1)

        def render(given: Mapping[str, Any], disguise: Disguise) -> str:
            text = self._template.render(given["messages"], given["tools"])

            def shows(index: int) -> bool:
                marked = _with_mark(given["messages"], index, disguise.marker)
                return disguise.marker in (
                    self._template.try_render(marked, given["tools"], generation_prompt=True) or ""
                )

            self._require_all(given["messages"], text, shows)
            return text

        try:
            text, disguise = self._guard.rendered({"messages": messages}, tools or (), render)
        except ChatTemplateError as error:
            error.message_index = self._template.first_refused(messages, tools or (), error)
            raise
        ids = disguise.encode(text)
        if len(ids) > 1 and ids[0] == ids[1] == self._vocabulary.bos_id:
            raise ChatTemplateError(
                f"the chat template of {self.name} writes the beginning-of-sequence token twice", model=self.name
            )
        return PromptTokens(ids=ids, guarded=disguise.guarded)

    def bridge(
        self,
        context: Sequence[Message],
        turn: SampledTurn,
        new_messages: Sequence[Message],
        tools: Tools | None = None,
    ) -> PromptTokens:
        """Return the ids that follow a sampled turn up to the next one.

        Args:
            context: The messages before the turn.
            turn: The turn as it was sampled.
            new_messages: The messages after it.
            tools: The tools in function form; the same as in the prompt of the turn.
        """
        check_messages([turn.message], self.name)
        check_messages(new_messages, self.name)
        try:
            before = self._stand_in(context, turn, new_messages, tools)
            suffix, disguise = self._suffix(before, turn, new_messages, tools)
            known = self._ends_with(turn.prompt_ids, suffix.header, disguise)
        except ChatTemplateError:
            known = False
        if not known:
            # The template looks at more of the history than the stand-in holds: show it all.
            before = list(context)
            try:
                suffix, disguise = self._suffix(before, turn, new_messages, tools)
            except ChatTemplateError as error:
                index = self._template.first_refused([*context, turn.message, *new_messages], tools or (), error)
                error.message_index = index - len(context) - 1 if index is not None and index > len(context) else None
                raise

        def again(trailing: str) -> Suffix:
            return self._suffix(before, turn, new_messages, tools, trailing=trailing)[0]

        rest = self._ending.rest(suffix, turn, again)
        return PromptTokens(
            ids=disguise.encode(rest.text, after=rest.after),
            guarded=tuple(found for found in disguise.guarded if found.where.startswith("new_messages")),
            trimmed=rest.trimmed,
        )

    def _stand_in(
        self, context: Sequence[Message], turn: SampledTurn, new_messages: Sequence[Message], tools: Tools | None
    ) -> list[Message]:
        """Return what stands in for the context: with all of its calls where the template numbers them."""
        before = stand_in_context(context)
        calls, numbers = turn.message.get("tool_calls"), self._numbers_calls.get(bool(tools))
        if not calls or numbers is False or count_calls(context) <= count_calls(before):
            return before
        if numbers is None:
            # One round more in front of the others must make no difference to what follows this turn.
            user = next((i for i, message in enumerate(before) if message["role"] == "user"), len(before) - 1)
            extra = round_of(calls[0]["function"]["name"], "call0more", "0")
            more = [*before[: user + 1], *extra, *before[user + 1 :]]
            texts = [self._suffix(shown, turn, new_messages, tools)[0].text for shown in (before, more)]
            numbers = self._numbers_calls[bool(tools)] = texts[0] != texts[1]
        return with_every_call(context) if numbers else before

    def _suffix(
        self,
        before: Sequence[Message],
        turn: SampledTurn,
        new_messages: Sequence[Message],
        tools: Tools | None,
        *,
        trailing: str = "",
    ) -> tuple[Suffix, Disguise]:
        turn_shape = shape_of_turn(turn.message)
        given = {"new_messages": new_messages, "before": before, "calls": turn_shape.calls}
        derived: list[Suffix] = []

        def render(given: Mapping[str, Any], disguise: Disguise) -> str:
            shaped = dataclasses.replace(turn_shape, calls=given["calls"])

            def suffix(new_messages: Sequence[Message]) -> Suffix:
                return self._suffixes.suffix(
                    *(given["before"], shaped, new_messages, given["tools"], disguise.marker), trailing=trailing
                )

            def shows(index: int) -> bool:
                return disguise.marker in suffix(_with_mark(given["new_messages"], index, disguise.marker)).text

            derived.append(suffix(given["new_messages"]))
            self._require_all(given["new_messages"], derived[-1].text, shows)
            return derived[-1].text

        text, disguise = self._guard.rendered(given, tools or (), render)
        return dataclasses.replace(derived[-1], text=text), disguise

    def _require_all(self, messages: Sequence[Message], text: str, shows: Any) -> None:
        index = first_left_out(messages, text, shows)
        if index is not None:
            raise UnsupportedContentError(
                f"the chat template of {self.name} leaves out message {index} ({messages[index].get('role')})",
                model=self.name,
                message_index=index,
            )

    def _ends_with(self, prompt_ids: Sequence[int], header: str, disguise: Disguise) -> bool:
        first = next(self._vocabulary.find(header), None)
        if first is None or first.start() > 0:
            return True
        ids = disguise.encode(header)
        return list(prompt_ids[-len(ids) :]) == ids

    def reasoning_open(self, ids: Sequence[int]) -> bool:
        """Return whether ids end inside an open reasoning block, judged by its marks since the last turn began."""
        return self._marks.open_pair(ids) is not None

    def reasoning_close(self, ids: Sequence[int]) -> str | None:
        """Return what the template writes to end the reasoning that is open at the end of ids; None if none is."""
        pair = self._marks.open_pair(ids)
        return None if pair is None else pair.close

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens kept, without clean-up."""
        return self._vocabulary.decode(ids)


def _with_mark(messages: Sequence[Message], index: int, marker: str) -> list[Message]:
    """Return messages with the content of one replaced by a lone marker."""
    return [*messages[:index], {**messages[index], "content": marker}, *messages[index + 1 :]]

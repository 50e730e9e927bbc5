"""One conversation of the battery, played with simulated turns.

Owns the play: the first prompt, then for every turn a sampled text as the template itself would have it, then the
bridge to the next prompt. Invariant: `prompt(k+1) = prompt(k) + sampled(k)[: len - trimmed] + bridge(k)`, kept in parts
so that a difference can be told to lie in a prompt or in a sampled turn.
Never judges; see `judge`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from strands_sglang.errors import ChatTemplateError
from strands_sglang.tokenization.turn import PromptTokens, SampledTurn

from .sampling import Expectation, as_parsed, calls_as_text, expect
from .shape import SOMETHING, Ending, Message, Shape, is_empty, with_text_arguments
from .verdict import Cause


class Incremental(Protocol):
    """What is checked: `ChatTokenizer`, or whatever stands in for it."""

    def first(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = ...
    ) -> PromptTokens:
        """Return the ids of the first prompt."""
        ...

    def bridge(
        self,
        context: Sequence[Mapping[str, Any]],
        turn: SampledTurn,
        new_messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = ...,
    ) -> PromptTokens:
        """Return the ids between a sampled turn and the next one."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        ...


class Reference(Protocol):
    """What it is checked against: a whole rendering of all messages, and its encoding."""

    @property
    def control(self) -> Mapping[str, int]:
        """Control tokens and their ids."""
        ...

    @property
    def eos(self) -> str:
        """Text of the end-of-sequence token, or an empty string."""
        ...

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the control tokens in a text, as the tokenizer would match them."""
        ...

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generation_prompt: bool
    ) -> str:
        """Return the text of all messages, or raise `ChatTemplateError`."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendering."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTurn:
    """A sampled turn of a rehearsal.

    Attributes:
        index: Index of the message.
        ids: The ids "sampled".
        kept: How many of them stay in the context.
        held: The message as the host holds it, without reasoning that the template refuses.
        prompt_tail: Ids at the end of the prompt before it that history may lack: marks of reasoning.
        stop: Text of the control token that the template ends it with; "" for none.
        ending: How it ended.
        stopped: Whether the last id is a stop token.
        reasoned: Whether the ids hold the message's reasoning.
        as_last: Its text as the template writes it where it is the last message, without marks of reasoning.
    """

    index: int
    ids: list[int]
    kept: int
    held: Message
    prompt_tail: str
    stop: str
    ending: Ending
    stopped: bool
    reasoned: bool
    as_last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One prompt of a rehearsal.

    Attributes:
        messages: The messages up to it, as the host holds them.
        tools: The tools.
        prompts: The first prompt and every bridge so far; one more than `turns`.
        turns: The sampled turns between them.
        whole: The reference's rendering of `messages`.
        refused: What `messages` lack, or have in place, of what the host holds and the template refuses.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    prompts: tuple[tuple[int, ...], ...]
    turns: tuple[PlayedTurn, ...]
    whole: str
    refused: tuple[Cause, ...]

    @property
    def ids(self) -> list[int]:
        """The prompt as it would be sent."""
        ids = list(self.prompts[0])
        for turn, bridge in zip(self.turns, self.prompts[1:], strict=True):
            ids += [*turn.ids[: turn.kept], *bridge]
        return ids


class Rehearsal:
    """The play of one shape.

    Attributes:
        messages: The messages as the host holds them by now, cut turns cut.
    """

    def __init__(
        self, tokenizer: Incremental, reference: Reference, shape: Shape, *, twin: Rehearsal | None = None
    ) -> None:
        """Prepare to play a shape.

        Args:
            tokenizer: What is checked.
            reference: What renders whole conversations, and simulates the turns.
            shape: The shape.
            twin: A rehearsal of the same shape, always one step ahead, whose turns are taken over.
        """
        self._twin = twin
        self.tokenizer = tokenizer
        self.reference = reference
        self.shape = shape
        self.messages: list[Message] = list(shape.messages)
        # What the reference renders: the messages, without reasoning that the template refuses.
        self._written: list[Message] = list(shape.messages)
        self._prompts: list[tuple[int, ...]] = []
        self._turns: list[PlayedTurn] = []

    def steps(self) -> Iterator[Step]:
        """Yield every prompt.

        Raises:
            TokenizationError: Whatever the tokenizer refuses with.
            TemplateRefusedError: If the template refuses as a whole what the tokenizer took.
        """
        given, sampled = self.shape.given, self.shape.sampled()
        self._prompts.append(tuple(self.tokenizer.first(self.messages[:given], self.shape.tools).ids))
        step = self._step(given)
        yield step
        for index, end in zip(sampled, [*sampled[1:], len(self.messages)], strict=False):
            self._play_turn(index, end, step)
            step = self._step(end)
            yield step

    def _step(self, end: int) -> Step:
        refused = _refused(self._written[:end], self.messages[:end])
        messages = self._written[:end]
        try:
            whole = self._render(messages)
        except ChatTemplateError as error:
            messages = self._without_empty_turns(messages)
            whole = self._render_or_raise(messages, error)
            refused = (*refused, Cause.EMPTY_REFUSED)
        return Step(
            messages=tuple(messages),
            tools=self.shape.tools,
            prompts=tuple(self._prompts),
            turns=tuple(self._turns),
            whole=whole,
            refused=refused,
        )

    def _without_empty_turns(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with some text in the turns that were sampled without any."""
        sampled = self.shape.sampled()
        return [
            {**message, "content": SOMETHING} if i in sampled and is_empty(message) else message
            for i, message in enumerate(messages)
        ]

    def _render_or_raise(self, messages: Sequence[Message], refusal: ChatTemplateError) -> str:
        try:
            return self._render(messages)
        except ChatTemplateError:
            raise TemplateRefusedError(str(refusal)) from refusal

    def _play_turn(self, index: int, end: int, step: Step) -> None:
        ending = self.shape.ending if end == len(self.messages) else Ending.STOP
        ids = step.ids
        try:
            played = self._simulate(index, end, ending, step.whole)
        except ChatTemplateError as error:
            # What the template cannot write has to be refused by the tokenizer as well.
            turn = SampledTurn(ids=[], message=self.messages[index], prompt_ids=ids)
            self.tokenizer.bridge(self.messages[:index], turn, self.messages[index + 1 : end], self.shape.tools)
            raise TemplateRefusedError(str(error)) from error
        turn = SampledTurn(
            ids=played.ids, message=self.messages[index], prompt_ids=ids, finish_reason=_finish_reason(ending)
        )
        bridge = self.tokenizer.bridge(self.messages[:index], turn, self.messages[index + 1 : end], self.shape.tools)
        self._turns.append(replace(played, kept=len(played.ids) - bridge.trimmed))
        self._prompts.append(tuple(bridge.ids))

    def _simulate(self, index: int, end: int, ending: Ending, prompt: str) -> PlayedTurn:
        """Return the turn as a model would sample it, and note how the host then holds it."""
        if self._twin is not None:
            self.messages[index], self._written[index] = self._twin.messages[index], self._twin._written[index]
            return self._twin._turns[len(self._turns)]
        message = self._written[index]
        try:
            played = self._simulate_written(index, end, ending, prompt)
            self.messages[index] = played.held
        except ChatTemplateError:
            if "reasoning_content" not in message:
                return self._simulate_with_text_arguments(index, end, ending, prompt)
            self._written[index], ending = _without_reasoning(message, ending)
            played = self._simulate_written(index, end, ending, prompt)
            refused = {} if ending is Ending.CUT_TEXT else {"reasoning_content": message["reasoning_content"]}
            self.messages[index] = {**played.held, **refused}
        return played

    def _simulate_with_text_arguments(self, index: int, end: int, ending: Ending, prompt: str) -> PlayedTurn:
        """Return a turn whose arguments the template takes as texts only."""
        message = self.messages[index]
        changed = with_text_arguments(message)
        if changed == message:
            return self._simulate_written(index, end, ending, prompt)  # raises as before
        self._written[index] = changed
        played = self._simulate_written(index, end, ending, prompt)
        self.messages[index] = {**played.held, "tool_calls": message["tool_calls"]}
        return played

    def _simulate_written(self, index: int, end: int, ending: Ending, prompt: str) -> PlayedTurn:
        expectation = self._expect(index, end, prompt)
        message = self._written[index]
        if "reasoning_content" in message and not expectation.reasoned:
            # The prompt leaves no room for reasoning: then a model does not write what it wrote after reasoning.
            message, ending = _without_reasoning(message, ending)
            self._written[index] = message
            expectation = self._expect(index, end, prompt)
        text, held = _ended(message, expectation, ending)
        ids = self._in_place(prompt, text)
        if ending is Ending.CUT_CHARACTER:
            ids, held = self._cut_character(ids, held)
        self._written[index] = held
        stop_ids = self._stop_ids(expectation.stop, ending)
        return PlayedTurn(
            index=index,
            ids=ids + stop_ids,
            kept=0,
            held=held,
            prompt_tail=expectation.prompt_tail,
            stop=expectation.stop,
            ending=ending,
            stopped=bool(stop_ids),
            reasoned=bool(held.get("reasoning_content")),
            as_last=expectation.as_last,
        )

    def _expect(self, index: int, end: int, prompt: str) -> Expectation:
        message = self._written[index]
        try:
            expectation = self._expect_message(message, index, end, prompt)
        except ChatTemplateError:
            if not is_empty(message):
                raise
            return self._expect_empty(message, index, end, prompt)
        if not expectation.written:
            # A model writes its calls where a text would be.
            text = message["content"] or SOMETHING
            plain = {**message, "content": text}
            del plain["tool_calls"]
            other = self._expect_message(plain, index, end, prompt)
            with_calls = other.text.replace(text, str(message["content"]) + calls_as_text(message["tool_calls"]))
            return replace(other, text=with_calls, as_last=expectation.as_last)
        if message.get("tool_calls") or "reasoning_content" in message or str(message["content"]).strip():
            return expectation
        # Some templates leave out a turn without text, or its end: a model does not.
        other = self._expect_empty(message, index, end, prompt)
        return expectation if expectation.stop == other.stop else other

    def _expect_empty(self, message: Message, index: int, end: int, prompt: str) -> Expectation:
        """Return a turn without text, told from one with text."""
        other = self._expect_message({**message, "content": SOMETHING}, index, end, prompt)
        return replace(other, text=other.text.replace(SOMETHING, ""))

    def _expect_message(self, message: Message, index: int, end: int, prompt: str) -> Expectation:
        before, after = self._written[:index], self._written[index + 1 : end]
        return expect(
            message,
            prompt=prompt,
            whole=self._render([*before, message], generation_prompt=False),
            following=lambda: self._render([*before, message, *after]),
            find=self.reference.find,
            eos=self.reference.eos,
        )

    def _render(self, messages: Sequence[Message], *, generation_prompt: bool = True) -> str:
        return self.reference.render(messages, self.shape.tools, generation_prompt=generation_prompt)

    def _in_place(self, prompt: str, text: str) -> list[int]:
        """Return the ids of a sampled text, as the tokenizer splits it after the prompt where that is possible."""
        before, joint = self.reference.encode(prompt), self.reference.encode(prompt + text)
        return joint[len(before) :] if joint[: len(before)] == before else self.reference.encode(text)

    def _cut_character(self, ids: list[int], held: Message) -> tuple[list[int], Message]:
        """Take ids away until a character is left incomplete; a vocabulary that has it whole loses nothing."""
        beginning = str(held["content"]).split()[0]
        for count in range(1, min(8, len(ids))):
            decoded = self.tokenizer.decode(ids[:-count])
            if decoded.endswith("\ufffd") and beginning in decoded:
                return ids[:-count], {**held, "content": decoded[decoded.index(beginning) :]}
        return ids, held

    def _stop_ids(self, stop: str, ending: Ending) -> list[int]:
        control = self.reference.control
        if ending is Ending.STOP:
            return [control[stop]] if stop else []
        if ending is Ending.OTHER_STOP:
            others = ("<|endoftext|>", "</s>", "<|end_of_text|>", self.reference.eos)
            other = next((token for token in others if token in control and token != stop), None)
            return [control[other]] if other else []
        return []


class TemplateRefusedError(Exception):
    """The template refuses a conversation as a whole that the incremental form took."""


def _refused(written: Sequence[Message], held: Sequence[Message]) -> tuple[Cause, ...]:
    """Return what of the messages that the host holds was left out or changed for the template."""
    pairs = [(one, other) for one, other in zip(written, held, strict=True) if one != other]
    kinds = (("reasoning_content", Cause.REASONING_REFUSED), ("tool_calls", Cause.ARGUMENTS_REFUSED))
    return tuple(cause for key, cause in kinds if any(one.get(key) != other.get(key) for one, other in pairs))


def _finish_reason(ending: Ending) -> str:
    cut = (Ending.CUT_TEXT, Ending.CUT_CHARACTER, Ending.CUT_REASONING, Ending.CUT_CALL)
    return "length" if ending in cut else "abort" if ending is Ending.EMPTY else "stop"


def _without_reasoning(message: Message, ending: Ending) -> tuple[Message, Ending]:
    """Return a message without its reasoning; what was to be cut in it is cut in its text instead."""
    plain = {key: value for key, value in message.items() if key != "reasoning_content"}
    if ending is Ending.CUT_REASONING:
        return {**plain, "content": message["reasoning_content"]}, Ending.CUT_TEXT
    return plain, ending


def _ended(message: Message, expectation: Expectation, ending: Ending) -> tuple[str, Message]:
    """Return a turn's text as far as it came, and the message the host makes of it."""
    text = expectation.text
    held = dict(as_parsed(message, text))
    if ending is Ending.EMPTY:
        return "", {**held, "content": ""}
    if ending is Ending.CUT_TEXT:
        return _cut(text, held, "content")
    if ending is Ending.CUT_REASONING:
        return _cut(text, held, "reasoning_content")
    if ending in (Ending.STOP_STRING, Ending.OTHER_STOP):
        return text[: text.rfind(held["content"]) + len(held["content"])] if held["content"] in text else text, held
    if ending is Ending.CUT_CALL:
        return text[: text.index("city") + 4] if "city" in text else text, held
    return text, held


def _cut(text: str, held: Message, key: str) -> tuple[str, Message]:
    whole = str(held[key])
    kept = whole[: len(whole) * 2 // 3].rstrip()
    start = text.find(whole)
    return text[: start + len(kept)] if start >= 0 else kept, {**held, key: kept}

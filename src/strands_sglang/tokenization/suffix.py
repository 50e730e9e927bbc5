"""What a template puts after a sampled turn, as text.

Owns the derivation: the real new messages are rendered behind a stand-in conversation whose last turn is a mark; the
text after the mark is the template's own end of turn, separator, new messages and generation prompt. Invariant:

    rendering = prompt of the stand-in (reasoning marks aside) + turn + closing of its last call + suffix.text

Renderings that must agree with each other do, or `TemplateNotExactError` says which do not. Never looks at sampled
text; its cost does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.errors import TemplateNotExactError, TokenizationError

from .reasoning import ReasoningMarks
from .stand_in import Message, Tools, TurnShape, mark, stand_in_turn
from .template import ChatTemplate, shape
from .turn_ends import TurnEnds, call_closing
from .vocabulary import ControlToken, Vocabulary

_CACHED = 256
_TEXT_MARK, _REASONING_MARK = 998, 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """The template's text after a sampled turn.

    Attributes:
        text: Everything after the turn's body, beginning with the turn end, content still disguised.
        start: Where in `text` a turn that did not end is closed: 0, or behind ordinary text that closes the calls.
        header: The stand-in's generation prompt, with which the turn's own prompt should end.
        ends: The control tokens a model may have sampled to end the turn, each with the position in `text` right after
            it: those of the turn end, or the first of the next role's header where the template writes no turn end.
        replaced: Ids of control tokens that end a turn in this template elsewhere (as last message, after calls, as
            another role's header) but not here: sampled here, the template has another token in their place.
    """

    text: str
    start: int
    header: str
    ends: tuple[tuple[ControlToken, int], ...]
    replaced: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """What is true of every suffix after turns of one shape.

    Attributes:
        prompt: The rendering that ends in the turn's generation prompt.
        header: The generation prompt alone; "" where it cannot be told apart.
        closing: What closes the last call, before the turn end; "" for a turn without calls.
        end: What stands behind the closing when nothing follows the turn.
        last: The control tokens in it.
        tools: The tools it was made with; held, so that their identity tells them.
        beside: Roles of new messages with which calls were seen to be written although there is text beside them.
    """

    prompt: str
    header: str
    closing: str
    end: str
    last: tuple[ControlToken, ...]
    tools: Tools
    beside: set[tuple[Any, ...]] = field(default_factory=set)


class SuffixSource:
    """Derives suffixes for one template."""

    def __init__(
        self, template: ChatTemplate, vocabulary: Vocabulary, marks: ReasoningMarks, turn_ends: TurnEnds
    ) -> None:
        """Create it.

        Args:
            template: The template.
            vocabulary: The tokenizer whose control tokens structure the template's text.
            marks: How reasoning is marked.
            turn_ends: How turns end in this template.
        """
        self._template = template
        self._vocabulary = vocabulary
        self._marks = marks
        self._turn_ends = turn_ends
        self._frames: dict[Any, _Frame] = {}

    def suffix(
        self,
        before: Sequence[Message],
        turn: TurnShape,
        new_messages: Sequence[Message],
        tools: Tools,
        marker: str,
        *,
        trailing: str = "",
    ) -> Suffix:
        """Return what the template puts after a turn.

        Args:
            before: The stand-in for the messages before the turn.
            turn: The turn's shape.
            new_messages: The messages after the turn.
            tools: The tools.
            marker: A character that none of them holds.
            trailing: Whitespace at the end of the text of a turn without calls; then `text` begins with what the
                template makes of it.
        """
        marked = stand_in_turn(turn.calls, marker, trailing=trailing)
        try:
            return self._behind(marked, before, turn, new_messages, tools, marker)
        except TemplateNotExactError as refusal:
            if not (turn.calls and turn.has_text):
                raise
            # Some templates open a turn with calls as they open any only where there is text beside the calls.
            beside = {**marked, "content": mark(marker, _TEXT_MARK)}
            try:
                return self._behind(beside, before, turn, new_messages, tools, marker)
            except TokenizationError:
                raise refusal from None

    def _behind(
        self,
        marked: dict[str, Any],
        before: Sequence[Message],
        turn: TurnShape,
        new_messages: Sequence[Message],
        tools: Tools,
        marker: str,
    ) -> Suffix:
        whole = self._template.render([*before, marked, *new_messages], tools)
        if turn.calls and marker not in whole:
            marked = self._without_ignored_calls(whole, before, marked, new_messages, tools, marker)
            turn = TurnShape(calls=(), has_text=turn.has_text, has_reasoning=turn.has_reasoning)
            whole = self._template.render([*before, marked, *new_messages], tools)
        self._check_once(whole, marked, len(turn.calls), marker)
        if not turn.calls and not turn.has_text:
            self._check_empty(whole, before, turn, new_messages, tools, marker)
        history, tail = whole[: whole.index(marker)], whole.rpartition(marker)[2]
        frame = self._frame(before, turn, marked, tools, marker, (history, tail))
        self._check_history(frame.prompt, history, marked)
        if turn.calls and turn.has_text and (roles := _roles(new_messages)) not in frame.beside:
            self._check_text_beside_calls(before, turn, new_messages, tools, marker)
            frame.beside.add(roles)
        text = tail[self._closed(tail, frame, marked) :]
        ends = self._ends(text, frame.last)
        enders = {token.id for token in (*frame.last, *self._turn_ends.stops)}
        if not frame.last:
            enders |= {token.id for token in self._turn_ends.others}
        return Suffix(
            text=text,
            start=self._start(text, frame, ends) if marked.get("tool_calls") else 0,
            header=frame.header,
            ends=ends,
            replaced=frozenset(enders - {token.id for token, _ in ends}),
        )

    def _closed(self, tail: str, frame: _Frame, marked: Message) -> int:
        """Return where the last call is closed in what follows its mark."""
        if tail.startswith(frame.closing):
            return len(frame.closing)
        # Some templates write more of a call once it is history, such as its id, and then close it the same way.
        close = frame.end[: next((match.end() for match in self._vocabulary.find(frame.end)), 0)]
        at = tail.find(close) if close else -1
        if at < 0 or next(self._vocabulary.find(tail[:at]), None) is not None:
            raise self._not_exact(
                f"{shape([marked])} is closed by {frame.closing!r} when nothing follows and by "
                f"{tail[: len(frame.closing)]!r} when something does"
            )
        return at

    def _ends(self, text: str, last: Sequence[ControlToken]) -> tuple[tuple[ControlToken, int], ...]:
        """Return the tokens of the turn end: as many as end the turn as last message, or the first of what follows."""
        tokens = []
        for match in self._vocabulary.find(text):
            tokens.append((self._vocabulary.tokens[match[0]], match.end()))
            if len(tokens) >= max(len(last), 1):
                break
        same = [pair for pair, token in zip(tokens, last, strict=False) if pair[0] is token]
        return tuple(same or tokens)

    def _start(self, text: str, frame: _Frame, ends: Sequence[tuple[ControlToken, int]]) -> int:
        """Return where a turn is closed that did not end: at its end token, if ordinary text is in front of that."""
        first = next(self._vocabulary.find(text), None)
        if first is None or not text[: first.start()].strip():
            return 0
        # What is in front of the next role's header need not close the turn: only tokens that end one count.
        known = {*self._turn_ends.written, *frame.last[-1:]}
        return next((end - len(token.text) for token, end in ends if token in known), 0)

    # --- the frame ---------------------------------------------------------------------------------------

    def _frame(
        self,
        before: Sequence[Message],
        turn: TurnShape,
        marked: Message,
        tools: Tools,
        marker: str,
        around: tuple[str, str],
    ) -> _Frame:
        """Return the frame of turns of one shape, made anew where ids of calls make a difference to what is around."""
        names = tuple(call["function"]["name"] for call in turn.calls)
        key = (_without_ids(before), names, turn.has_text, bool(marked["content"]), id(tools), marker)
        frame = self._frames.get(key)
        history, tail = around
        if frame is None or not (tail.startswith(frame.closing) and self._marks.goes_on(frame.prompt, history)):
            frame = self._new_frame(before, turn, marked, tools, marker)
            if len(self._frames) >= _CACHED:
                self._frames.clear()
            self._frames[key] = frame
        return frame

    def _new_frame(
        self, before: Sequence[Message], turn: TurnShape, marked: Message, tools: Tools, marker: str
    ) -> _Frame:
        prompt = self._template.render(before, tools)
        bare = self._template.try_render(before, tools)
        header = prompt[len(bare) :] if bare is not None and prompt.startswith(bare) else ""
        if not header:
            self._check_header(prompt, before, tools, marker)
        last = self._template.try_render([*before, marked], tools) or ""
        tail = last.rpartition(marker)[2] if marker in last else ""
        closing = ""
        if turn.calls:
            closing = call_closing(
                *(self._template, self._vocabulary, before, turn.calls, tools, tail),
                marker=marker,
                stops=self._turn_ends.stops,
            )
        end = tail[len(closing) :]
        last_tokens = self._vocabulary.tokens_in(end)
        return _Frame(prompt=prompt, header=header, closing=closing, end=end, last=tuple(last_tokens), tools=tools)

    # --- what must agree ---------------------------------------------------------------------------------

    def _check_once(self, whole: str, marked: Message, calls: int, marker: str) -> None:
        """Require that the turn is written once, with each of its calls."""
        counts = [whole.count(mark(marker, i)) for i in range(max(calls, 1))]
        if calls and 0 in counts:
            written = sum(count > 0 for count in counts)
            raise self._not_exact(f"of {shape([marked])} it writes {written} of {calls} calls")
        if any(count != 1 for count in counts):
            raise self._not_exact(f"of {shape([marked])} it writes the same {max(counts)} times")
        if marked.get("tool_calls") and marked["content"]:
            text, _, rest = whole.partition(mark(marker, _TEXT_MARK))
            between = rest.partition(marker)[0]
            if marker in text or any(token in self._turn_ends.stops for token in self._vocabulary.tokens_in(between)):
                raise self._not_exact(f"it ends {shape([marked])} between its text and its calls")

    def _check_history(self, prompt: str, history: str, marked: Message) -> None:
        """Require that what the turn was sampled after stays as it is once the turn is history, reasoning aside."""
        if self._marks.goes_on(prompt, history):
            return
        common = self._vocabulary.common_length(prompt, history)
        start = max(0, common - 30)
        raise self._not_exact(
            f"once {shape([marked])} is history, what was before it is written differently: "
            f"{prompt[start : common + 30]!r} becomes {history[start : common + 30]!r}"
        )

    def _check_header(self, prompt: str, before: Sequence[Message], tools: Tools, marker: str) -> None:
        """Require that a template without a generation prompt writes nothing before an answer either."""
        answered = self._template.try_render([*before, stand_in_turn([], marker)], tools) or ""
        opening = answered.partition(marker)[0]
        if opening.startswith(prompt) and self._marks.without(opening[len(prompt) :]).strip():
            raise self._not_exact(
                f"it ignores add_generation_prompt, although it opens an answer with {opening[len(prompt) :]!r}"
            )

    def _check_text_beside_calls(
        self, before: Sequence[Message], turn: TurnShape, new_messages: Sequence[Message], tools: Tools, marker: str
    ) -> None:
        """Require that calls are written although there is text beside them."""
        marked = {**stand_in_turn(turn.calls, marker), "content": mark(marker, _TEXT_MARK)}
        text = self._template.try_render([*before, marked, *new_messages], tools, generation_prompt=True)
        if text is not None and not all(mark(marker, i) in text for i in range(len(turn.calls))):
            raise self._not_exact("it leaves out the calls of a turn that has text beside them")

    def _check_empty(
        self,
        whole: str,
        before: Sequence[Message],
        turn: TurnShape,
        new_messages: Sequence[Message],
        tools: Tools,
        marker: str,
    ) -> None:
        """Require that a turn without text is written like one with text."""
        empty: dict[str, str] = {"role": "assistant", "content": ""}
        if turn.has_reasoning:
            empty["reasoning_content"] = mark(marker, _REASONING_MARK)
            reasoned = [*before, {**empty, "content": mark(marker, 0)}, *new_messages]
            whole = self._template.try_render(reasoned, tools, generation_prompt=True) or whole
        text = self._template.try_render([*before, empty, *new_messages], tools, generation_prompt=True)
        if text is None or mark(marker, _REASONING_MARK) in text:
            return
        # Blanks around a text that is not there come and go.
        if _dense(self._marks.without(text)) != _dense(self._marks.without(whole.replace(mark(marker, 0), ""))):
            raise self._not_exact("it leaves out a turn that has no text, or writes it differently")

    def _without_ignored_calls(
        self,
        whole: str,
        before: Sequence[Message],
        marked: Message,
        new_messages: Sequence[Message],
        tools: Tools,
        marker: str,
    ) -> dict[str, Any]:
        """Return the turn as text for a template that writes no calls at all; refuse if it writes something of them."""
        bare = {key: value for key, value in marked.items() if key != "tool_calls"}
        if self._template.try_render([*before, bare, *new_messages], tools, generation_prompt=True) != whole:
            raise self._not_exact(f"of {shape([marked])} it writes no arguments")
        return {**bare, "content": mark(marker, 0)}

    def _not_exact(self, reason: str) -> TemplateNotExactError:
        return TemplateNotExactError(
            f"the chat template of {self._template.name} cannot be continued exactly: {reason}",
            model=self._template.name,
        )


def _dense(text: str) -> str:
    return "".join(text.split())


def _roles(messages: Sequence[Message]) -> tuple[Any, ...]:
    return tuple((message.get("role"), bool(message.get("tool_calls"))) for message in messages)


def _without_ids(value: Any) -> Any:
    """Return plain data as something that can be looked up, equal for stand-ins that differ in ids of calls alone."""
    if isinstance(value, Mapping):
        left_out = "id" if "function" in value else "tool_call_id"
        return tuple((key, _without_ids(item)) for key, item in value.items() if key != left_out)
    if isinstance(value, list | tuple):
        return tuple(map(_without_ids, value))
    return value if isinstance(value, str) else (type(value), value)

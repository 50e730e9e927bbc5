"""What a template puts after a sampled turn, as text.

Owns the derivation: the real new messages are rendered behind a stand-in conversation whose last turn is a mark; the
text after the mark is the template's own end of turn, separator, new messages and generation prompt. Invariant:

    rendering = prompt of the stand-in (reasoning marks aside) + turn + closing of its last call + suffix.text

Renderings that must agree with each other do, or `TemplateNotExactError` says which do not. Never looks at sampled
text; its cost does not grow with the history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.errors import ChatTemplateError, TemplateNotExactError

from .reasoning import ReasoningMarks
from .stand_in import USER, Message, Tools, mark, stand_in_turn
from .template import ChatTemplate, shape
from .vocabulary import ControlToken, Vocabulary

_CACHED = 256
_MARKER = "\U0010fffa"
_CALL = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {}}}
_RESULT: Message = {"role": "tool", "tool_call_id": "call00000", "name": "f", "content": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """The template's text after a sampled turn.

    Attributes:
        text: Everything after the turn's body, beginning with the turn end, content still disguised.
        header: The stand-in's generation prompt, with which the turn's own prompt should end.
        ends: The control tokens a model may have sampled to end the turn, each with the position in `text` right after
            it: those of the turn end, or the first of the next role's header where the template writes no turn end.
        replaced: Ids of control tokens that end a turn in this template elsewhere (as last message, after calls, as
            another role's header) but not here: sampled here, the template has another token in their place.
    """

    text: str
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
        last: Control tokens that end the turn as the last message, in order.
    """

    prompt: str
    header: str
    closing: str
    last: tuple[ControlToken, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnds:
    """How turns end in a template, over all shapes.

    Attributes:
        stops: Tokens a model stops on: what the template writes after its last turn, or the next role's header.
        others: Further tokens that a template with the next role's header as turn end may be stopped by.
    """

    stops: tuple[ControlToken, ...]
    others: tuple[ControlToken, ...]


class SuffixSource:
    """Derives suffixes for one template.

    Attributes:
        turn_ends: How turns end in this template.
    """

    def __init__(self, template: ChatTemplate, vocabulary: Vocabulary, marks: ReasoningMarks) -> None:
        """Create it.

        Args:
            template: The template.
            vocabulary: The tokenizer whose control tokens structure the template's text.
            marks: How reasoning is marked.
        """
        self._template = template
        self._vocabulary = vocabulary
        self._marks = marks
        self._frames: dict[str, _Frame] = {}
        self.turn_ends = self._find_turn_ends()

    def suffix(
        self,
        before: Sequence[Message],
        calls: Sequence[Mapping[str, Any]],
        new_messages: Sequence[Message],
        tools: Tools,
        marker: str,
        *,
        trailing: str = "",
    ) -> Suffix:
        """Return what the template puts after a turn.

        Args:
            before: The stand-in for the messages before the turn.
            calls: The calls of the turn, with their real names and ids.
            new_messages: The messages after the turn.
            tools: The tools.
            marker: A character that none of them holds.
            trailing: Whitespace at the end of the text of a turn without calls; then `text` begins with what the
                template makes of it.
        """
        turn = stand_in_turn(calls, marker, trailing=trailing)
        whole = self._template.render([*before, turn, *new_messages], tools)
        if calls and marker not in whole:
            calls, turn = (), self._without_ignored_calls(whole, [before, turn, new_messages], tools, marker)
            whole = self._template.render([*before, turn, *new_messages], tools)
        frame = self._frame(before, calls, tools, marker)
        tail = self._after_turn(whole, turn, len(calls), marker)
        self._check_history(frame.prompt, whole[: whole.index(marker)], turn)
        if not tail.startswith(frame.closing):
            frame = self._new_frame(before, calls, tools, marker)
        if not tail.startswith(frame.closing):
            raise self._not_exact(
                f"{shape([turn])} is closed by {frame.closing!r} when nothing follows and by "
                f"{tail[: len(frame.closing)]!r} when something does"
            )
        text = tail[len(frame.closing) :]
        ends = self._ends(text, frame.last)
        enders = {token.id for token in (*frame.last, *self.turn_ends.stops)}
        if not frame.last:
            enders |= {token.id for token in self.turn_ends.others}
        return Suffix(
            text=text,
            header=frame.header,
            ends=ends,
            replaced=frozenset(enders - {token.id for token, _ in ends}),
        )

    def _without_ignored_calls(self, whole: str, parts: Any, tools: Tools, marker: str) -> dict[str, Any]:
        """Return the turn as text for a template that writes no calls at all; refuse if it writes something of them."""
        before, turn, new_messages = parts
        bare = {key: value for key, value in turn.items() if key != "tool_calls"}
        if self._render([*before, bare, *new_messages], tools, generation_prompt=True) != whole:
            raise self._not_exact(f"it writes no arguments of {shape([turn])}")
        return {**bare, "content": mark(marker, 0)}

    def _frame(
        self, before: Sequence[Message], calls: Sequence[Mapping[str, Any]], tools: Tools, marker: str
    ) -> _Frame:
        names = [call["function"]["name"] for call in calls]
        key = json.dumps([before, names, tools, marker])
        frame = self._frames.get(key)
        if frame is None:
            frame = self._new_frame(before, calls, tools, marker)
            if len(self._frames) >= _CACHED:
                self._frames.clear()
            self._frames[key] = frame
        return frame

    def _new_frame(
        self, before: Sequence[Message], calls: Sequence[Mapping[str, Any]], tools: Tools, marker: str
    ) -> _Frame:
        prompt = self._template.render(before, tools)
        bare = self._render(before, tools)
        header = prompt[len(bare) :] if bare is not None and prompt.startswith(bare) else ""
        if not header:
            self._check_header(prompt, before, tools, marker)
        last = self._render([*before, stand_in_turn(calls, marker)], tools)
        after = last.rpartition(marker)[2] if last is not None else ""
        closing = self._closing(after, before, calls, tools, marker) if calls else ""
        return _Frame(
            prompt=prompt,
            header=header,
            closing=closing,
            last=tuple(self._tokens(after[len(closing) :])),
        )

    def _after_turn(self, whole: str, turn: Message, calls: int, marker: str) -> str:
        count = [whole.count(mark(marker, i)) for i in range(max(calls, 1))]
        if count != [1] * len(count):
            raise self._not_exact(f"of {shape([turn])} it renders the parts {count} times instead of once each")
        return whole.rpartition(marker)[2]

    def _check_history(self, prompt: str, history: str, turn: Message) -> None:
        """Require that what the turn was sampled after stays as it is once the turn is history, reasoning aside."""
        if history.startswith(prompt) or self._marks.without(history).startswith(self._marks.without(prompt)):
            return
        common = common_length(prompt, history)
        start = max(0, common - 30)
        raise self._not_exact(
            f"once {shape([turn])} is history, what was before it is rendered differently: "
            f"{prompt[start : common + 30]!r} becomes {history[start : common + 30]!r}"
        )

    def _check_header(self, prompt: str, before: Sequence[Message], tools: Tools, marker: str) -> None:
        """Require that a template without a generation prompt writes nothing before an answer either."""
        answered = self._render([*before, stand_in_turn([], marker)], tools)
        if answered is None:
            return
        opening = answered.partition(marker)[0]
        if opening.startswith(prompt) and self._marks.without(opening[len(prompt) :]):
            raise self._not_exact(
                f"it ignores add_generation_prompt, although it opens an answer with {opening[len(prompt) :]!r}"
            )

    def _closing(
        self, after: str, before: Sequence[Message], calls: Sequence[Mapping[str, Any]], tools: Tools, marker: str
    ) -> str:
        """Return what closes a call, apart from what ends the turn: the part that another call would follow, too."""
        two = stand_in_turn([*calls, {**calls[-1], "id": f"{str(calls[-1].get('id'))[:-1]}z"}], marker)
        text = self._render([*before, two], tools)
        limit = self._first(after, {token.id for token in self.turn_ends.stops})
        if text is None or not (text.count(mark(marker, len(calls))) == text.count(mark(marker, len(calls) - 1)) == 1):
            tokens = list(self._vocabulary.find(after))
            special = [m.start() for m in tokens if self._vocabulary.tokens[m[0]].special]
            return after[: min(limit, *(special or [m.start() for m in tokens]), len(after))]
        inner, outer = text.rpartition(mark(marker, len(calls) - 1))[2], text.rpartition(marker)[2]
        length = common_length(inner, outer)
        for side in (inner, outer):
            for match in self._vocabulary.find(side):
                if match.start() < length < match.end():
                    length = match.start()
        return outer[: min(length, limit)]

    def _ends(self, text: str, last: Sequence[ControlToken]) -> tuple[tuple[ControlToken, int], ...]:
        tokens = []
        for match in self._vocabulary.find(text):
            tokens.append((self._vocabulary.tokens[match[0]], match.end()))
            if len(tokens) >= max(len(last), 1):
                break
        same = [pair for pair, token in zip(tokens, last, strict=False) if pair[0] is token]
        return tuple(same or tokens)

    def _first(self, text: str, ids: Iterable[int]) -> int:
        wanted = set(ids)
        found = (m.start() for m in self._vocabulary.find(text) if self._vocabulary.tokens[m[0]].id in wanted)
        return next(found, len(text))

    def _tokens(self, text: str) -> list[ControlToken]:
        return [self._vocabulary.tokens[match[0]] for match in self._vocabulary.find(text)]

    def _find_turn_ends(self) -> TurnEnds:
        """Find what ends turns, from the smallest conversations the template can render."""
        eos = [self._vocabulary.eos] if self._vocabulary.eos else []
        text, call = stand_in_turn([], _MARKER), stand_in_turn([_CALL], _MARKER)
        after_text = self._last_tail([USER, text])
        after_call = self._last_tail([USER, call])
        headers = [
            *self._tokens(self._last_tail([USER, text, USER]))[:1],
            *self._tokens(self._last_tail([USER, call, _RESULT]))[:1],
            *self._tokens(self._last_tail([{"role": "user", "content": mark(_MARKER, 0)}], generation_prompt=True))[:1],
        ]
        if tokens := self._tokens(after_text):
            known = {*tokens, *eos}
            stops = [tokens[0]]
            ends = self._tokens(after_call)
            if ends and known.isdisjoint(ends):
                stops.append(next((token for token in ends if token.special), ends[-1]))
            return TurnEnds(stops=tuple(dict.fromkeys(stops)), others=tuple(dict.fromkeys([*eos])))
        return TurnEnds(stops=tuple(dict.fromkeys(headers[:2])), others=tuple(dict.fromkeys([*eos, *headers])))

    def _last_tail(self, messages: Sequence[Message], *, generation_prompt: bool = False) -> str:
        text = self._render(messages, (), generation_prompt=generation_prompt)
        return "" if text is None or _MARKER not in text else text.rpartition(_MARKER)[2]

    def _render(self, messages: Sequence[Message], tools: Tools, *, generation_prompt: bool = False) -> str | None:
        try:
            return self._template.render(messages, tools, generation_prompt=generation_prompt)
        except ChatTemplateError:
            return None

    def _not_exact(self, reason: str) -> TemplateNotExactError:
        return TemplateNotExactError(
            f"the chat template of {self._template.name} cannot be continued exactly: {reason}",
            model=self._template.name,
        )


def common_length(one: str, other: str) -> int:
    """Return the length of the longest common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

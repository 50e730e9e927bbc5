"""What ends a turn in a template.

Owns the tokens a model may stop on and the text that closes a call, both read off the template's renderings of very
short conversations. Invariant: what closes a call is what the template also writes before a further call; what ends the
turn comes after it. Never takes a token for a turn end because of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .stand_in import USER, Message, Tools, mark, stand_in_turn
from .template import ChatTemplate
from .vocabulary import ControlToken, Vocabulary

MARKER = "\U0010fffa"
_CALL = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {}}}
_RESULT: Message = {"role": "tool", "tool_call_id": "call00000", "name": "f", "content": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnds:
    """How turns end in a template, over all shapes.

    Attributes:
        stops: Tokens a model stops on: what the template writes after its last turn, or else the next role's header.
        others: Further tokens it may be stopped by: its end-of-sequence token and, where the template writes no turn
            end, the header of an answer.
        header: The control token that the header of an answer begins with, or the last one before an answer.
        written: Tokens that the template writes at the end of a turn that nothing follows.
    """

    stops: tuple[ControlToken, ...]
    others: tuple[ControlToken, ...]
    header: tuple[ControlToken, ...]
    written: tuple[ControlToken, ...]


def find_turn_ends(template: ChatTemplate, vocabulary: Vocabulary) -> TurnEnds:
    """Return what ends turns, found in the smallest conversations the template can render."""
    text, call = stand_in_turn([], MARKER), stand_in_turn([_CALL], MARKER)
    asked = {"role": "user", "content": mark(MARKER, 0)}
    written = vocabulary.tokens_in(_tail(template, [USER, text]))[:1]
    after_text = written or vocabulary.tokens_in(_tail(template, [USER, text, USER]))[:1]

    last = _tail(template, [USER, call])
    closing = call_closing(template, vocabulary, [USER], [_CALL], (), last, stops=after_text)
    after_call = vocabulary.tokens_in(last[len(closing) :])
    after_last_call = after_call[:1]
    if not after_call:
        after_call = vocabulary.tokens_in(_tail(template, [USER, call, _RESULT])[len(closing) :])[:1]

    others = [vocabulary.eos] if vocabulary.eos else []
    known = [*after_text, *others]
    asked_for, unasked = (_tail(template, [asked], generation_prompt=flag) for flag in (True, False))
    if not written:
        others += vocabulary.tokens_in(asked_for)[:1]
    header = vocabulary.tokens_in(asked_for.removeprefix(unasked))[:1] or vocabulary.tokens_in(asked_for)[-1:]
    stops = [*after_text, *(() if any(token in known for token in after_call) else after_call[:1])]
    return TurnEnds(
        stops=tuple(dict.fromkeys(stops)),
        others=tuple(dict.fromkeys(others)),
        header=tuple(header),
        written=tuple(dict.fromkeys([*written, *after_last_call])),
    )


def call_closing(
    template: ChatTemplate,
    vocabulary: Vocabulary,
    before: Sequence[Message],
    calls: Sequence[Mapping[str, Any]],
    tools: Tools,
    tail: str,
    *,
    marker: str = MARKER,
    stops: Sequence[ControlToken],
) -> str:
    """Return what closes the last call of a turn, apart from what ends the turn.

    Args:
        template: The template.
        vocabulary: The tokenizer's view.
        before: The messages before the turn.
        calls: The calls of the turn.
        tools: The tools.
        tail: What the template writes after the mark of the last call when nothing follows the turn.
        marker: The character that marks are made of.
        stops: Tokens known to end turns.
    """
    limit = next((m.start() for m in vocabulary.find(tail) if vocabulary.tokens[m[0]] in stops), len(tail))
    further = {**calls[-1], "id": f"{str(calls[-1].get('id'))[:-1]}z"}
    text = template.try_render([*before, stand_in_turn([*calls, further], marker)], tools)
    marks = [mark(marker, len(calls) - 1), mark(marker, len(calls))]
    if text is None or [text.count(one) for one in marks] != [1, 1]:
        # One call is all this template writes: its end is where the first special token stands.
        tokens = list(vocabulary.find(tail))
        special = [m.start() for m in tokens if vocabulary.tokens[m[0]].special]
        return tail[: min([limit, *(special or [m.start() for m in tokens])])]
    inner, outer = text.partition(marks[0])[2].partition(marker)[0], text.partition(marks[1])[2]
    return outer[: min(vocabulary.common_length(inner, outer), limit)]


def _tail(template: ChatTemplate, messages: Sequence[Message], *, generation_prompt: bool = False) -> str:
    text = template.try_render(messages, (), generation_prompt=generation_prompt) or ""
    return text.rpartition(MARKER)[2] if MARKER in text else ""

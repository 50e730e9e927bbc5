"""Where the parts of a prompt stand in the whole rendering.

Owns the search. A prompt is a chain `P0 S1 P1 S2 P2 ...` of prompt parts and sampled turns; the whole rendering has to
be `P0 X1 P1 X2 P2 ...`, with the very ids of every prompt part, in order. Two things may be amiss in a part: marks of
reasoning at the end of a generation prompt, which templates take back once the turn is history, and text there that
merges with what follows once both are encoded in one. Never forgives anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .rehearsal import Incremental, PlayedTurn, Reference, Step
from .shape import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What stands between two prompt parts.

    Attributes:
        lead: What of the part before it belongs to it.
        closing: What of the part after it closes the turn: only after a turn that did not end by itself.
        found: What the whole rendering has there.
    """

    lead: str
    closing: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A part in the whole rendering: from `start` to `end`, without `closing` before and `rest` behind it."""

    closing: str
    start: int
    end: int
    rest: str


class Scale:
    """What prompts are compared by: ids, or texts where the reference cannot encode what the prompts hold.

    Ids are compared as strings of one character each: to search for a run of ids is then to search for a text.
    """

    def __init__(self, tokenizer: Incremental, reference: Reference, *, by_text: bool) -> None:
        """Create the scale.

        Args:
            tokenizer: Decodes ids.
            reference: Encodes whole renderings.
            by_text: Compare texts.
        """
        self._tokenizer = tokenizer
        self._reference = reference
        self._by_text = by_text
        self._control_ids = frozenset(reference.control.values())

    def of_ids(self, ids: Sequence[int]) -> str:
        """Return ids on this scale."""
        return self._tokenizer.decode(ids) if self._by_text else "".join(map(chr, ids))

    def of_text(self, text: str) -> str:
        """Return a rendering on this scale."""
        return text if self._by_text else self.of_ids(self._reference.encode(text))

    def to_text(self, part: str) -> str:
        """Return the text of what is on this scale."""
        return part if self._by_text else self._tokenizer.decode([ord(character) for character in part])

    def control_spans(self, part: str) -> list[tuple[int, int]]:
        """Return where control tokens begin and end."""
        if self._by_text:
            return [match.span() for match in self._reference.find(part)]
        return [(i, i + 1) for i, character in enumerate(part) if ord(character) in self._control_ids]


def align(step: Step, whole: str, scale: Scale) -> list[Span] | str:
    """Find every prompt part in the whole rendering; return what is between them, or what is wrong in words.

    Args:
        step: The prompt in its parts.
        whole: The whole rendering on the scale.
        scale: What they are compared by.
    """
    furthest = 0

    def search(number: int, start: int, lead: str) -> list[Span] | None:
        """Return what is between the parts from `number` on, with the first way to place them all."""
        nonlocal furthest
        if number == len(step.prompts):
            return []
        furthest = max(furthest, number)
        turn = step.turns[number - 1] if number else None
        tail = step.turns[number].prompt_tail if number < len(step.turns) else None
        for place in _places(whole, start, scale.of_ids(step.prompts[number]), tail, turn, scale):
            behind = search(number + 1, place.end, place.rest)
            if behind is not None:
                span = Span(lead=lead, closing=place.closing, found=whole[start : place.start])
                return [span, *behind] if turn is not None else behind
        return None

    spans = search(0, 0, "")
    if spans is not None:
        return spans
    if furthest:
        return f"the whole rendering does not hold what was put after sampled turn {furthest}"
    return "the whole rendering does not begin with the first prompt: later messages change what was there"


def _places(
    whole: str, start: int, part: str, tail: str | None, turn: PlayedTurn | None, scale: Scale
) -> Iterator[_Place]:
    """Yield where a prompt part stands in the whole rendering, the closest form of it first.

    Args:
        whole: The whole rendering.
        start: Where the part before it ended.
        part: The part.
        tail: The marks at its end that history may lack; None for the last part, which ends the rendering.
        turn: The turn before it, or None for the first part, which begins the rendering.
        scale: What they are compared by.
    """
    ended = turn is None or turn.ending is Ending.STOP
    for closed in [0] if ended else dict.fromkeys([0, *(start for start, _ in scale.control_spans(part))]):
        for form, rest in _forms(part[closed:], tail, scale):
            if tail is None:
                position = max(len(whole) - len(form), start)
            else:
                position = 0 if turn is None else whole.find(form, start)
            if position >= 0 and whole.startswith(form, position):
                yield _Place(closing=part[:closed], start=position, end=position + len(form), rest=rest)


def _forms(part: str, tail: str | None, scale: Scale) -> Iterator[tuple[str, str]]:
    """Yield a prompt part as history may have it, each with what of its end belongs to the turn then."""
    yield part, ""
    if tail is None:
        return
    text, plain = scale.to_text(part), part
    if tail and text.endswith(tail):
        cut = next((n for n in range(1, len(part) + 1) if scale.to_text(part[-n:]) == tail), None)
        plain = scale.of_text(text.removesuffix(tail)) if cut is None else part[:-cut]
        yield plain, ""
    _, end = max(scale.control_spans(plain), default=(0, 0))
    if 0 < end < len(part) and part.startswith(plain[:end]):
        yield part[:end], part[end:]

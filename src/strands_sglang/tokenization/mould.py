"""Suffixes that were derived before, with holes where other texts go.

Owns the moulds of one tokenizer: what was proven of a suffix, by the outline of what it was derived from. Invariant: a
cast is what `SuffixSource` would derive from the same data, or there is none. A mould is made the second time an
outline is met, a few times for one outline at most, and only where the proof's own text is the one that was derived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .calm import Calm
from .disguise import Disguise
from .outline import Outline
from .proof import Prover
from .sealed import FIRST_PLACE, PLACES, Proof, Slot, Step, UnprovableError, json_inner
from .stand_in import TurnShape
from .suffix import Suffix

_KEPT, _TRIES = 1024, 4
# A proof takes as long as some ten casts save, and casts pay for proofs: where every conversation has an outline of its
# own, or nothing can be proven, no more than the first few are wasted, and later one in a thousand derivations.
_PRICE, _ADVANCE, _ALMS = 10.0, 320.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Mould:
    """A suffix with holes, and when it may be used.

    Attributes:
        suffix: The suffix; its text is the first piece.
        pieces: The text between the holes.
        holes: The slots that go between the pieces.
        steps: What gives the slots that are no leaves, by their numbers.
        conditions: What must have the same result again.
        printed: Slots that are no leaves and that a rendering shows: they must be calm, too.
        tight: Printed slots that must not begin or end in blanks, as they stand before the turn.
        unsure: Texts of new messages that no hole is certain to hold.
    """

    suffix: Suffix
    pieces: tuple[str, ...]
    holes: tuple[int, ...]
    steps: tuple[tuple[int, Step], ...]
    conditions: tuple[tuple[Step, Any], ...]
    printed: tuple[int, ...]
    tight: tuple[int, ...]
    unsure: tuple[int, ...]

    def cast(self, leaves: Sequence[str], calm: Calm) -> Suffix | None:
        """Return the suffix with other leaves, or None where they are not known to go in."""
        values: dict[int, str] = dict(enumerate(leaves))
        try:
            for number, step in self.steps:
                values[number] = step.run(values)
            for step, expected in self.conditions:
                result = step.run(values)
                if result != expected or type(result) is not type(expected):
                    return None
        except Exception:  # a step that cannot be taken: these leaves are of another kind
            return None
        if not all(calm.is_calm(values[number]) for number in self.printed):
            return None
        if any(values[number] != values[number].strip() for number in self.tight):
            return None
        parts = [self.pieces[0]]
        for number, piece in zip(self.holes, self.pieces[1:], strict=True):
            parts += (values[number], piece)
        text, known = "".join(parts), self.suffix
        if not all(values[number].strip() in text for number in self.unsure):
            return None
        return Suffix(text=text, start=known.start, header=known.header, ends=known.ends, replaced=known.replaced)


@dataclass(slots=True)
class _Entry:
    """What is known of one outline."""

    moulds: list[Mould] = field(default_factory=list)
    tries: int = 0


class Moulds:
    """The moulds of one tokenizer. Several threads may use it: at worst they learn the same twice."""

    def __init__(self, prover: Prover, calm: Calm) -> None:
        """Create it, empty."""
        self._prover = prover
        self._calm = calm
        self._entries: dict[Any, _Entry] = {}
        self._credit = _ADVANCE

    def cast(self, outline: Outline) -> Suffix | None:
        """Return the suffix that would be derived, or None where no mould is known to give it."""
        entry = self._entries.get(outline.key)
        if entry is None or not entry.moulds or not self._all_calm(outline):
            return None
        for mould in entry.moulds:
            if (suffix := mould.cast(outline.leaves, self._calm)) is not None:
                self._credit = min(self._credit + 1, _ADVANCE)
                return suffix
        return None

    def learn(
        self, outline: Outline, suffix: Suffix, given: Mapping[str, Any], turn: TurnShape, disguise: Disguise
    ) -> None:
        """Make a mould of a suffix, if its outline was met before and the template allows it.

        Args:
            outline: The outline and leaves of what it was derived from.
            suffix: The suffix as it was derived.
            given: The disguised data that it was derived from.
            turn: The turn's shape.
            disguise: The disguise.
        """
        entry = self._entries.get(outline.key)
        if entry is None:
            if len(self._entries) >= _KEPT:
                self._entries.clear()
            self._entries[outline.key] = _Entry()
            return
        if self._credit < _PRICE:
            self._credit += _ALMS
            return
        if entry.tries >= _TRIES:
            return
        if not disguise.idle or not self._all_calm(outline):
            return
        entry.tries += 1
        self._credit -= _PRICE
        try:
            block = (disguise.first, disguise.last)
            mould = _made(outline, *self._prover.prove(outline, given, turn, disguise.marker, block))
        except (UnprovableError, Exception):  # templates are foreign code: what goes wrong proves nothing
            return
        if mould.cast(outline.leaves, self._calm) == suffix:
            entry.moulds.append(mould)

    def _all_calm(self, outline: Outline) -> bool:
        calm = self._calm
        return (
            all(map(calm.is_calm, outline.leaves))
            and all(text == text.strip() for text in outline.ids)
            and calm.all_need_no_disguise(outline.arguments)
        )


def _made(outline: Outline, suffix: Suffix, proof: Proof, shown: frozenset[int]) -> Mould:
    """Return the mould of a suffix with places."""
    holes = tuple(ord(place) - FIRST_PLACE for place in PLACES.findall(suffix.text))
    unsure = [leaf for leaf in outline.contents if not any(_shows(proof, hole, leaf) for hole in holes)]
    depends: list[set[int]] = []
    for number, step in enumerate(proof.steps):
        depends.append({number} if step is None else set().union(*(depends[slot] for slot in _slots(step))))
    needed = {*holes, *shown, *(slot for step, _ in proof.conditions.values() for slot in _slots(step))}
    for number in range(len(proof.steps) - 1, -1, -1):
        if number in needed and (step := proof.steps[number]) is not None:
            needed.update(_slots(step))
    ids = set(outline.ids.values())
    steps = [(number, step) for number, step in enumerate(proof.steps) if step is not None and number in needed]
    return Mould(
        suffix=suffix,
        pieces=tuple(PLACES.split(suffix.text)),
        holes=holes,
        steps=tuple(steps),
        conditions=tuple(proof.conditions.values()),
        printed=tuple(number for number, _ in steps if number in shown),
        tight=tuple(number for number, _ in steps if number in shown and depends[number] & ids),
        unsure=tuple(unsure),
    )


def _slots(step: Step) -> list[int]:
    return [operand.number for operand in step.operands if type(operand) is Slot]


def _shows(proof: Proof, hole: int, leaf: int) -> bool:
    """Return whether a hole holds all of a leaf, blanks around it aside, as it is or in JSON."""
    if hole == leaf:
        return True
    step = proof.steps[hole]
    if step is None:
        return False
    trims = step.function in (str.strip, str.lstrip, str.rstrip) and step.operands[1:] in ((), (None,))
    in_json = step.function is json_inner and step.operands[1] is False
    return (trims or in_json) and _shows(proof, step.operands[0].number, leaf)

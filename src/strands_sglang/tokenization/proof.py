"""Deriving a suffix with places instead of texts.

Owns the proof that a suffix depends on the texts it is given only as its record says. The template is rendered on
sealed texts; everything else that a derivation does with renderings either gives the same with a text in a place, as
the text is calm, or is refused here. Invariant: with leaves under which the recorded conditions have the same results,
and where every text that the template prints is calm, `SuffixSource.suffix` gives this suffix with the texts in their
places.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.errors import ChatTemplateError, TokenizationError

from .calm import BEGUN_ESCAPE
from .escapes import in_use
from .outline import Outline, with_leaves
from .reasoning import ReasoningMarks
from .sealed import FIRST_PLACE, PLACES, Proof, UnprovableError
from .stand_in import Message, Tools, TurnShape, stand_in_turn
from .suffix import Suffix, SuffixSource
from .template import ChatTemplate, compile_for_proof
from .turn_ends import TurnEnds
from .vocabulary import Vocabulary

_ESCAPE_BEFORE = re.compile(rf"{BEGUN_ESCAPE}{PLACES.pattern}")
_SPELLED = re.compile(rf"{PLACES.pattern}|\\U000[fF]")


class Prover:
    """Proves suffixes of one template."""

    def __init__(
        self, template: ChatTemplate, vocabulary: Vocabulary, marks: ReasoningMarks, turn_ends: TurnEnds
    ) -> None:
        """Create it; the arguments are those of `SuffixSource`."""
        self._template = template
        self._marks = marks
        self._turn_ends = turn_ends
        self._vocabulary = _Vocabulary(vocabulary)

    def prove(
        self, outline: Outline, given: Mapping[str, Any], turn: TurnShape, marker: str, block: tuple[int, int]
    ) -> tuple[Suffix, Proof, frozenset[int]]:
        """Return a suffix with places, what it depends on, and the slots that any rendering showed.

        Args:
            outline: The outline, with leaves that are calm.
            given: The disguised "before", "calls", "new_messages" and "tools" that it is of.
            turn: The turn's shape.
            marker: The character of marks.
            block: First and last code point of the disguise.

        Raises:
            UnprovableError: If the template does something that is not known to be harmless.
        """
        proof = Proof(outline.leaves)
        if _SPELLED.search(json.dumps([given["before"], given["calls"], given["tools"]], ensure_ascii=False)):
            proof.fail("the characters of places are in use")
        places = {number: chr(FIRST_PLACE + number) for number in range(len(outline.leaves))}
        twice = {number: place * 2 for number, place in places.items()}
        stood = with_leaves(given, outline, places, twice)
        template = _ProvingTemplate(self._template, proof, _texts_of(proof, outline, places))
        source = _ProvingSource(template, self._vocabulary, self._marks, self._turn_ends)
        shaped = dataclasses.replace(turn, calls=stood["calls"])
        try:
            with in_use(*block):
                suffix = source.suffix(stood["before"], shaped, stood["new_messages"], given["tools"], marker)
        except TokenizationError as error:
            proof.fail(f"refused with places: {error}")
        if proof.failed:
            raise UnprovableError(proof.failed)
        return suffix, proof, frozenset(template.shown)


def _texts_of(proof: Proof, outline: Outline, places: Mapping[int, str]) -> dict[str, Any]:
    """Return the sealed texts by what stands for them in messages.

    An id stands for itself by its place written twice, so that the further call that `call_closing` makes up, whose id
    ends in z, is told from it.
    """
    texts: dict[str, Any] = {places[number]: proof.at(number) for number in outline.contents}
    for number in outline.ids.values():
        texts[places[number] * 2] = proof.at(number)
        texts[f"{places[number]}z"] = proof.derive(_further_id, proof.at(number))
    return texts


def _further_id(text: str) -> str:
    return f"{text[:-1]}z"


class _ProvingTemplate(ChatTemplate):
    """A template that renders sealed texts."""

    def __init__(self, template: ChatTemplate, proof: Proof, texts: Mapping[str, Any]) -> None:
        self.__dict__ = copy.copy(template.__dict__)
        self.shown: set[int] = set()
        self._proof = proof
        self._texts = texts
        if _SPELLED.search(json.dumps([self._variables, self.sources], ensure_ascii=False, default=str)):
            proof.fail("the characters of places are in use")

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        generation_prompt: bool = True,
    ) -> str:
        try:
            return super()._render(self._sealed(messages), tools, generation_prompt=generation_prompt)
        except ChatTemplateError as error:
            # A template may refuse what it is asked; whatever else goes wrong may not go wrong for other texts.
            if type(error.__cause__).__name__ != "RefusalError":
                self._proof.fail(f"an error: {error}")
            raise

    def _compiled(self, name: str) -> Any:
        try:
            return _Rendering(compile_for_proof(self._named[name]), self)
        except Exception as error:
            self._proof.fail(f"not compiled: {error}")

    def _sealed(self, value: Any) -> Any:
        if isinstance(value, str):
            if (text := self._texts.get(value)) is None and PLACES.search(value):
                self._proof.fail("a place that is no text")
            return value if text is None else text
        if isinstance(value, Mapping):
            return {key: self._sealed(item) for key, item in value.items()}
        return [self._sealed(item) for item in value] if isinstance(value, list | tuple) else value

    def seen(self, text: str) -> str:
        """Note a rendering, and return it as a plain str."""
        text = getattr(text, "shown", text)
        self.shown.update(ord(place) - FIRST_PLACE for place in PLACES.findall(text))
        if _ESCAPE_BEFORE.search(text):
            self._proof.fail("a text that an escape could go on in")
        if self._proof.failed:
            raise UnprovableError(self._proof.failed)
        return text


class _Rendering:
    """A compiled template whose renderings are noted."""

    def __init__(self, template: Any, owner: _ProvingTemplate) -> None:
        self._template = template
        self._owner = owner

    def render(self, **given: Any) -> str:
        return self._owner.seen(self._template.render(**given))


class _ProvingSource(SuffixSource):
    """Derives suffixes without a choice that another text in a place could turn."""

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
        marked = stand_in_turn(turn.calls, marker, trailing=trailing)
        suffix = self._behind(marked, before, turn, new_messages, tools, marker)
        first = PLACES.search(suffix.text)
        if first and any(position > first.start() for position in (suffix.start, *(end for _, end in suffix.ends))):
            raise UnprovableError("a turn that ends behind a text")
        return suffix

    def _closed(self, tail: str, frame: Any, marked: Message) -> int:
        if not tail.startswith(frame.closing):
            raise UnprovableError("a call that is closed otherwise once it is history")
        return super()._closed(tail, frame, marked)

    def _new_frame(self, before: Sequence[Message], turn: TurnShape, marked: Message, tools: Tools, marker: str) -> Any:
        frame = super()._new_frame(before, turn, marked, tools, marker)
        bare = self._template.try_render(before, tools)
        if PLACES.search(frame.closing + frame.header):
            raise UnprovableError("a text in what closes a call or opens a turn")
        if bare is not None and not frame.prompt.startswith(bare) and PLACES.search(frame.prompt + bare):
            raise UnprovableError("a generation prompt that depends on a text")
        return frame

    def _check_header(self, prompt: str, before: Sequence[Message], tools: Tools, marker: str) -> None:
        super()._check_header(prompt, before, tools, marker)
        answered = self._template.try_render([*before, stand_in_turn([], marker)], tools) or ""
        if not answered.startswith(prompt) and PLACES.search(prompt + answered):
            raise UnprovableError("an opening that depends on a text")


class _Vocabulary(Vocabulary):
    """A vocabulary that finds no end of what two renderings share in a text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.__dict__ = copy.copy(vocabulary.__dict__)

    def common_length(self, one: str, other: str) -> int:
        """Return the length of the common beginning, which must not end at a text on either side."""
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        if at is not None and (PLACES.match(one[at]) or PLACES.match(other[at])):
            raise UnprovableError("a text where two renderings part")
        return super().common_length(one, other)

"""How a sampled turn ended, and what of the template's text is still to come.

Owns the cut: where in the suffix the recorded ids already are. Decided from the last recorded ids alone, never from the
finish reason. Invariant: what is still to be encoded begins with a control token or right after one, so that encoding
it alone equals encoding it in place; whitespace that a template writes before its turn end is added after a turn that
was cut only where the tokenizer shows that it stays a token of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strands_sglang.errors import TemplateNotExactError

from .reasoning import ReasoningMarks
from .suffix import Suffix
from .turn import SampledTurn
from .vocabulary import ControlToken, Vocabulary

_BORDER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is still to be encoded after a turn.

    Attributes:
        text: The text.
        after: The control token that it directly follows, or None where it begins with one.
        trimmed: How many ids at the end of the turn it replaces.
    """

    text: str
    after: ControlToken | None
    trimmed: int = 0


class TurnEnding:
    """Cuts suffixes where recorded turns end."""

    def __init__(self, vocabulary: Vocabulary, marks: ReasoningMarks) -> None:
        """Create it over a tokenizer and the marks of its model's reasoning."""
        self._vocabulary = vocabulary
        self._marks = marks

    def rest(self, suffix: Suffix, turn: SampledTurn, again: Callable[[str], Suffix]) -> Rest:
        """Return what of a suffix is still to come after a turn.

        Args:
            suffix: The suffix after a turn that ends in a letter.
            turn: The turn.
            again: Gives the suffix after a turn that ends in certain whitespace.
        """
        if (rest := self._after_turn_end(suffix, turn.ids)) is not None:
            return rest
        trimmed = 1 if turn.ids and turn.ids[-1] in suffix.replaced else 0
        if trimmed and (rest := self._after_turn_end(suffix, turn.ids[:-1])) is not None:
            # Ended twice, as the template ends its last message: the second end is the one that goes.
            return replace(rest, trimmed=trimmed)
        return self._close(suffix, turn, again, trimmed)

    def _after_turn_end(self, suffix: Suffix, ids: Sequence[int]) -> Rest | None:
        """Return what follows a turn end that was sampled, and perhaps the separator with it, or None."""
        for length in range(1, min(len(ids), _BORDER) + 1):
            token = self._vocabulary.by_id.get(ids[-length])
            if token is None:
                continue
            end = next((end for ender, end in suffix.ends if ender is token), None)
            if end is None:
                return None
            sampled = self._vocabulary.decode(ids[len(ids) - length + 1 :]) if length > 1 else ""
            text = suffix.text[end:]
            if not sampled:
                return Rest(text=text, after=token)
            rest = text[len(sampled) :]
            if text.startswith(sampled) and self._lead(rest) == "":
                return Rest(text=rest, after=None)
            return None
        return None

    def _close(self, suffix: Suffix, turn: SampledTurn, again: Callable[[str], Suffix], trimmed: int) -> Rest:
        """Return the close of a turn that did not end, reasoning first, and what follows it."""
        sampled = turn.ids[: len(turn.ids) - trimmed]
        ids = [*turn.prompt_ids[-4 * _BORDER :], *sampled]
        pair = self._marks.open_pair(turn.prompt_ids, sampled)
        last = self._vocabulary.by_id.get(ids[-1]) if ids else None
        if last is not None:
            close = self._marks.close(pair, "") if pair else ""
            return Rest(text=self._joined(close, suffix), after=last, trimmed=trimmed)
        trailing = self._trailing_whitespace(ids)
        if pair is not None:
            text = self._joined(self._marks.close(pair, trailing), suffix)
        else:
            derived = again(trailing) if trailing else suffix
            text = derived.text[derived.start :]
        lead = self._lead(text)
        if lead is None or lead.strip():
            reason = (
                "it puts no control token between a turn and what follows"
                if lead is None
                else "the turn does not end in a token that the template ends turns by, so that it has to be closed, "
                "and what the template writes then begins with ordinary text"
            )
            raise TemplateNotExactError(
                f"the chat template of {self._vocabulary.name} cannot be continued exactly: {reason} ({text[:40]!r}), "
                "which could merge with it",
                model=self._vocabulary.name,
            )
        text = text[len(lead) :]
        lead = lead[len(trailing) :] if lead.startswith(trailing) else ""
        if lead and self._stays_apart(ids, lead):
            text = lead + text
        return Rest(text=text, after=None, trimmed=trimmed)

    def _joined(self, close: str, suffix: Suffix) -> str:
        """Return the close of reasoning and the suffix, once where reasoning closes by what ends the turn."""
        match = next(self._vocabulary.find(close), None)
        if match is not None and suffix.ends and suffix.ends[0][0].text == match[0]:
            return suffix.text[suffix.start :]
        return close + suffix.text[suffix.start :]

    def _lead(self, text: str) -> str | None:
        """Return what is before the first control token of a text, or None where there is none."""
        match = next(self._vocabulary.find(text), None)
        return None if match is None else text[: match.start()]

    def _trailing_whitespace(self, ids: Sequence[int]) -> str:
        text = self._vocabulary.decode(ids[-_BORDER:])
        return text[len(text.rstrip()) :]

    def _stays_apart(self, ids: Sequence[int], lead: str) -> bool:
        """Return whether the tokenizer would leave the recorded ids as they are if `lead` followed them."""
        start = max((i + 1 for i in range(len(ids)) if ids[i] in self._vocabulary.by_id), default=0)
        start = max(start, len(ids) - 4 * _BORDER)
        text = self._vocabulary.decode(ids[start:])
        expected = [*ids[max(start, len(ids) - _BORDER) :], *self._vocabulary.encode(lead)]
        return self._vocabulary.encode(text + lead)[-len(expected) :] == expected

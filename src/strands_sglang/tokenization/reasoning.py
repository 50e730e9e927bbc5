"""Where reasoning begins and ends in a model's ids.

Owns the marks of reasoning: those the template itself writes around a `reasoning_content` or at the end of a generation
prompt, those among the control tokens that are named so (`<think>`, `[THINK]`, `<seed:think>`, `<|START_THINKING|>` and
their ends), and `<think>` as plain text where the tokenizer has no token for it. Invariant: a block is open when its
opening mark is the last of its pair.
Never decides from a model's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .stand_in import USER
from .template import ChatTemplate
from .vocabulary import ControlToken, Vocabulary

_REASON, _ANSWER = "\U0010fff8", "\U0010fff9"
_NAMED = re.compile(r"think|thought|reason", re.IGNORECASE)
_CLOSERS = (
    (r"^([<\[{(]\|?)", r"\1/"),
    ("START", "END"),
    ("start", "end"),
    ("BEGIN", "END"),
    ("begin", "end"),
)
_PLAIN = ("<think>", "</think>")
_TAG = re.compile(r"<(\w+)>")
_FAR = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One pair of marks.

    Attributes:
        opening: Text of the opening mark.
        closing: Text of the closing mark.
        close: What the template writes from the end of the reasoning to the beginning of the answer.
    """

    opening: str
    closing: str
    close: str


class ReasoningMarks:
    """The marks of reasoning of one model.

    Attributes:
        pairs: The pairs, the template's own first; empty for a model without any.
    """

    def __init__(self, template: ChatTemplate, vocabulary: Vocabulary, borders: Iterable[ControlToken]) -> None:
        """Find them.

        Args:
            template: The template.
            vocabulary: The tokenizer's view.
            borders: Control tokens behind which a new turn begins.
        """
        self._template = template
        self._vocabulary = vocabulary
        pairs = [*_rendered(template, vocabulary), *_prompted(template, vocabulary), *_named(vocabulary)]
        if _PLAIN[0] not in vocabulary.tokens and any(_PLAIN[1] in source for source in template.sources):
            pairs.append(Marks(opening=_PLAIN[0], closing=_PLAIN[1], close=_PLAIN[1]))
        unique = {pair.opening: pair for pair in reversed(pairs)}
        self.pairs = tuple(reversed(unique.values()))
        self._ids = {
            text: tuple(vocabulary.encode(text)) for pair in self.pairs for text in (pair.opening, pair.closing)
        }
        texts = "|".join(sorted(map(re.escape, self._ids), key=len, reverse=True)) or r"(?!)"
        self._run = re.compile(rf"(?:(?:{texts})\s*)+")
        self._around, self._gap = re.compile(rf"\s*(?:(?:{texts})\s*)+"), re.compile(rf"(?:\s|{texts})*")
        # A generation prompt may hold no control token but the mark it ends with: that is no border.
        marks = {ids[0] for ids in self._ids.values() if len(ids) == 1}
        self._borders = frozenset(token.id for token in borders) - marks

    def open_pair(self, prompt_ids: Sequence[int], sampled: Sequence[int] = ()) -> Marks | None:
        """Return the pair whose block is open at the end of a prompt and what was sampled after it, or None.

        Only the last generation prompt is looked at: an earlier turn that left reasoning open says nothing of this one.
        """
        start = len(prompt_ids)
        while start > max(0, len(prompt_ids) - _FAR) and prompt_ids[start - 1] not in self._borders:
            start -= 1
        ids = [*prompt_ids[start:], *sampled]
        text: str | None = None
        for pair in self.pairs:
            if next(self._vocabulary.find(pair.opening), None) is not None:
                opened, closed = (_last_position(ids, self._ids[mark]) for mark in (pair.opening, pair.closing))
            else:
                text = self._vocabulary.decode(ids) if text is None else text
                opened, closed = text.rfind(pair.opening), text.rfind(pair.closing)
            if opened > closed:
                return pair
        return None

    def close(self, pair: Marks, trailing: str) -> str:
        """Return what the template writes after reasoning that ends in certain whitespace, this whitespace included."""
        if not trailing or pair.close == pair.closing:
            return pair.close
        turn = {"role": "assistant", "reasoning_content": _REASON + trailing, "content": _ANSWER}
        text = self._template.try_render([USER, turn]) or ""
        return text.partition(_REASON)[2].partition(_ANSWER)[0] or pair.close

    def without(self, text: str) -> str:
        """Return a text without marks of reasoning and the whitespace behind them."""
        return self._run.sub("", text)

    def goes_on(self, prompt: str, history: str) -> bool:
        """Return whether a rendering goes on from a prompt, marks of reasoning and blanks around them aside."""
        if history.startswith(prompt):
            return True
        position = 0
        for number, piece in enumerate(self._between_marks(prompt)):
            if number and (gap := self._gap.match(history, position)):
                position = gap.end()
            if not history.startswith(piece, position):
                return self.without(history).startswith(self.without(prompt))
            position += len(piece)
        return True

    def _between_marks(self, text: str) -> Iterator[str]:
        """Yield what is between the runs of marks in a text, without the blanks in front of a run."""
        # Marks are found as plain text: with many tools a prompt is long, and an expression would walk through it.
        ahead = {mark: at for mark in self._ids if (at := text.find(mark)) >= 0}
        end = 0
        while ahead:
            piece = text[end : min(ahead.values())].rstrip()
            yield piece
            run = self._around.match(text, end + len(piece))
            assert run is not None
            end = run.end()
            for mark in [mark for mark, at in ahead.items() if at < end]:
                ahead[mark] = text.find(mark, end)
                if ahead[mark] < 0:
                    del ahead[mark]
        yield text[end:]


def _rendered(template: ChatTemplate, vocabulary: Vocabulary) -> Iterator[Marks]:
    """Yield the pair that the template writes around the reasoning of a last message."""
    turn = {"role": "assistant", "reasoning_content": _REASON, "content": _ANSWER}
    marked = template.try_render([USER, turn])
    plain = template.try_render([USER, {"role": "assistant", "content": _ANSWER}])
    if marked is None or plain is None or not marked.count(_REASON) == marked.count(_ANSWER) == 1:
        return
    close = marked.partition(_REASON)[2].partition(_ANSWER)[0]
    opening = _opening(marked.partition(_REASON)[0], plain.partition(_ANSWER)[0], vocabulary)
    closing = next((match[0] for match in vocabulary.find(close)), close.strip())
    if opening and closing:
        yield Marks(opening=opening, closing=closing, close=close)


def _opening(before_reason: str, before_answer: str, vocabulary: Vocabulary) -> str:
    """Return the shortest run of tokens that stands before reasoning, but not before an answer."""
    starts = [match.start() for match in vocabulary.find(before_reason)]
    for start in reversed(starts):
        opening = before_reason[start:].strip()
        if not before_answer.rstrip().endswith(opening):
            # A role's header is no mark of reasoning: then the mark is plain text behind it.
            if before_answer.find(opening.split("\n")[0]) >= 0:
                return opening.split("\n")[-1]
            return opening
    return ""


def _prompted(template: ChatTemplate, vocabulary: Vocabulary) -> Iterator[Marks]:
    """Yield the pair that the generation prompt writes, or opens, behind the header of an answer."""
    prompt = template.try_render([USER], generation_prompt=True)
    answered = template.try_render([USER, {"role": "assistant", "content": _ANSWER}])
    if prompt is None or answered is None:
        return
    more = prompt[vocabulary.common_length(prompt, answered.partition(_ANSWER)[0]) :].strip()
    if (tag := _TAG.fullmatch(more)) is not None:
        closing = f"</{tag[1]}>"
        if _NAMED.search(more) and any(closing in source for source in template.sources):
            yield Marks(opening=more, closing=closing, close=closing)
        return
    tokens = list(vocabulary.find(more))
    if len(tokens) == 2 and tokens[0].start() == 0 and tokens[1].end() == len(more):
        opening, closing = more[: tokens[1].start()].strip(), tokens[1][0]
        if _NAMED.search(opening):
            yield Marks(opening=opening, closing=closing, close=closing)


def _named(vocabulary: Vocabulary) -> Iterator[Marks]:
    """Yield pairs of control tokens that are named after thinking."""
    for text in vocabulary.tokens:
        if _NAMED.search(text):
            for pattern, replacement in _CLOSERS:
                closing = re.sub(pattern, replacement, text, count=1)
                if closing != text and closing in vocabulary.tokens:
                    yield Marks(opening=text, closing=closing, close=closing)
                    break


def _last_position(ids: Sequence[int], wanted: Sequence[int]) -> int:
    """Return where `wanted` last occurs in ids, or -1."""
    size = len(wanted)
    for start in range(len(ids) - size, -1, -1):
        if ids[start] == wanted[0] and tuple(ids[start : start + size]) == tuple(wanted):
            return start
    return -1

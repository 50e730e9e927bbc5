"""From a source to a turn: reasoning first, then content and call attempts in order.

Owns the walk over a turn's text, its pieces, and the policy for reasoning, which is the same for every format:

- Reasoning is open at the start if the prompt left it open, or if the first closing mark has no opening one
  before it: that mark proves it. A later opening mark outside calls opens it again.
- A call opener in reasoning that closes is a draft and no attempt at all.
- A call opener in reasoning that never closes is an attempt with status `in_open_reasoning`.

The pieces partition the text. Never looks inside a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.result import ParsedTurn, Piece, PieceKind, ToolParseResult, ToolParseStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """The marks of reasoning, and what the template prints around them.

    Attributes:
        open: The opening mark.
        close: The closing mark.
        after_open: Framing after the opening mark; as much of it as is there is taken.
        before_close: Framing before the closing mark.
        after_close: Framing after the closing mark.
    """

    open: str = "<think>"
    close: str = "</think>"
    after_open: str = "\n"
    before_close: str = "\n"
    after_close: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a format found at a call opener: the characters `[start, end)` and how to read them."""

    start: int
    end: int
    status: ToolParseStatus = ToolParseStatus.OK
    name: str | None = None
    input: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    native_id: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Attempts that belong together, in order, and where what follows them begins.

    What lies between `start` of the block, the attempts and `end` is the format's framing.
    """

    attempts: Sequence[Attempt]
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the walk must know of a format.

    Attributes:
        find_call: Where the next call opener begins at or after a place, or -1.
        read_call: The block that begins at a call opener.
        reasoning: The marks of reasoning, or None.
        before_call: Framing before a call; as much of its end as is there is taken.
        made_up_id: Makes the id of the nth call of a turn whose format has none; given a prefix and n.
        keeps_native_id: Whether a usable native id is also the id.
    """

    find_call: Callable[[Source, int], int]
    read_call: Callable[[Source, int], Block]
    reasoning: Reasoning | None
    before_call: str
    made_up_id: Callable[[str, int], str]
    keeps_native_id: bool


def read_turn(source: Source, layout: Layout, *, reasoning_open: bool, id_prefix: str | None) -> ParsedTurn:
    """Take a turn apart."""
    walk = _Walk(source, layout)
    walk.run(reasoning_open)
    return walk.result(id_prefix)


class _Walk:
    """The state of one walk: how far it is, and what it has found."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.pieces: list[Piece] = []
        self.attempts: list[Attempt] = []
        self.reasoned = False

    def run(self, reasoning_open: bool) -> None:
        marks = self.layout.reasoning
        place = self._reasoning(0, self.source.find(marks.close, 0) if marks else -1) if reasoning_open else 0
        while place < self.source.end:
            place = self._step(place)

    def _step(self, place: int) -> int:
        source, marks = self.source, self.layout.reasoning
        call = self.layout.find_call(source, place)
        opens = source.find(marks.open, place) if marks else -1
        closes = source.find(marks.close, place) if marks and not self.reasoned else -1
        first = min((at for at in (call, opens, closes) if at >= 0), default=source.end)
        if marks and first == closes:
            # What stood before it was reasoning all along.
            self.pieces.clear()
            self.attempts.clear()
            return self._reasoning(0, closes)
        if first == call:
            ends = max(place, _shared_end(source.text, call, self.layout.before_call))
            self._add(PieceKind.CONTENT, place, ends)
            self._add(PieceKind.FRAMING, ends, call)
            return self._block(self.layout.read_call(source, call), call)
        self._add(PieceKind.CONTENT, place, first)
        if marks and first == opens:
            inside = _shared_start(source.text, first + len(marks.open), marks.after_open)
            self._add(PieceKind.FRAMING, first, inside)
            return self._reasoning(inside, source.find(marks.close, first + len(marks.open)))
        return source.end

    def _reasoning(self, inside: int, closes: int) -> int:
        """Take the reasoning whose text begins at `inside` and closes at `closes`; returns where it ends."""
        marks = self.layout.reasoning
        self.reasoned = True
        if closes < 0 or marks is None:
            return self._open_reasoning(inside)
        text = self.source.text
        ends = max(inside, _shared_end(text, closes, marks.before_close))
        after = _shared_start(text, closes + len(marks.close), marks.after_close)
        self._add(PieceKind.REASONING, inside, ends, keep_empty=True)
        self._add(PieceKind.FRAMING, ends, after)
        return after

    def _open_reasoning(self, place: int) -> int:
        """Take reasoning that never closes, and the attempts in it."""
        source = self.source
        self._add(PieceKind.REASONING, place, place, keep_empty=True)
        while place < source.end:
            call = self.layout.find_call(source, place)
            if call < 0:
                break
            self._add(PieceKind.REASONING, place, call)
            block = self.layout.read_call(source, call)
            place = self._block(block, call, in_reasoning=True)
        self._add(PieceKind.REASONING, place, source.end)
        return source.end

    def _block(self, block: Block, place: int, in_reasoning: bool = False) -> int:
        for attempt in block.attempts:
            self._add(PieceKind.FRAMING, place, attempt.start)
            self._add(PieceKind.CALL, attempt.start, attempt.end)
            self.attempts.append(_in_reasoning(attempt) if in_reasoning else attempt)
            place = attempt.end
        self._add(PieceKind.FRAMING, place, block.end)
        return block.end

    def _add(self, kind: PieceKind, start: int, end: int, keep_empty: bool = False) -> None:
        if end > start or keep_empty:
            self.pieces.append(Piece(kind=kind, start=start, end=end))

    def result(self, id_prefix: str | None) -> ParsedTurn:
        text = self.source.text
        reasoning = [text[p.start : p.end] for p in self.pieces if p.kind is PieceKind.REASONING]
        content = [text[p.start : p.end] for p in self.pieces if p.kind is PieceKind.CONTENT]
        return ParsedTurn(
            reasoning="".join(reasoning) if reasoning else None,
            content="".join(content),
            calls=tuple(self._results(id_prefix)),
            pieces=tuple(p for p in self.pieces if p.end > p.start),
            text=text,
        )

    def _results(self, id_prefix: str | None) -> list[ToolParseResult]:
        source, layout = self.source, self.layout
        prefix = f"call_{_digest(source.text)}" if id_prefix is None and self.attempts else id_prefix or ""
        results: list[ToolParseResult] = []
        used: set[str] = set()
        for index, attempt in enumerate(self.attempts):
            native = attempt.native_id if layout.keeps_native_id else None
            id_ = native if native and native not in used else layout.made_up_id(prefix, index)
            used.add(id_)
            results.append(
                ToolParseResult(
                    id_,
                    attempt.name or ToolParseResult.UNKNOWN_NAME,
                    dict(attempt.input) if attempt.status is ToolParseStatus.OK else {},
                    source.text[attempt.start : attempt.end],
                    status=attempt.status,
                    reason=attempt.reason,
                    native_id=attempt.native_id,
                    span=(attempt.start, attempt.end),
                    token_span=source.token_span(attempt.start, attempt.end),
                )
            )
        return results


def _in_reasoning(attempt: Attempt) -> Attempt:
    also = f"; besides, {attempt.reason}" if attempt.reason else ""
    return Attempt(
        start=attempt.start,
        end=attempt.end,
        status=ToolParseStatus.IN_OPEN_REASONING,
        name=attempt.name,
        reason=f"the call stands inside reasoning that was never ended, so it was not made{also}",
        native_id=attempt.native_id,
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _shared_start(text: str, place: int, framing: str) -> int:
    """Return the place after the framing at `place`; of newlines, as many as are there."""
    if framing.strip("\n"):
        return place + len(framing) if text.startswith(framing, place) else place
    limit = place + len(framing)
    while place < limit and text.startswith("\n", place):
        place += 1
    return place


def _shared_end(text: str, place: int, framing: str) -> int:
    """Return the place before the framing that ends at `place`; of newlines, as many as are there."""
    if framing.strip("\n"):
        return place - len(framing) if text.endswith(framing, 0, place) else place
    limit = place - len(framing)
    while place > max(limit, 0) and text[place - 1] == "\n":
        place -= 1
    return place

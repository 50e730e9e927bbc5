"""From a source to a turn: reasoning first, then content and call attempts in order.

Owns the walk over a turn's text, its pieces, and the policy for reasoning, which is the same for every format:

- Reasoning is open at the start if the prompt left it open, or if the first closing mark has no opening one
  before it: that mark proves it. A later opening mark outside calls opens it again.
- A call opener in reasoning that closes is a draft and no attempt at all.
- A call opener in reasoning that never closes is an attempt with status `in_open_reasoning`.

The pieces partition the text. A turn with more attempts than any means is one attempt in error, so that reading it, and
answering it, stays bounded. Never looks inside a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.result import ParsedTurn, Piece, PieceKind, ToolParseResult, ToolParseStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """The marks of reasoning, and what the template prints around them.

    Framing of newlines is taken as far as it is there; other framing is taken whole or not at all.

    Attributes:
        open: The opening mark.
        close: The closing mark.
        before_open: Framing before the opening mark.
        after_open: Framing after the opening mark.
        before_close: Framing before the closing mark.
        after_close: Framing after the closing mark.
    """

    open: str = "<think>"
    close: str = "</think>"
    before_open: str = ""
    after_open: str = "\n"
    before_close: str = "\n"
    after_close: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A mark outside calls and reasoning that is framing, such as a tag around the answer.

    Attributes:
        mark: The mark.
        before: Framing before it.
        after: Framing after it.
    """

    mark: str
    before: str = ""
    after: str = ""


_NOTHING: Mapping[str, Any] = {}


MAX_ATTEMPTS = 5_000
"""How many attempts a turn may have. Formats that read several at once stop at one more."""


class TooManyAttemptsError(ValueError):
    """A turn has more attempts than it may."""


class Attempt(NamedTuple):
    """What a format found at a call opener: the characters `[start, end)` and how to read them.

    `input` counts only where `status` is OK.
    """

    start: int
    end: int
    status: ToolParseStatus = ToolParseStatus.OK
    name: str | None = None
    input: Mapping[str, Any] = _NOTHING
    reason: str = ""
    native_id: str | None = None


class Block(NamedTuple):
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
        reasoning: The marks of reasoning; several where the format has several.
        frames: Marks that are framing.
        before_call: Framing before a call.
        made_up_id: Makes the id of the nth call of a turn whose format has none; given a prefix and n.
        keeps_native_id: Whether a usable native id is also the id.
    """

    find_call: Callable[[Source, int], int]
    read_call: Callable[[Source, int], Block]
    reasoning: tuple[Reasoning, ...]
    frames: tuple[Frame, ...]
    before_call: str
    made_up_id: Callable[[str, int], str]
    keeps_native_id: bool


def read_turn(source: Source, layout: Layout, *, reasoning_open: bool, id_prefix: str | None) -> ParsedTurn:
    """Take a turn apart."""
    walk = _Walk(source, layout, id_prefix)
    try:
        walk.run(reasoning_open)
    except TooManyAttemptsError:
        walk.parts.overrun()
    return walk.parts.turn()


class TurnParts:
    """The pieces and calls of one turn as they are found, in order."""

    def __init__(self, source: Source, layout: Layout, id_prefix: str | None) -> None:
        """Create the parts of a turn that is still to be read."""
        self.source = source
        self.layout = layout
        self.pieces: list[Piece] = []
        self.calls: list[ToolParseResult] = []
        self._prefix = id_prefix
        self._used_ids: set[str] = set()

    def add(self, kind: PieceKind, start: int, end: int) -> None:
        """Add a piece; an empty one only says that there is such a part, as an empty reasoning."""
        if end > start or kind is PieceKind.REASONING:
            self.pieces.append(Piece(kind, start, end))

    def add_block(self, block: Block, start: int, *, in_reasoning: bool = False) -> int:
        """Add a block that begins at `start`, what lies between its attempts as framing; returns its end."""
        attempts, end = block
        if len(self.calls) + len(attempts) > MAX_ATTEMPTS:
            raise TooManyAttemptsError
        for attempt in attempts:
            begin = attempt[0]
            if begin > start:
                self.pieces.append(Piece(PieceKind.FRAMING, start, begin))
            start = attempt[1]
            self.pieces.append(Piece(PieceKind.CALL, begin, start))
            self.calls.append(self._result(_in_reasoning(attempt) if in_reasoning else attempt))
        if end > start:
            self.pieces.append(Piece(PieceKind.FRAMING, start, end))
        return end

    def clear(self) -> None:
        """Forget everything found."""
        self.pieces.clear()
        self.calls.clear()
        self._used_ids.clear()

    def overrun(self) -> None:
        """Make all from the first attempt on one attempt in error."""
        kept = next((i for i, piece in enumerate(self.pieces) if piece.kind is PieceKind.CALL), len(self.pieces))
        del self.pieces[kept:]
        self.calls.clear()
        self._used_ids.clear()
        start = self.pieces[-1].end if self.pieces else 0
        reason = f"the turn holds more than {MAX_ATTEMPTS} calls, so none of them was made"
        attempt = Attempt(start, self.source.end, ToolParseStatus.MALFORMED, reason=reason)
        self.add_block(Block((attempt,), attempt.end), start)

    def turn(self) -> ParsedTurn:
        """Return the turn."""
        text = self.source.text
        reasoning = [text[start:end] for kind, start, end in self.pieces if kind is PieceKind.REASONING]
        content = [text[start:end] for kind, start, end in self.pieces if kind is PieceKind.CONTENT]
        return ParsedTurn(
            reasoning="".join(reasoning) if reasoning else None,
            content="".join(content),
            calls=tuple(self.calls),
            pieces=tuple(piece for piece in self.pieces if piece.end > piece.start),
            text=text,
        )

    def _result(self, attempt: Attempt) -> ToolParseResult:
        """Return what is reported of an attempt."""
        start, end, status, name, given, reason, native_id = attempt
        return ToolParseResult(
            self._id(native_id),
            name or ToolParseResult.UNKNOWN_NAME,
            dict(given) if status is ToolParseStatus.OK else {},
            self.source.text[start:end],
            status=status,
            reason=reason,
            native_id=native_id,
            span=(start, end),
            token_span=self.source.token_span(start, end),
        )

    def _id(self, native_id: str | None) -> str:
        """Return the next call's id: the model's own where results refer to it, unless it was used before."""
        layout = self.layout
        if layout.keeps_native_id and native_id and native_id not in self._used_ids:
            self._used_ids.add(native_id)
            return native_id
        if self._prefix is None:
            self._prefix = f"call_{_digest(self.source.text)}"
        return layout.made_up_id(self._prefix, len(self.calls))


class _Walk:
    """The walk over the turn of a format with reasoning marks and call openers."""

    def __init__(self, source: Source, layout: Layout, id_prefix: str | None) -> None:
        self.source = source
        self.layout = layout
        self.parts = TurnParts(source, layout, id_prefix)
        self.reasoned = False
        self.behind_call = False
        self.opens = {marks.open: marks for marks in layout.reasoning}
        self.closes = {marks.close: marks for marks in layout.reasoning}
        self.frames = {frame.mark: frame for frame in layout.frames}
        # Where the next mark is that is no call opener, and which; found again only once it is passed.
        self.mark_at, self.mark = -1, ""

    def run(self, reasoning_open: bool) -> None:
        """Walk the whole text."""
        place = self._reasoning(0, *self.source.find_first(self.closes, 0)) if reasoning_open else 0
        while place < self.source.end:
            place = self._step(place)

    def _step(self, place: int) -> int:
        """Take what stands from `place` up to and with the next mark or block; returns where that ends."""
        source, layout = self.source, self.layout
        if self.mark_at < place:
            self._find_mark(place)
        first = call = layout.find_call(source, place)
        if call < 0 or self.mark_at < call:
            first, call = self.mark_at, -1
            if self.mark in self.closes and not self.reasoned:
                # What stood before it was reasoning all along.
                self.parts.clear()
                return self._reasoning(0, first, self.mark)
        last = call >= 0 or first == source.end
        if first > place and self.behind_call and last and not source.text[place:first].strip("\n"):
            # Line breaks alone between two calls, or between a call and the end.
            self.parts.add(PieceKind.FRAMING, place, first)
            place = first
        self.behind_call = call >= 0
        if call < 0:
            return self._at_mark(place, first)
        if call > place:
            self._content(place, call, layout.before_call)
        return self.parts.add_block(layout.read_call(source, call), call)

    def _find_mark(self, place: int) -> None:
        marks = [*self.opens, *self.frames] if self.reasoned else [*self.opens, *self.frames, *self.closes]
        at, self.mark = self.source.find_first(marks, place)
        self.mark_at = at if at >= 0 else self.source.end

    def _at_mark(self, place: int, at: int) -> int:
        """Take the content from `place` up to the mark at `at`, or the end, and what the mark begins."""
        source = self.source
        after = at + len(self.mark)
        if opened := self.opens.get(self.mark):
            inside = shared_start(source.text, after, opened.after_open)
            self._content(place, at, opened.before_open)
            self.parts.add(PieceKind.FRAMING, at, inside)
            return self._reasoning(inside, source.find(opened.close, after), opened.close)
        if frame := self.frames.get(self.mark):
            self._content(place, at, frame.before)
            after = shared_start(source.text, after, frame.after)
            self.parts.add(PieceKind.FRAMING, at, after)
            return after
        self.parts.add(PieceKind.CONTENT, place, source.end)
        return source.end

    def _content(self, start: int, end: int, framing: str) -> None:
        """Take the content before a mark at `end`, and the framing between them."""
        if start == end:
            return
        content_end = max(start, shared_end(self.source.text, end, framing))
        self.parts.add(PieceKind.CONTENT, start, content_end)
        self.parts.add(PieceKind.FRAMING, content_end, end)

    def _reasoning(self, inside: int, closes: int, close_mark: str) -> int:
        """Take the reasoning whose text begins at `inside` and closes at `closes`; returns where it ends."""
        self.reasoned = True
        self.mark_at = -1
        if closes < 0:
            return self._open_reasoning(inside)
        text = self.source.text
        marks = self.closes[close_mark]
        ends = max(inside, shared_end(text, closes, marks.before_close)) if closes > inside else inside
        after = shared_start(text, closes + len(close_mark), marks.after_close)
        self.parts.add(PieceKind.REASONING, inside, ends)
        self.parts.add(PieceKind.FRAMING, ends, after)
        return after

    def _open_reasoning(self, place: int) -> int:
        """Take reasoning that never closes, and the attempts in it."""
        source, parts = self.source, self.parts
        while True:
            call = self.layout.find_call(source, place)
            if call < 0:
                parts.add(PieceKind.REASONING, place, source.end)
                return source.end
            parts.add(PieceKind.REASONING, place, call)
            place = parts.add_block(self.layout.read_call(source, call), call, in_reasoning=True)


def _in_reasoning(attempt: Attempt) -> Attempt:
    also = f"; besides, {attempt.reason}" if attempt.reason else ""
    return attempt._replace(
        status=ToolParseStatus.IN_OPEN_REASONING,
        reason=f"the call stands inside reasoning that was never ended, so it was not made{also}",
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def shared_start(text: str, place: int, framing: str) -> int:
    """Return the place after the framing at `place`; of newlines, as many as are there."""
    if not framing or framing[0] != "\n":
        return place + len(framing) if text.startswith(framing, place) else place
    limit = place + len(framing)
    while place < limit and text.startswith("\n", place):
        place += 1
    return place


def shared_end(text: str, place: int, framing: str) -> int:
    """Return the place before the framing that ends at `place`; of newlines, as many as are there."""
    if not framing or framing[0] != "\n":
        return place - len(framing) if text.endswith(framing, 0, place) else place
    limit = place - len(framing)
    while place > max(limit, 0) and text[place - 1] == "\n":
        place -= 1
    return place

"""Formats whose turn is a row of messages, each with a header that says what it is.

Owns `MessagesParser`: `start mark, header, body mark, body, end mark`. The prompt ends within the first header, so the
first message has no start mark. A format says what header and body mark mean and how the body of a call is read.
Reasoning here is a kind of message; it never ended if another message or the end of the text follows without an end
mark, and a call right behind it has the status `in_open_reasoning`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strands_sglang.tool_parsers.reading.format import FormatParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block, TooManyAttemptsError, TurnParts
from strands_sglang.tool_parsers.result import ParsedTurn, PieceKind, ToolParseStatus


@dataclass(frozen=True, slots=True)
class Message:
    """A message whose header has been read.

    Attributes:
        start: Where the message begins.
        header: The text of its header.
        mark: The mark that ends the header.
        body: Where its body begins.
    """

    start: int
    header: str
    mark: str
    body: int


class MessagesParser(FormatParser):
    """Reads a row of messages.

    Attributes:
        start_mark: Begins every message but the first.
        start_needed: Whether it does so always; else a header may follow an end mark at once.
        body_marks: Any of these ends a header.
        end_marks: Any of these ends a message.
        call_mark: The body mark that interrupts any other message, in formats where a mark alone makes a call; or "".
    """

    start_mark: str = "<|start|>"
    start_needed: bool = True
    body_marks: tuple[str, ...] = ("<|message|>",)
    end_marks: tuple[str, ...]
    call_mark: str = ""
    reasoning = ()

    @abstractmethod
    def kind(self, header: str, mark: str) -> PieceKind:
        """Return what a message with this header and body mark is; the mark is "" where none came."""

    @abstractmethod
    def read_message(self, source: Source, message: Message) -> Block:
        """Read a message that is addressed to a tool."""

    def all_delimiters(self, added: Mapping[str, int]) -> Iterable[str]:
        """Return the marks, and what else may be one token."""
        yield from (self.start_mark, *self.body_marks, *self.end_marks)
        yield from super().all_delimiters(added)

    def find_call(self, source: Source, start: int) -> int:
        """Never used: calls are found by their headers."""
        raise NotImplementedError

    def read_call(self, source: Source, start: int) -> Block:
        """Never used: calls are found by their headers."""
        raise NotImplementedError

    def read(self, source: Source, *, reasoning_open: bool, id_prefix: str | None) -> ParsedTurn:
        """Take a placed turn apart."""
        parts = TurnParts(source, self.layout(), id_prefix)
        try:
            self._read_messages(parts, reasoning_open)
        except TooManyAttemptsError:
            parts.overrun()
        return parts.turn()

    def _read_messages(self, parts: TurnParts, reasoning_open: bool) -> None:
        place, self_open = 0, False
        if reasoning_open:
            place, self_open = self._text(parts, PieceKind.REASONING, 0, 0)
        first = not reasoning_open
        while place < parts.source.end:
            place, self_open = self._message(parts, place, first, self_open)
            first = False

    def _message(self, parts: TurnParts, place: int, first: bool, in_reasoning: bool) -> tuple[int, bool]:
        """Take what stands at `place`; returns where it ends, and whether reasoning was left open there."""
        source = parts.source
        start = source.find(self.start_mark, place)
        if start != place and not first and self.start_needed:
            end = start if start >= 0 else source.end
            parts.add(PieceKind.CONTENT, place, end)
            return end, in_reasoning
        header = place + len(self.start_mark) if start == place else place
        body, mark = source.find_first(self.body_marks, header)
        following = source.find(self.start_mark, header)
        if body < 0 or 0 <= following < body:
            return self._headless(parts, place, header, following if following >= 0 else source.end), in_reasoning
        message = Message(place, source.text[header:body], mark, body + len(mark))
        kind = self.kind(message.header, mark)
        if kind is not PieceKind.CALL:
            return self._text(parts, kind, place, message.body)
        return parts.add_block(self.read_message(source, message), place, in_reasoning=in_reasoning), False

    def _headless(self, parts: TurnParts, place: int, header: int, end: int) -> int:
        """Take a header that no body follows, or text that is none."""
        text = parts.source.text[header:end]
        if self.kind(text, "") is PieceKind.CALL:
            reason = f"the header of the call is not followed by {self.body_marks[0]}"
            attempt = Attempt(place, end, ToolParseStatus.UNCLOSED, self.display_name(text), reason=reason)
            return parts.add_block(Block((attempt,), end), place)
        parts.add(PieceKind.CONTENT if header == place and "<|" not in text else PieceKind.FRAMING, place, end)
        return end

    def display_name(self, header: str) -> str | None:
        """Return the name of the tool that a header addresses, for display."""
        return None

    @property
    def _interrupting(self) -> tuple[str, ...]:
        return (self.start_mark, self.call_mark) if self.call_mark else (self.start_mark,)

    def _text(self, parts: TurnParts, kind: PieceKind, start: int, body: int) -> tuple[int, bool]:
        """Take a message of text."""
        source = parts.source
        at, which = source.find_first((*self.end_marks, *self._interrupting), body)
        end = at if at >= 0 else source.end
        parts.add(PieceKind.FRAMING, start, body)
        parts.add(kind, body, end)
        ended = which in self.end_marks or (at < 0 and any(source.at(mark, end) for mark in self.end_marks))
        after = min(end + len(which), source.end) if which in self.end_marks else end
        parts.add(PieceKind.FRAMING, end, after)
        return after, kind is PieceKind.REASONING and not ended

    def close(self, source: Source, message: Message, attempt: Attempt) -> Attempt:
        """Return the attempt of a call whose body ended at `attempt.end`; an end mark must follow.

        A stop token that the server or the caller cut off ends the message as well, if the turn ended by a stop.
        """
        after = source.skip_space(attempt.end)
        for mark in self.end_marks:
            if source.at(mark, after):
                return attempt._replace(end=min(after + len(mark), source.end))
        if after == source.end and source.finish_reason == "stop":
            return attempt._replace(end=after)
        closers = " or ".join(self.end_marks)
        if after == source.end or source.at(self.start_mark, after):
            reason = f"the call was never closed: {closers} is missing"
            return attempt._replace(end=after, status=ToolParseStatus.UNCLOSED, reason=reason)
        reason = f"{source.excerpt(after)} stands where {closers} must close the call"
        return self.broken(source, message, after, ToolParseStatus.MALFORMED, reason, attempt.name)

    def broken(
        self, source: Source, message: Message, place: int, status: ToolParseStatus, reason: str, name: str | None
    ) -> Attempt:
        """Return the attempt that cannot be read from `place` on, up to the end mark that matches.

        Messages that begin within it are counted: nothing tells whether those stand inside a broken string.
        """
        end = source.find_closer((self.start_mark,), self.end_marks, place)
        if end < 0 and source.finish_reason != "stop":
            status, reason = ToolParseStatus.UNCLOSED, f"the call was never closed; and {reason}"
        return Attempt(message.start, end if end >= 0 else source.end, status, name, reason=reason)

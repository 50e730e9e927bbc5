"""Formats whose block is a JSON list of calls, or one call per line.

Owns `JSONListParser`: opener, `[`, call objects with commas between, `]`, and a closer where the format has one. The
list is read element by element, so each call is an attempt of its own, in error or not; once the JSON itself
breaks, nothing behind that place can be told, and the last attempt takes the rest of the block.
"""

from __future__ import annotations

from collections.abc import Callable

from strands_sglang.tool_parsers.reading.brackets import Brackets
from strands_sglang.tool_parsers.reading.format import FormatParser, charge_last, guessed_name, repeated
from strands_sglang.tool_parsers.reading.json_call import CallOutcome, JSONShape, read_object
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.strict_json import JSONRead
from strands_sglang.tool_parsers.reading.turn import MAX_ATTEMPTS, Attempt, Block
from strands_sglang.tool_parsers.result import ToolParseStatus


class JSONListParser(FormatParser):
    """Reads `opener [call, ...] closer`.

    Attributes:
        opener: The delimiter before the list.
        closer: The delimiter after it, or "" where the list ends the block.
        shape: What a call object looks like.
        one_per_line: Whether the calls stand one per line instead, without a list around them.
    """

    opener: str
    closer: str = ""
    shape: JSONShape = JSONShape()
    one_per_line: bool = False

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser; see `FormatParser`."""
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        self.delimiters = tuple(mark for mark in (self.opener, self.closer, *self.delimiters) if mark)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next opener begins."""
        return source.find(self.opener, start)

    def read_call(self, source: Source, start: int) -> Block:
        """Read one list."""
        return self.read_behind(source, start, self.opener)

    def read_behind(self, source: Source, start: int, opener: str) -> Block:
        """Read one list behind this opener."""
        place = source.skip_space(start + len(opener))
        if source.at(opener, place):
            attempt = repeated(source, start, opener)
            return Block((attempt,), attempt.end)
        read = read_lines if self.one_per_line else read_list
        return read(source, start, place, self.element, opener=opener, closer=self.closer)

    def element(self, read: JSONRead) -> CallOutcome:
        """Return the call that one element of the list is."""
        return read_object(read, self.shape)


class UnclosedJSONParser(JSONListParser):
    """Reads `opener JSON`, one call that the JSON value itself ends."""

    def read_behind(self, source: Source, start: int, opener: str) -> Block:
        """Read one call behind this opener."""
        place = source.skip_space(start + len(opener))
        if source.at(opener, place):
            attempt = repeated(source, start, opener)
            return Block((attempt,), attempt.end)
        if place == source.end:
            return Block((Attempt(start, place, ToolParseStatus.UNCLOSED, reason="the call is missing"),), place)
        read = source.json.read(place)
        if read.end < 0:
            name = guessed_name(source, place)
            attempt = broken_json(source, start, read.status, read.reason, name)
            return Block((attempt,), attempt.end)
        attempt = end_unclosed(source, start, read.end, self.element(read))
        return Block((attempt,), attempt.end)


def end_unclosed(source: Source, start: int, end: int, outcome: CallOutcome) -> Attempt:
    """Return the attempt that a JSON value ending at `end` ends; what follows must not look like the rest of it."""
    after = source.skip_space(end)
    if after < source.end and source.text[after] in "{}],:":
        reason = f"{source.excerpt(after)} stands behind the JSON value that ends the call"
        return broken_json(source, start, ToolParseStatus.MALFORMED, reason, outcome.name)
    return attempt_of(start, end, outcome)


def attempt_of(start: int, end: int, outcome: CallOutcome) -> Attempt:
    """Return the attempt `[start, end)` with this outcome."""
    return Attempt(start, end, outcome.status, outcome.name, outcome.input, outcome.reason, outcome.native_id)


class _ListReader:
    """One list while it is read."""

    def __init__(self, source: Source, start: int, opener: str, closer: str) -> None:
        self.source = source
        self.start = start
        self.attempts: list[Attempt] = []
        self.brackets = Brackets(opener, closer)

    def broken(self, place: int, status: ToolParseStatus, reason: str, name: str | None = None) -> Block:
        """End the block with an attempt that cannot be read from `place` on."""
        start = place if self.attempts else self.start
        attempt = broken_list(self.source, self.brackets, start, place, status, reason, name)
        return Block([*self.attempts, attempt], attempt.end)

    def charge(self, place: int, status: ToolParseStatus, reason: str) -> Block:
        """End the block at `place` by charging what is wrong there to the last attempt."""
        if not self.attempts:
            return Block((Attempt(self.start, place, status, reason=reason),), place)
        last = self.attempts[-1]
        if last.status is ToolParseStatus.OK:
            self.attempts[-1] = last._replace(status=status, reason=reason)
        return Block(self.attempts, place)

    def end(self, place: int) -> Block:
        """End the block whose list ended at `place`; the closer must follow."""
        source, closer = self.source, self.brackets.closer
        if not self.attempts:
            end = source.skip_space(place)
            end = min(end + len(closer), source.end) if closer and source.at(closer, end) else place
            return self.charge(end, ToolParseStatus.MALFORMED, "the block holds no call")
        if not closer:
            return Block(self.attempts, place)
        after = source.skip_space(place)
        if source.at(closer, after):
            return Block(self.attempts, min(after + len(closer), source.end))
        if after == source.end or source.at(self.brackets.opener, after):
            return self.charge(after, ToolParseStatus.UNCLOSED, f"the list was never closed: {closer} is missing")
        reason = f"{source.excerpt(after)} stands where {closer} must close the list of calls"
        rest = broken_list(source, self.brackets, after, after, ToolParseStatus.MALFORMED, reason, None)
        attempts = [*self.attempts, rest]
        charge_last(attempts, rest.reason, behind=rest.status is ToolParseStatus.UNCLOSED)
        return Block(attempts, rest.end)


def read_list(
    source: Source, start: int, place: int, element: Callable[[JSONRead], CallOutcome], *, opener: str, closer: str
) -> Block:
    """Read the list of calls at `place`, of the block that begins at `start`."""
    reader = _ListReader(source, start, opener, closer)
    if place == source.end:
        return reader.charge(place, ToolParseStatus.UNCLOSED, "the list of calls is missing")
    if not source.text.startswith("[", place):
        reason = f"{source.excerpt(place)} stands where a list of calls must"
        return reader.broken(place, ToolParseStatus.MALFORMED, reason)
    place = source.skip_space(place + 1)
    if source.text.startswith("]", place):
        return reader.end(place + 1)
    while True:
        if place == source.end:
            return reader.charge(place, ToolParseStatus.UNCLOSED, "the list of calls was never closed: ] is missing")
        read = source.json.read(place)
        if read.end < 0:
            return reader.broken(place, read.status, read.reason, guessed_name(source, place))
        after = source.skip_space(read.end)
        if after < source.end and source.text[after] not in ",]":
            reason = f"{source.excerpt(after)} stands where , or ] must"
            return reader.broken(place, ToolParseStatus.MALFORMED, reason, guessed_name(source, place))
        reader.attempts.append(attempt_of(place, read.end, element(read)))
        if source.text.startswith("]", after):
            return reader.end(after + 1)
        if len(reader.attempts) > MAX_ATTEMPTS:
            return Block(reader.attempts, read.end)
        place = source.skip_space(after + 1) if after < source.end else after


def read_lines(
    source: Source, start: int, place: int, element: Callable[[JSONRead], CallOutcome], *, opener: str, closer: str
) -> Block:
    """Read the calls from `place` on, one per line, of the block that begins at `start`; the closer must follow."""
    reader = _ListReader(source, start, opener, closer)
    while len(reader.attempts) <= MAX_ATTEMPTS:
        if source.at(closer, place):
            return reader.end(place)
        if place == source.end or source.at(opener, place):
            return reader.charge(place, ToolParseStatus.UNCLOSED, f"the calls were never closed: {closer} is missing")
        read = source.json.read(place)
        if read.end < 0:
            block = reader.broken(place, read.status, read.reason, guessed_name(source, place))
            attempts = list(block.attempts)
            # Text that is no call, and no closer behind it: the block of the call before it never closed.
            junk = attempts[-1].status is ToolParseStatus.UNCLOSED and not source.text.startswith("{", place)
            charge_last(attempts, attempts[-1].reason, behind=junk)
            return Block(attempts, block.end)
        after = source.skip_space(read.end)
        if after < source.end and "\n" not in source.text[read.end : after] and not source.at(closer, after):
            reason = f"{source.excerpt(after)} stands behind the call, where its line must end"
            return reader.broken(place, ToolParseStatus.MALFORMED, reason, guessed_name(source, place))
        reader.attempts.append(attempt_of(place, read.end, element(read)))
        place = after
    return Block(reader.attempts, place)


def broken_list(
    source: Source,
    brackets: Brackets,
    start: int,
    place: int,
    status: ToolParseStatus,
    reason: str,
    name: str | None,
) -> Attempt:
    """Return the attempt that cannot be read from `place` on, up to the block's closer or the end of the text."""
    if brackets.closer:
        return brackets.broken(source, start, place, status, reason, name)
    return broken_json(source, start, status, reason, name)


def broken_json(
    source: Source,
    start: int,
    status: ToolParseStatus,
    reason: str,
    name: str | None,
) -> Attempt:
    """Return the attempt that cannot be read, in a format whose calls have no closer.

    It runs to the end of the text, since nothing tells whether an opener behind it stands inside a broken string.
    Cut off, by the length limit or an abort, it is unclosed.
    """
    if source.finish_reason != "stop":
        status = ToolParseStatus.UNCLOSED
    return Attempt(start, source.end, status, name, reason=reason)

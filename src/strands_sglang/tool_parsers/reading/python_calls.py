"""Calls written as Python, `name(key=value, ...)`, several in a row.

Owns `read_calls`, and `PythonCallsParser` for formats that put them between delimiters. Each call is an attempt of its
own; once one breaks, nothing behind that place can be told, and the attempt takes the rest of the block.
"""

from __future__ import annotations

from collections.abc import Callable

from strands_sglang.tool_parsers.reading.format import BracketedParser, charge_last
from strands_sglang.tool_parsers.reading.literals import LiteralError, PythonReader
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import MAX_ATTEMPTS, Attempt, Block
from strands_sglang.tool_parsers.result import ToolParseStatus


def read_calls(
    source: Source,
    reader: PythonReader,
    place: int,
    *,
    separator: str,
    ends: Callable[[int], bool],
    broken: Callable[[int, int, str, str | None], Attempt],
) -> tuple[list[Attempt], int]:
    """Read calls from `place` on.

    Args:
        source: The turn.
        reader: Reads its literals.
        place: Where the first call, or the end, stands.
        separator: What stands between two calls: "," or a line break.
        ends: Whether the end of the calls stands at a place.
        broken: Returns the attempt that begins at the first place and breaks at the second, for a reason and
            with a name where known.

    Returns:
        The attempts, and where the end of the calls stands, or -1 if the last attempt broke or is one too many.
    """
    attempts: list[Attempt] = []
    place = source.skip_space(place)
    while not ends(place):
        if place == source.end and attempts:
            last = attempts.pop()
            return [*attempts, broken(last.start, place, "the list of calls was never closed", last.name)], -1
        start, name = place, None
        try:
            name, place = reader.callee(place)
            values, twice, place = reader.arguments(place)
        except LiteralError as error:
            return [*attempts, broken(start, error.place, str(error), name)], -1
        end, place = place, source.skip_space(place)
        separated = source.text.startswith(",", place) if separator == "," else "\n" in source.text[end:place]
        if not separated and not ends(place):
            reason = f"{source.excerpt(place)} stands behind the call, where nothing more may"
            return [*attempts, broken(start, place, reason, name)], -1
        if twice is None:
            attempts.append(Attempt(start, end, name=name, input=values))
        else:
            reason = f"the argument {twice!r} is given twice"
            attempts.append(Attempt(start, end, ToolParseStatus.DUPLICATE_KEY, name, reason=reason))
        if ends(place):
            break
        if len(attempts) > MAX_ATTEMPTS:
            return attempts, -1
        place = source.skip_space(place + 1) if separator == "," else place
    return attempts, place


class PythonCallsParser(BracketedParser):
    """Reads Python calls between an opening and a closing delimiter.

    Attributes:
        list_brackets: What stands around the calls within the delimiters: "[]" or "".
        separator: What stands between two calls: "," or a line break.
        line_breaks: Whether strings may hold line breaks.
    """

    list_brackets: str = ""
    separator: str = "\n"
    line_breaks: bool = False

    def read_call(self, source: Source, start: int) -> Block:
        """Read one block of calls."""
        place = source.skip_space(start + len(self.opener))
        opening, closing = self.list_brackets[:1], self.list_brackets[1:]
        if source.at(self.opener, place) or place == source.end or not source.text.startswith(opening, place):
            return super().read_call(source, start)

        def broken(begin: int, at: int, reason: str, name: str | None) -> Attempt:
            return self.brackets.broken(
                source, begin if begin > first else start, at, ToolParseStatus.MALFORMED, reason, name
            )

        first = source.skip_space(place + len(opening))

        def ends(at: int) -> bool:
            return at == source.end or (source.text.startswith(closing, at) if closing else source.at(self.closer, at))

        attempts, end = read_calls(
            source,
            PythonReader(source.text, json_names=True, line_breaks=self.line_breaks),
            first,
            separator=self.separator,
            ends=ends,
            broken=broken,
        )
        if end < 0:
            # Text that is no call, and no closer behind it: the block of the call before it never closed.
            unclosed = attempts[-1].name is None and attempts[-1].status is ToolParseStatus.UNCLOSED
            charge_last(attempts, attempts[-1].reason, behind=unclosed)
            return Block(attempts, attempts[-1].end)
        return self._end(source, start, attempts, end, closing)

    def _end(self, source: Source, start: int, attempts: list[Attempt], place: int, closing: str) -> Block:
        after = source.skip_space(place + len(closing)) if source.text.startswith(closing, place) else place
        if source.at(self.closer, after):
            end = min(after + len(self.closer), source.end)
            if not attempts:
                attempts = [Attempt(start, end, ToolParseStatus.MALFORMED, reason="the block holds no call")]
            return Block(attempts, end)
        if after == source.end or source.at(self.opener, after):
            status, reason = ToolParseStatus.UNCLOSED, f"the calls were never closed: {self.closer} is missing"
            if not attempts:
                attempts = [Attempt(start, after, status, reason=reason)]
            elif attempts[-1].status is ToolParseStatus.OK:
                attempts[-1] = attempts[-1]._replace(status=status, reason=reason)
            return Block(attempts, after)
        reason = f"{source.excerpt(after)} stands where {self.closer} must close the calls"
        begin = after if attempts else start
        rest = self.brackets.broken(source, begin, after, ToolParseStatus.MALFORMED, reason)
        attempts = [*attempts, rest]
        charge_last(attempts, rest.reason, behind=rest.status is ToolParseStatus.UNCLOSED)
        return Block(attempts, rest.end)

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Return the error of a block that holds no calls."""
        reason = f"{source.excerpt(body)} stands where calls must"
        return self.brackets.broken(source, start, body, ToolParseStatus.MALFORMED, reason)

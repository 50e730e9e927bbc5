"""Formats whose calls hold raw values between tags, alone or in groups.

Owns `TaggedValuesParser` (opener, head, parameters, end, closer) and `GroupedValuesParser` (a group of such calls).
Where the last closer is only text, a further one before the next opener means that the block may have ended too
early, inside a value: the attempt is then ambiguous, never cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from strands_sglang.tool_parsers.reading.format import BracketedParser, GroupedParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import ValueGrammar
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import ToolParseStatus


class TaggedValuesParser(BracketedParser, ValueGrammar):
    """Reads `opener head parameters end_tag closer`."""

    def __init__(
        self,
        *,
        tool_start_token: str | None = None,
        tool_end_token: str | None = None,
        think_start_token: str | None = None,
        think_end_token: str | None = None,
    ) -> None:
        """Create the parser; see `BracketedParser`."""
        super().__init__(
            tool_start_token=tool_start_token,
            tool_end_token=tool_end_token,
            think_start_token=think_start_token,
            think_end_token=think_end_token,
        )
        self.bound = self.closer

    def ends(self, source: Source, place: int) -> bool:
        """Whether the end tag and the closer stand at `place`."""
        if not self.end_tag:
            return source.at(self.closer, place)
        after = place + len(self.end_tag)
        return source.at(self.end_tag, place) and source.at(self.closer, source.skip_space(after))

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the head, the parameters and the end."""
        attempt = self.read_values(source, start, body, self.brackets)
        return _certain(source, self.opener, self.closer, [attempt], attempt.end)[0][-1]


class GroupedValuesParser(GroupedParser, ValueGrammar):
    """Reads `group_opener { call_opener head parameters call_closer } group_closer`."""

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser; see `FormatParser`."""
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        self.bound = self.group_closer

    def ends(self, source: Source, place: int) -> bool:
        """Whether the call's end stands at `place`."""
        return self._end(source, place) >= 0

    def surely_ends(self, source: Source, place: int) -> bool:
        """Whether the call's end stands at `place`; as text, with another call or the group's end behind it."""
        after = self._end(source, place)
        if after < 0 or source.by_id(self.call_closer):
            return after >= 0
        after = source.skip_space(after)
        return after == source.end or source.at(self.group_closer, after) or source.at(self.call_opener, after)

    def _end(self, source: Source, place: int) -> int:
        """Return the place behind the end of the call at `place`, or -1."""
        if self.end_tag:
            if not source.at(self.end_tag, place):
                return -1
            place = source.skip_space(place + len(self.end_tag))
        return place + len(self.call_closer) if source.at(self.call_closer, place) else -1

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read one call."""
        return self.read_values(source, start, self.head_at(source, start), self.brackets)

    def head_at(self, source: Source, start: int) -> int:
        """Return where the head begins of the call whose opener begins at `start`."""
        return start

    def end_group(self, source: Source, attempts: list[Attempt], end: int) -> Block:
        """End the group, unless another closer shows that it cannot be told where."""
        return Block(*_certain(source, self.group_opener, self.group_closer, attempts, end))


def _certain(
    source: Source, opener: str, closer: str, attempts: Sequence[Attempt], end: int
) -> tuple[Sequence[Attempt], int]:
    """Return a block's attempts and end; the last is ambiguous if a further closer stands before the next opener."""
    if source.by_id(closer) or attempts[-1].status is ToolParseStatus.UNCLOSED:
        return attempts, end
    certain_end = end
    while True:
        at, which = source.find_first((opener, closer), end)
        if which != closer:
            break
        end = at + len(which)
    if end == certain_end:
        return attempts, end
    reason = f"another {closer} follows the call, so where it ends cannot be told"
    last = attempts[-1]._replace(end=end)
    if last.status is ToolParseStatus.OK:
        last = last._replace(status=ToolParseStatus.AMBIGUOUS, reason=reason)
    return [*attempts[:-1], last], end

"""The delimiters of one call, and what becomes of a call that does not end as it must.

Owns `Brackets`. Where a body cannot be read, the attempt runs to the closer that matches its opener, openers
within it counted: nothing tells whether those stand inside a broken string, so none of them may become a call.
"""

from __future__ import annotations

from dataclasses import dataclass

from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt
from strands_sglang.tool_parsers.result import ToolParseStatus


@dataclass(frozen=True, slots=True)
class Brackets:
    """The opening and closing delimiter of a call.

    Attributes:
        opener: The opening delimiter.
        closer: The closing delimiter.
        outer: The delimiter that ends the group the call stands in, or "".
    """

    opener: str
    closer: str
    outer: str = ""

    def close(self, source: Source, start: int, place: int, outcome: CallOutcome) -> Attempt:
        """Return the attempt whose body ended at `place` and says `outcome`; the closer must follow."""
        after = source.skip_space(place)
        if source.at(self.closer, after):
            end = min(after + len(self.closer), source.end)
            return Attempt(
                start=start,
                end=end,
                status=outcome.status,
                name=outcome.name,
                input=outcome.input,
                reason=outcome.reason,
                native_id=outcome.native_id,
            )
        if after == source.end or source.at(self.opener, after) or (self.outer and source.at(self.outer, after)):
            return unclosed(start, after, self.closer, name=outcome.name)
        reason = f"{source.excerpt(after)} stands where {self.closer} must close the call"
        return self.broken(source, start, after, ToolParseStatus.MALFORMED, reason, outcome.name)

    def broken(
        self, source: Source, start: int, place: int, status: ToolParseStatus, reason: str, name: str | None = None
    ) -> Attempt:
        """Return the attempt that cannot be read from `place` on, up to its matching closer.

        Without a matching closer it is unclosed, and runs to the end of its group or of the text.
        """
        end = source.find_closer((self.opener,), (self.closer,), max(place, start + len(self.opener)))
        if end < 0:
            outer = source.find(self.outer, place) if self.outer else -1
            reason = f"the call was never closed: {self.closer} is missing; and {reason}"
            status, end = ToolParseStatus.UNCLOSED, outer if outer >= 0 else source.end
        return Attempt(start=start, end=end, status=status, name=name, reason=reason)


def unclosed(start: int, end: int, closer: str, *, name: str | None = None) -> Attempt:
    """Return the attempt `[start, end)` whose closing delimiter never came."""
    reason = f"the call was never closed: {closer} is missing"
    return Attempt(start=start, end=end, status=ToolParseStatus.UNCLOSED, name=name, reason=reason)

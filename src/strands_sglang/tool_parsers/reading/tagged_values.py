"""Formats whose calls hold raw values between tags, inside an opening and a closing delimiter.

Owns `TaggedValuesParser`: the head of the call, its parameters (see `tag_values`), its end. Where the closer of
the block is only text, a further closer before the next opener means that the block may have ended too early,
inside a value: the attempt is then ambiguous, never cut.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from strands_sglang.tool_parsers.reading.format import BracketedParser
from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.schema import TypedValue, typed_value
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Header, read_parameters
from strands_sglang.tool_parsers.reading.turn import Attempt
from strands_sglang.tool_parsers.result import ToolParseStatus


class TaggedValuesParser(BracketedParser):
    """Reads `opener head parameters end_tag closer`.

    Attributes:
        end_tag: The tag that ends the parameters, or "" where the closer itself does.
        value_closer: The tag that ends a value.
        value_openers: Text by which the opening of a parameter is recognised.
        newline_framed: Whether one newline on each side of a value is framing.
        python_spellings: Whether `True`, `False` and `None` are in the format for values that are not strings.
    """

    end_tag: str = ""
    value_closer: str
    value_openers: tuple[str, ...]
    newline_framed: bool = False
    python_spellings: bool = False

    @abstractmethod
    def head(self, source: Source, place: int) -> tuple[str, int] | str:
        """Return the tool's name and where its parameters begin, or what is wrong at `place`."""

    @abstractmethod
    def header(self, source: Source, place: int) -> Header | str:
        """Return the parameter that opens at `place`, or what is wrong there."""

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the value that a parameter's text is, as the tool's schema directs."""
        types = source.tools.declared_types(tool, header.key)
        return typed_value(text, types, python_spellings=self.python_spellings)

    def ends(self, source: Source, place: int) -> bool:
        """Whether the end of the call stands at `place`, complete."""
        if not self.end_tag:
            return source.at(self.closer, place)
        return source.at(self.end_tag, place) and source.at(self.closer, source.skip_space(place + len(self.end_tag)))

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the head, the parameters and the end."""
        head = self.head(source, body)
        if isinstance(head, str):
            return self.broken(source, start, body, ToolParseStatus.MALFORMED, head)
        name, place = head
        if not name:
            reason = "the call gives no tool name"
            return self.broken(source, start, place, ToolParseStatus.MISSING_NAME, reason)
        read = read_parameters(source, self, name, place)
        if read.broken:
            return self.broken(source, start, read.end, read.status, read.reason, name)
        outcome = CallOutcome(status=read.status, name=name, input=read.values, reason=read.reason)
        attempt = self.close(source, start, read.end + len(self.end_tag), outcome)
        return attempt if source.by_id(self.closer) else self._checked(source, attempt)

    def _checked(self, source: Source, attempt: Attempt) -> Attempt:
        end = attempt.end
        while True:
            at, which = source.find_first((self.opener, self.closer), end)
            if which != self.closer:
                break
            end = at + len(which)
        if end == attempt.end:
            return attempt
        reason = f"another {self.closer} follows the call, so where it ends cannot be told"
        return replace(attempt, end=end, status=ToolParseStatus.AMBIGUOUS, input={}, reason=reason)

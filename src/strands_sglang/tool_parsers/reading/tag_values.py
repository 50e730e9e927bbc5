"""Parameters whose values are raw text between tags, typed by the tool's schema.

Owns `read_parameters` and the rule for where a value ends. Where the closing tag is one token and ids are
known, the first such token ends the value. In text, a closing tag ends the value only if what may follow it
does follow; and where a value would contain another parameter's opening tag, or a closing tag that could be
one, there is more than one reading and the block is an error. A value is never cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from strands_sglang.tool_parsers.reading.schema import TypedValue
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.result import ToolParseStatus


@dataclass(frozen=True, slots=True)
class Header:
    """The opening of a parameter: its key, and where its value begins.

    Attributes:
        key: The parameter's name.
        value: Where the value begins.
        flag: What the tag says of the value, in formats that do; else None.
    """

    key: str
    value: int
    flag: str | None = None


class TagGrammar(Protocol):
    """What a format says of its parameters."""

    value_closer: str
    """The tag that ends a value."""

    closer: str
    """The delimiter that ends the call; where it is one token, no value reaches over it."""

    value_openers: tuple[str, ...]
    """Text by which the opening of a parameter is recognised; none may stand inside a value in text."""

    newline_framed: bool
    """Whether one newline on each side of a value is framing."""

    def header(self, source: Source, place: int) -> Header | str:
        """Return the parameter that opens at `place`, or what is wrong there."""

    def ends(self, source: Source, place: int) -> bool:
        """Whether the end of the call stands at `place`, complete."""

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the value that this text is."""


@dataclass(slots=True)
class Parameters:
    """What was read: the values, where reading stopped, and the first thing wrong.

    Attributes:
        values: The values by key.
        end: Where the end of the call stands, or where reading broke.
        status: OK, or the first fault.
        reason: The fault in words.
        broken: Whether reading could not go on, so that `end` is only where it broke.
    """

    values: dict[str, Any] = field(default_factory=dict)
    end: int = 0
    status: ToolParseStatus = ToolParseStatus.OK
    reason: str = ""
    broken: bool = False

    def fault(self, status: ToolParseStatus, reason: str) -> None:
        """Note a fault; the first one counts."""
        if self.status is ToolParseStatus.OK:
            self.status, self.reason = status, reason

    def breaks(self, place: int, status: ToolParseStatus, reason: str) -> Parameters:
        """Note that reading breaks here."""
        self.status, self.reason, self.end, self.broken = status, reason, place, True
        return self


def read_parameters(source: Source, grammar: TagGrammar, tool: str, place: int) -> Parameters:
    """Read the parameters of a call of `tool` from `place` up to the end of the call."""
    read = Parameters()
    while True:
        place = source.skip_space(place)
        if grammar.ends(source, place):
            read.end = place
            return read
        header = grammar.header(source, place)
        if isinstance(header, str):
            return read.breaks(place, ToolParseStatus.MALFORMED, header)
        end = _value_end(source, grammar, header)
        if isinstance(end, _Fault):
            return read.breaks(header.value, end.status, end.reason)
        _take(source, grammar, tool, header, end, read)
        place = end + len(grammar.value_closer)


def _take(source: Source, grammar: TagGrammar, tool: str, header: Header, end: int, read: Parameters) -> None:
    text = source.text[header.value : end]
    if grammar.newline_framed:
        text = text.removeprefix("\n")
        text = text.removesuffix("\n")
    if header.key in read.values:
        read.fault(ToolParseStatus.DUPLICATE_KEY, f"the parameter {header.key!r} is given twice")
    value = grammar.value(source, tool, header, text)
    if value.status is not ToolParseStatus.OK:
        read.fault(value.status, f"the parameter {header.key!r} {value.reason}")
    read.values[header.key] = value.value


@dataclass(frozen=True, slots=True)
class _Fault:
    status: ToolParseStatus
    reason: str


def _value_end(source: Source, grammar: TagGrammar, header: Header) -> int | _Fault:
    closer = grammar.value_closer
    first = end = source.find(closer, header.value)
    limit = source.find(grammar.closer, header.value) if source.by_id(grammar.closer) else -1
    if not source.by_id(closer):
        while end >= 0 and not _may_follow(source, grammar, source.skip_space(end + len(closer))):
            end = source.find(closer, end + len(closer))
    if end < 0 or 0 <= limit < end:
        return _Fault(ToolParseStatus.MALFORMED, f"the parameter {header.key!r} is not closed by {closer}")
    if source.by_id(closer):
        return end
    after = source.skip_space(first + len(closer))
    if source.at(closer, source.skip_space(end + len(closer))):
        return _Fault(ToolParseStatus.AMBIGUOUS, f"{closer} stands twice after the parameter {header.key!r}")
    for opener in grammar.value_openers:
        if 0 <= source.find(opener, header.value) < end:
            reason = f"the parameter {header.key!r} contains {opener}, so where it ends cannot be told"
            if first != end:
                reason = f"{source.excerpt(after)} follows {closer}, where a parameter or the end of the call must"
            return _Fault(ToolParseStatus.AMBIGUOUS, reason)
    return end


def _may_follow(source: Source, grammar: TagGrammar, place: int) -> bool:
    """Whether what stands at `place` can only follow a value, so that the closing tag before it is one."""
    if grammar.ends(source, place) or source.at(grammar.value_closer, place):
        return True
    return isinstance(grammar.header(source, place), Header)

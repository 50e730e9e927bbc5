"""Parameters whose values are raw text between tags, typed by the tool's schema.

Owns `ValueGrammar`, what a format says of its tags and how one such call is read, and the rule for where a value
ends. Where the closing tag is one token and ids are known, the first such token ends the value. In text, a
closing tag ends the value only if what may follow it does follow; and where the value would contain another
parameter's opening tag, there is more than one reading and the call is an error. A value is never cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.tool_parsers.reading.brackets import Brackets
from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.schema import Spellings, TypedValue, typed_value
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt
from strands_sglang.tool_parsers.result import ToolParseStatus


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a call.

    Attributes:
        name: The tool's name; "" where it is missing.
        parameters: Where its parameters begin.
        native_id: The model's own id, in formats that have one.
    """

    name: str
    parameters: int
    native_id: str | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """The opening of a parameter.

    Attributes:
        key: The parameter's name.
        value: Where the value begins.
        flag: What the tag says of the value, in formats that do; else None.
        closer: The text that ends this value, where it is not the format's usual tag.
    """

    key: str
    value: int
    flag: str | None = None
    closer: str | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong where reading had to stop."""

    reason: str
    status: ToolParseStatus = ToolParseStatus.MALFORMED


class ValueGrammar(ABC):
    """What a format says of calls that hold raw values between tags.

    Attributes:
        end_tag: The tag that ends the parameters, or "" where the call's closer itself does.
        value_closer: The tag that ends a value.
        value_openers: Text by which the opening of a parameter is recognised.
        bound: The delimiter that no value reaches over, where it is one token; or "".
        newlines_framed: Whether one newline on either side of a value is framing, where it is there.
        spellings: How values are written where no string is declared: "json", "names" for JSON and the names
            `True`, `False` and `None`, or "python" for JSON and Python literals.
    """

    end_tag: str = ""
    value_closer: str
    value_openers: tuple[str, ...]
    bound: str = ""
    newlines_framed: bool = False
    spellings: Spellings = "json"

    @abstractmethod
    def head(self, source: Source, place: int) -> Head | Wrong:
        """Return the beginning of a call, or what is wrong at `place`."""

    @abstractmethod
    def header(self, source: Source, place: int) -> Header | Wrong:
        """Return the parameter that opens at `place`, or what is wrong there."""

    @abstractmethod
    def ends(self, source: Source, place: int) -> bool:
        """Whether the end of the call stands at `place`."""

    def surely_ends(self, source: Source, place: int) -> bool:
        """Whether the end of the call stands at `place` and what follows shows that it is no text of a value."""
        return self.ends(source, place)

    def behind_end(self, source: Source, place: int) -> int:
        """Return the place behind the end of the parameters, which stands at `place`; the call's closer follows."""
        return place + len(self.end_tag)

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the value that a parameter's text is, as the tool's schema directs."""
        types = source.tools.declared_types(tool, header.key)
        return typed_value(text, types, spellings=self.spellings)

    def read_values(self, source: Source, start: int, body: int, brackets: Brackets) -> Attempt:
        """Read the call that begins at `start` and whose head begins at `body`."""
        head = self.head(source, body)
        if isinstance(head, Wrong):
            return brackets.broken(source, start, body, head.status, head.reason)
        if not head.name:
            reason = "the call gives no tool name"
            return brackets.broken(source, start, head.parameters, ToolParseStatus.MISSING_NAME, reason)
        read = Parameters()
        end = read.run(source, self, head.name, head.parameters)
        if isinstance(end, Wrong):
            return brackets.broken(source, start, read.reached, end.status, end.reason, head.name)
        outcome = CallOutcome(
            status=read.status, name=head.name, input=read.values, reason=read.reason, native_id=head.native_id
        )
        return brackets.close(source, start, self.behind_end(source, end), outcome)


@dataclass(slots=True)
class Parameters:
    """The parameters of one call as they are read, and the first that is at fault.

    Attributes:
        values: The values by key.
        status: OK, or the first fault.
        reason: The fault in words.
        reached: How far reading came.
    """

    values: dict[str, Any] = field(default_factory=dict)
    status: ToolParseStatus = ToolParseStatus.OK
    reason: str = ""
    reached: int = 0

    def run(self, source: Source, grammar: ValueGrammar, tool: str, place: int) -> int | Wrong:
        """Read from `place`; returns where the end of the call stands, or what is wrong at `reached`."""
        while True:
            self.reached = place = source.skip_space(place)
            if grammar.ends(source, place):
                return place
            header = grammar.header(source, place)
            if isinstance(header, Wrong):
                return header
            self.reached = header.value
            end = _value_end(source, grammar, header)
            if isinstance(end, Wrong):
                return end
            self._take(source, grammar, tool, header, end)
            place = end + len(header.closer or grammar.value_closer)

    def _take(self, source: Source, grammar: ValueGrammar, tool: str, header: Header, end: int) -> None:
        text = source.text[header.value : end]
        if grammar.newlines_framed:
            text = text.removeprefix("\n").removesuffix("\n")
        if header.key in self.values:
            self._fault(ToolParseStatus.DUPLICATE_KEY, f"the parameter {header.key!r} is given twice")
        value = grammar.value(source, tool, header, text)
        if value.status is not ToolParseStatus.OK:
            self._fault(value.status, f"the parameter {header.key!r} {value.reason}")
        self.values[header.key] = value.value

    def _fault(self, status: ToolParseStatus, reason: str) -> None:
        if self.status is ToolParseStatus.OK:
            self.status, self.reason = status, reason


def _value_end(source: Source, grammar: ValueGrammar, header: Header) -> int | Wrong:
    closer = header.closer or grammar.value_closer
    first = source.find(closer, header.value)
    limit = source.find(grammar.bound, header.value) if grammar.bound and source.by_id(grammar.bound) else -1
    if source.by_id(closer):
        end = first
    else:
        end = source.find_by(f"{closer} that ends", header.value, lambda at: _next_end(source, grammar, closer, at))
    if end < 0 or 0 <= limit < end:
        return Wrong(f"the parameter {header.key!r} is not closed by {closer}")
    return end if source.by_id(closer) else _certain(source, grammar, header, first, end)


def _next_end(source: Source, grammar: ValueGrammar, closer: str, place: int) -> int:
    """Return where the next closing tag stands that something follows which only follows a value, or -1."""
    end = source.find(closer, place)
    while end >= 0 and not _may_follow(source, grammar, closer, source.skip_space(end + len(closer))):
        end = source.find(closer, end + len(closer))
    return end


def _certain(source: Source, grammar: ValueGrammar, header: Header, first: int, end: int) -> int | Wrong:
    """Return `end` if the value can end nowhere else; `first` is the first closing tag in the text."""
    closer = header.closer or grammar.value_closer
    if source.at(closer, source.skip_space(end + len(closer))):
        return Wrong(f"{closer} stands twice after the parameter {header.key!r}", ToolParseStatus.AMBIGUOUS)
    for opener in grammar.value_openers:
        if 0 <= source.find(opener, header.value) < end:
            reason = f"the parameter {header.key!r} contains {opener}, so where it ends cannot be told"
            if first != end:
                after = source.excerpt(source.skip_space(first + len(closer)))
                reason = f"{after} follows {closer}, where a parameter or the end of the call must"
            return Wrong(reason, ToolParseStatus.AMBIGUOUS)
    return end


def _may_follow(source: Source, grammar: ValueGrammar, closer: str, place: int) -> bool:
    """Whether what stands at `place` can only follow a value, so that the closing tag before it is one."""
    if grammar.surely_ends(source, place) or source.at(closer, place):
        return True
    return isinstance(grammar.header(source, place), Header)

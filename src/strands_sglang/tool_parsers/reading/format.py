"""The bases of the formats in this package: delimiters, reasoning marks, blocks and groups.

Owns `FormatParser`, `BracketedParser` (one call between two delimiters) and `GroupedParser` (a group of such
calls between two outer ones). A format says which delimiters it has, how its calls begin, and how one is read;
it holds nothing else. An opener where the format wants something else begins the next attempt; what is missing
at the end of a group is charged to the call before it; text in a group that is no call is an attempt in error.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strands_sglang.tool_parsers.base import ToolParser
from strands_sglang.tool_parsers.reading.brackets import Brackets, unclosed
from strands_sglang.tool_parsers.reading.schema import ToolSchemas
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tokens import Placement, TokenTable, anchor
from strands_sglang.tool_parsers.reading.turn import (
    MAX_ATTEMPTS,
    Attempt,
    Block,
    Frame,
    Layout,
    Reasoning,
    read_turn,
)
from strands_sglang.tool_parsers.result import ParsedTurn, ToolParseStatus

_NAME_MEMBER = re.compile(r'"name"\s*:\s*"([^"\\\n]{1,128})"')
_NAME_WITHIN = 1000


class FormatParser(ToolParser):
    """Reads turns of one format; subclasses say what is the format's own.

    Attributes:
        delimiters: Every delimiter that may be one token; only those that the vocabulary holds count by id.
        anchored: Delimiters that are text around a token, and that token: where the token is one of the
            vocabulary, they count only where it was sampled.
        reasoning: The marks of reasoning, or several of them.
        frames: Marks outside calls and reasoning that are framing.
        before_call: What the template prints between content and a call.
        keeps_native_id: Whether the model's own id is the id, because results refer to it.
    """

    delimiters: tuple[str, ...] = ()
    anchored: Mapping[str, str] = {}
    reasoning: tuple[Reasoning, ...] = (Reasoning(),)
    frames: tuple[Frame, ...] = ()
    before_call: str = "\n"
    keeps_native_id: bool = False

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser.

        Args:
            think_start_token: The mark that opens reasoning, where it is not the format's usual one.
            think_end_token: The mark that closes it.
        """
        marks = self.reasoning[0] if self.reasoning else Reasoning()
        super().__init__(
            think_start_token=think_start_token or marks.open, think_end_token=think_end_token or marks.close
        )
        if think_start_token or think_end_token:
            self.reasoning = (replace(marks, open=self.think_start_token, close=self.think_end_token),)
        self._table: TokenTable | None = None

    @abstractmethod
    def find_call(self, source: Source, start: int) -> int:
        """Return where the next call opener begins at or after `start`, or -1."""

    @abstractmethod
    def read_call(self, source: Source, start: int) -> Block:
        """Read the block whose opener begins at `start`; it ends after `start`."""

    def made_up_id(self, prefix: str, index: int) -> str:
        """Make the id of a turn's call number `index`, where the format has none."""
        return f"{prefix}_{index}"

    def all_delimiters(self, added: Mapping[str, int]) -> Iterable[str]:
        """Return the delimiters, reasoning marks included, for a vocabulary with these added tokens."""
        yield from self.delimiters
        yield from self.anchored.values()
        for marks in self.reasoning:
            yield from (marks.open, marks.close)
        for frame in self.frames:
            yield frame.mark

    def parse_turn(
        self,
        text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        tokenizer: Any = None,
        reasoning_open: bool = False,
        finish_reason: str = "stop",
        id_prefix: str | None = None,
    ) -> ParsedTurn:
        """Take a sampled turn apart; see `ToolParser.parse_turn`."""
        placement = Placement(text=text, marks={}, offsets=None)
        if token_ids is not None and tokenizer is not None:
            placement = anchor(self._token_table(tokenizer).place(text, token_ids), self.anchored)
        source = Source(placement, tools=ToolSchemas(tools), finish_reason=finish_reason)
        return self.read(source, reasoning_open=reasoning_open, id_prefix=id_prefix)

    def read(self, source: Source, *, reasoning_open: bool, id_prefix: str | None) -> ParsedTurn:
        """Take a placed turn apart."""
        return read_turn(source, self.layout(), reasoning_open=reasoning_open, id_prefix=id_prefix)

    def layout(self) -> Layout:
        """Return what the walk over a turn must know of this format."""
        return Layout(
            find_call=self.find_call,
            read_call=self.read_call,
            reasoning=self.reasoning,
            frames=self.frames,
            before_call=self.before_call,
            made_up_id=self.made_up_id,
            keeps_native_id=self.keeps_native_id,
        )

    def _token_table(self, tokenizer: Any) -> TokenTable:
        if self._table is None or self._table.tokenizer is not tokenizer:
            self._table = TokenTable(tokenizer, self.all_delimiters)
        return self._table


class BracketedParser(FormatParser):
    """Reads a format whose block is one call between an opening and a closing delimiter.

    Attributes:
        opener: The opening delimiter.
        closer: The closing delimiter.
    """

    opener: str = ToolParser.DEFAULT_TOOL_START_TOKEN
    closer: str = ToolParser.DEFAULT_TOOL_END_TOKEN

    def __init__(
        self,
        *,
        tool_start_token: str | None = None,
        tool_end_token: str | None = None,
        think_start_token: str | None = None,
        think_end_token: str | None = None,
    ) -> None:
        """Create the parser.

        Args:
            tool_start_token: The delimiter that opens a call, where it is not the format's usual one.
            tool_end_token: The delimiter that closes it.
            think_start_token: The mark that opens reasoning, where it is not the format's usual one.
            think_end_token: The mark that closes it.
        """
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        self.tool_start_token = self.opener = tool_start_token or self.opener
        self.tool_end_token = self.closer = tool_end_token or self.closer
        self.delimiters = (self.opener, self.closer, *self.delimiters)
        self.brackets = Brackets(self.opener, self.closer)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next opener begins."""
        return source.find(self.opener, start)

    def read_call(self, source: Source, start: int) -> Block:
        """Read one block; openers straight after the opener are one attempt, the last of them begins the next."""
        body = source.skip_space(start + len(self.opener))
        if body == source.end:
            attempt = unclosed(start, source.end, self.closer)
        elif source.at(self.opener, body):
            attempt = repeated(source, start, self.opener)
        else:
            attempt = self.read_body(source, start, body)
        return Block((attempt,), attempt.end)

    @abstractmethod
    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the block that begins at `start` and whose body, space skipped, begins at `body`."""


class GroupedParser(FormatParser):
    """Reads a format whose block is a group of calls, each between delimiters of its own.

    Attributes:
        group_opener: The delimiter that opens a group.
        group_closer: The delimiter that closes it.
        call_opener: The delimiter that opens a call.
        call_closer: The delimiter that closes it.
        lone_calls: Whether `call_opener` outside a group is an attempt (in error) rather than text.
    """

    group_opener: str
    group_closer: str
    call_opener: str
    call_closer: str
    lone_calls: bool = True

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser; see `FormatParser`."""
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        self.delimiters = (
            *(self.group_opener, self.group_closer, self.call_opener, self.call_closer),
            *self.delimiters,
        )
        self.brackets = Brackets(self.call_opener, self.call_closer, self.group_closer)
        self._openers = (self.group_opener, self.call_opener)[: 1 + self.lone_calls]
        self._in_group = (self.call_opener, self.group_closer, self.group_opener)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next group, or call outside a group, begins."""
        return source.find_first(self._openers, start)[0]

    def read_call(self, source: Source, start: int) -> Block:
        """Read one group, or one call outside a group."""
        if not source.at(self.group_opener, start):
            attempt = self.read_one(source, start)
            reason = f"the call stands outside {self.group_opener} and {self.group_closer}"
            reason = f"{reason}; besides, {attempt.reason}" if attempt.reason else reason
            attempt = attempt._replace(status=ToolParseStatus.MALFORMED, reason=reason)
            return Block((attempt,), attempt.end)
        attempts: list[Attempt] = []
        at, place = source.at, source.skip_space(start + len(self.group_opener))
        if place < source.end and at(self.group_opener, place):
            attempt = repeated(source, start, self.group_opener)
            return Block((attempt,), attempt.end)
        junk = False
        while True:
            if at(self.call_opener, place):
                junk = False
                attempt = self.read_one(source, place)
            elif at(self.group_closer, place):
                return self._closed_group(source, start, attempts, min(place + len(self.group_closer), source.end))
            elif place == source.end or at(self.group_opener, place):
                return self._open_group(source, start, attempts, place, junk)
            else:
                junk = True
                attempt = self._no_call(source, place)
            attempts.append(attempt)
            if len(attempts) > MAX_ATTEMPTS:
                return Block(attempts, attempt.end)
            place = source.skip_space(attempt.end)

    def _no_call(self, source: Source, place: int) -> Attempt:
        """Return the attempt that text in a group is which is no call."""
        at, _ = source.find_first(self._in_group, place)
        reason = f"{source.excerpt(place)} stands where {self.call_opener} or {self.group_closer} must"
        return Attempt(place, at if at >= 0 else source.end, ToolParseStatus.MALFORMED, reason=reason)

    def _closed_group(self, source: Source, start: int, attempts: list[Attempt], end: int) -> Block:
        if not attempts:
            reason = f"{self.group_opener} is not followed by a call"
            return Block((Attempt(start, end, ToolParseStatus.MALFORMED, reason=reason),), end)
        return self.end_group(source, attempts, end)

    def _open_group(self, source: Source, start: int, attempts: list[Attempt], end: int, junk: bool) -> Block:
        """End a group that never closes: its last call is charged with that."""
        reason = f"the group of calls was never closed: {self.group_closer} is missing"
        if not attempts:
            return Block((Attempt(start, end, ToolParseStatus.UNCLOSED, reason=reason),), end)
        charge_last(attempts, reason, behind=junk)
        return Block(attempts, end)

    def end_group(self, source: Source, attempts: list[Attempt], end: int) -> Block:
        """Return the block of a group whose closer ends at `end`; for formats that must look at what follows."""
        return Block(attempts, end)

    @abstractmethod
    def read_one(self, source: Source, start: int) -> Attempt:
        """Read the call whose opener begins at `start`."""


def repeated(source: Source, start: int, opener: str) -> Attempt:
    """Return the attempt that openers in a row are, up to the last of them, which begins the next attempt."""
    reason = f"{opener} is followed by another {opener} instead of a call"
    return Attempt(start, source.last_of_run(opener, start), ToolParseStatus.MALFORMED, reason=reason)


def charge_last(attempts: list[Attempt], reason: str, *, behind: bool) -> None:
    """Make the last attempt unclosed, if it is none in error; with `behind`, the one before the last."""
    index = len(attempts) - 1 - behind
    if index >= 0 and attempts[index].status is ToolParseStatus.OK:
        attempts[index] = attempts[index]._replace(status=ToolParseStatus.UNCLOSED, reason=reason)


def guessed_name(source: Source, start: int) -> str | None:
    """Return the name that a JSON body which cannot be read seems to give; for display only."""
    match = _NAME_MEMBER.search(source.text, start, min(source.end, start + _NAME_WITHIN))
    return match[1] if match else None

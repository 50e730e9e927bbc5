"""The base of every format in this package: delimiters, reasoning, and what to do with a block that breaks.

Owns `FormatParser` and the three ways an attempt can end in error that all formats share. A format says which
delimiters it has, how its calls begin, and how one block is read; it holds nothing else. Where a body cannot
be read, the attempt runs to the closer that matches its opener, openers within it counted: nothing tells
whether those stand inside a broken string, so none of them may become a call. An opener where the format
wants something else does begin the next attempt.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strands_sglang.tool_parsers.base import ToolParser
from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.schema import ToolSchemas
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tokens import Placement, TokenTable
from strands_sglang.tool_parsers.reading.turn import Attempt, Block, Layout, Reasoning, read_turn
from strands_sglang.tool_parsers.result import ParsedTurn, ToolParseStatus

_NAME_MEMBER = re.compile(r'"name"\s*:\s*"([^"\\\n]{1,128})"')
_NAME_WITHIN = 1000


class FormatParser(ToolParser):
    """Reads turns of one format; subclasses say what is the format's own.

    Attributes:
        delimiters: Every delimiter that may be one token; only those that the vocabulary holds count by id.
        reasoning: The marks of reasoning, or None.
        before_call: What the template prints between content and a call.
        keeps_native_id: Whether the model's own id is the id, because results refer to it.
    """

    delimiters: tuple[str, ...] = ()
    reasoning: Reasoning | None = Reasoning()
    before_call: str = "\n"
    keeps_native_id: bool = False

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser.

        Args:
            think_start_token: The mark that opens reasoning, where it is not the format's usual one.
            think_end_token: The mark that closes it.
        """
        marks = self.reasoning or Reasoning()
        super().__init__(
            think_start_token=think_start_token or marks.open, think_end_token=think_end_token or marks.close
        )
        if think_start_token or think_end_token:
            self.reasoning = replace(marks, open=self.think_start_token, close=self.think_end_token)
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
        marks = (self.reasoning.open, self.reasoning.close) if self.reasoning else ()
        return (*self.delimiters, *marks)

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
            placement = self._token_table(tokenizer).place(text, token_ids)
        source = Source(placement, tools=ToolSchemas(tools), finish_reason=finish_reason)
        layout = Layout(
            find_call=self.find_call,
            read_call=self.read_call,
            reasoning=self.reasoning,
            before_call=self.before_call,
            made_up_id=self.made_up_id,
            keeps_native_id=self.keeps_native_id,
        )
        return read_turn(source, layout, reasoning_open=reasoning_open, id_prefix=id_prefix)

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

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next opener begins."""
        return source.find(self.opener, start)

    def read_call(self, source: Source, start: int) -> Block:
        """Read one block; an opener straight after the opener begins the next one."""
        body = source.skip_space(start + len(self.opener))
        if source.at(self.opener, body):
            reason = f"{self.opener} is followed by another {self.opener} instead of a call"
            attempt = Attempt(start=start, end=body, status=ToolParseStatus.MALFORMED, reason=reason)
        elif body == source.end:
            attempt = unclosed(start, source.end, self.closer)
        else:
            attempt = self.read_body(source, start, body)
        return Block((attempt,), attempt.end)

    @abstractmethod
    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the block that begins at `start` and whose body, space skipped, begins at `body`."""

    def close(self, source: Source, start: int, place: int, outcome: CallOutcome) -> Attempt:
        """Return the attempt whose body ended at `place` and says `outcome`; the closer must follow."""
        after = source.skip_space(place)
        if source.at(self.closer, after):
            return Attempt(start=start, end=min(after + len(self.closer), source.end), **outcome.as_attempt())
        if after == source.end or source.at(self.opener, after):
            return unclosed(start, after, self.closer, name=outcome.name)
        reason = f"{source.excerpt(after)} stands where {self.closer} must close the call"
        return self.broken(source, start, after, ToolParseStatus.MALFORMED, reason, outcome.name)

    def broken(
        self, source: Source, start: int, place: int, status: ToolParseStatus, reason: str, name: str | None = None
    ) -> Attempt:
        """Return the attempt that cannot be read from `place` on, up to its matching closer.

        Without a matching closer it is unclosed, and runs to the end of the text.
        """
        depth = 1
        while depth:
            at, which = source.find_first((self.opener, self.closer), place)
            if at < 0:
                status, place = ToolParseStatus.UNCLOSED, source.end
                reason = f"the call was never closed: {self.closer} is missing; and {reason}"
                break
            depth += 1 if which == self.opener else -1
            place = at + len(which)
        return Attempt(start=start, end=place, status=status, name=name, reason=reason)


def unclosed(start: int, end: int, closer: str, *, name: str | None = None) -> Attempt:
    """Return the attempt `[start, end)` whose closing delimiter never came."""
    reason = f"the call was never closed: {closer} is missing"
    return Attempt(start=start, end=end, status=ToolParseStatus.UNCLOSED, name=name, reason=reason)


def guessed_name(source: Source, start: int) -> str | None:
    """Return the name that a JSON body which cannot be read seems to give; for display only."""
    match = _NAME_MEMBER.search(source.text, start, min(source.end, start + _NAME_WITHIN))
    return match[1] if match else None

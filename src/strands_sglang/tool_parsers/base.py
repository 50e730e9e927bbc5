"""The contract every tool parser keeps, and the way to call parsers that know only the older one.

Owns `ToolParser` and `parse_turn_with`. A parser is given what the model wrote and reports every attempt;
it raises for nothing the model can write. Parsers of the old kind define `parse(text)` and return a list:
they still work everywhere in this library through `parse_turn_with`.
Never holds the formats: those are one file each, found through `registry`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from strands_sglang.tool_parsers.registry import TOOL_PARSER_REGISTRY, get_tool_parser, register_tool_parser
from strands_sglang.tool_parsers.result import ParsedTurn, ToolParseResult

__all__ = [
    "TOOL_PARSER_REGISTRY",
    "ToolParseResult",
    "ToolParser",
    "get_tool_parser",
    "parse_turn_with",
    "register_tool_parser",
]


class ToolParser:
    """Reads one surface format. Subclasses define `parse_turn`, or `parse(text)` as older parsers do.

    The four marker arguments, and the two patterns made from them, are what parsers written against earlier
    releases build on; a format with other delimiters ignores none of them silently, it does not take them.
    """

    DEFAULT_TOOL_START_TOKEN = "<tool_call>"
    DEFAULT_TOOL_END_TOKEN = "</tool_call>"
    DEFAULT_THINK_START_TOKEN = "<think>"
    DEFAULT_THINK_END_TOKEN = "</think>"

    def __init__(
        self,
        tool_start_token: str = DEFAULT_TOOL_START_TOKEN,
        tool_end_token: str = DEFAULT_TOOL_END_TOKEN,
        think_start_token: str = DEFAULT_THINK_START_TOKEN,
        think_end_token: str = DEFAULT_THINK_END_TOKEN,
    ) -> None:
        """Create a parser with its call and reasoning markers."""
        self.tool_start_token = tool_start_token
        self.tool_end_token = tool_end_token
        self.think_start_token = think_start_token
        self.think_end_token = think_end_token

    @cached_property
    def tool_pattern(self) -> re.Pattern[str]:
        """Matches one call block by its text; for parsers of the old kind, our own do not use it."""
        start, end = re.escape(self.tool_start_token), re.escape(self.tool_end_token)
        return re.compile(rf"{start}\s*(.*?)\s*{end}", re.DOTALL)

    @cached_property
    def think_pattern(self) -> re.Pattern[str]:
        """Matches one reasoning block by its text; for parsers of the old kind, our own do not use it."""
        start, end = re.escape(self.think_start_token), re.escape(self.think_end_token)
        return re.compile(rf"{start}.*?{end}", re.DOTALL)

    def parse(
        self,
        text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        tokenizer: Any = None,
        reasoning_open: bool = False,
        finish_reason: str = "stop",
        id_prefix: str | None = None,
    ) -> list[ToolParseResult]:
        """Return the call attempts in the order written; the arguments are those of `parse_turn`."""
        turn = self.parse_turn(
            text,
            tools=tools,
            token_ids=token_ids,
            tokenizer=tokenizer,
            reasoning_open=reasoning_open,
            finish_reason=finish_reason,
            id_prefix=id_prefix,
        )
        return list(turn.calls)

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
        """Take a sampled turn apart.

        Args:
            text: The sampled text with its special tokens, without the token that ended the turn.
            tools: The tools the model was shown, as OpenAI tool objects or Strands tool specs; formats whose
                values are raw text take the types from them.
            token_ids: The sampled ids. With them, and a tokenizer, a delimiter that is one token counts only
                where that token was sampled. The turn's end token may be among them.
            tokenizer: The Hugging Face tokenizer the ids belong to.
            reasoning_open: Whether the prompt ended inside reasoning.
            finish_reason: "stop", "length" or "abort".
            id_prefix: Begins the ids made up for calls. Left out, it is derived from the text, so that ids are
                the same each time a turn is read; give one per turn where turns may repeat word for word.

        Returns:
            The turn; it never raises for anything the model can write.
        """
        if type(self).parse is ToolParser.parse:
            raise NotImplementedError(f"{type(self).__name__} defines neither parse_turn nor parse")
        return _from_old_parse(self.parse, text)


def parse_turn_with(
    parser: Any,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    token_ids: Sequence[int] | None = None,
    tokenizer: Any = None,
    reasoning_open: bool = False,
    finish_reason: str = "stop",
    id_prefix: str | None = None,
) -> ParsedTurn:
    """Read a turn with any parser, also one that only defines `parse(text)` and returns a list.

    Args:
        parser: A `ToolParser`, or any object with `parse_turn` or `parse`.
        text: See `ToolParser.parse_turn`, also for the rest; what a parser's own signature does not take is
            not passed to it.
        tools: The tools the model was shown.
        token_ids: The sampled ids.
        tokenizer: The tokenizer the ids belong to.
        reasoning_open: Whether the prompt ended inside reasoning.
        finish_reason: "stop", "length" or "abort".
        id_prefix: Begins the ids made up for calls.

    Returns:
        The turn. From a parser of the old kind: its calls, all text as content, no reasoning, no pieces.
    """
    context: dict[str, Any] = {
        "tools": tools,
        "token_ids": token_ids,
        "tokenizer": tokenizer,
        "reasoning_open": reasoning_open,
        "finish_reason": finish_reason,
        "id_prefix": id_prefix,
    }
    own_parse_turn = getattr(type(parser), "parse_turn", None)
    if own_parse_turn is not None and own_parse_turn is not ToolParser.parse_turn:
        turn: ParsedTurn = parser.parse_turn(text, **_accepted(parser.parse_turn, context))
        return turn
    return _from_old_parse(parser.parse, text, **_accepted(parser.parse, context))


def _accepted(function: Any, context: dict[str, Any]) -> dict[str, Any]:
    names = _parameters(getattr(function, "__func__", function))
    return context if names is None else {name: value for name, value in context.items() if name in names}


@lru_cache(maxsize=64)
def _parameters(function: Any) -> frozenset[str] | None:
    """Return the names of a function's parameters, or None where it takes any."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return frozenset(parameters)


def _from_old_parse(parse: Any, text: str, **context: Any) -> ParsedTurn:
    return ParsedTurn(reasoning=None, content=text, calls=tuple(parse(text, **context)), text=text)

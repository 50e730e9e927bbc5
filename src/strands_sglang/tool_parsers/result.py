"""What a parser reports: one `ToolParseResult` per call attempt, and the `ParsedTurn` that holds them.

Owns the result types. The pieces of a turn partition its text: `"".join(text[p.start:p.end] for p in pieces)`
is the text that was read, so nothing the model wrote can be lost between reasoning, content and calls.
An error never carries arguments: `input` is `{}` wherever `is_error`, and what was written stands in `raw`.
Never decides what to do about an error, and never judges whether a tool exists.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, cast


class ToolParseStatus(StrEnum):
    """How reading one call attempt ended. Everything but `OK` is an error and must not be executed."""

    OK = "ok"
    """Read completely; `input` is what was written."""

    INVALID_JSON = "invalid_json"
    """A body or value that must be JSON (RFC 8259) is not."""

    INVALID_ARGUMENTS = "invalid_arguments"
    """Arguments that are missing or not an object, or a value that is none of the types its schema declares."""

    DUPLICATE_KEY = "duplicate_key"
    """A JSON key or a parameter is given twice, so what was meant cannot be told."""

    MISSING_NAME = "missing_name"
    """No tool name, an empty one, or a name that is not text."""

    MALFORMED = "malformed"
    """The delimiters or what stands between them do not follow the format."""

    AMBIGUOUS = "ambiguous"
    """Delimiter text inside a raw value leaves more than one reading, and no token ids decide."""

    UNCLOSED = "unclosed"
    """The closing delimiter never came: cut off, or forgotten."""

    IN_OPEN_REASONING = "in_open_reasoning"
    """Written inside reasoning that never ended: perhaps a draft, so it is reported and not executed."""


@dataclass(frozen=True)
class ToolParseResult:
    """One call attempt.

    Attributes:
        id: Unique within the turn. The model's own id where the format has the model refer to it, else made up.
        name: The tool's name. On errors the best guess, for display only, or `UNKNOWN_NAME`.
        input: The arguments, exactly as written. `{}` on errors.
        raw: The whole attempt as written, delimiters included; None only where a caller built the result
            without it.
        status: How reading ended. Left out, it follows from `raw` as in results built by hand: OK where `raw`
            is None, else MALFORMED.
        reason: What was wrong, in words the model can act on; empty where nothing was.
        native_id: The id the model itself wrote, or None where the format has none.
        span: Characters `[start, end)` of the attempt in `ParsedTurn.text`, or None where not known.
        token_span: Sampled tokens `[start, end)` that overlap `span`, or None where no ids were given or the
            tokenizer does not let them be placed.
    """

    UNKNOWN_NAME: ClassVar[str] = "unknown_tool"

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    raw: str | None = None
    status: ToolParseStatus = field(default=cast("ToolParseStatus", None), kw_only=True)
    reason: str = field(default="", kw_only=True)
    native_id: str | None = field(default=None, kw_only=True)
    span: tuple[int, int] | None = field(default=None, kw_only=True)
    token_span: tuple[int, int] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Derive the status of results built by hand."""
        if self.status is None:
            derived = ToolParseStatus.OK if self.raw is None else ToolParseStatus.MALFORMED
            object.__setattr__(self, "status", derived)

    @classmethod
    def from_parse_error(cls, id: str, raw: str, name: str | None = None) -> ToolParseResult:
        """Create an error result from text that could not be read."""
        return cls(id=id, name=cls.UNKNOWN_NAME if name is None else name, raw=raw)

    @property
    def is_error(self) -> bool:
        """Whether this attempt must not be executed."""
        return self.status is not ToolParseStatus.OK

    @property
    def payload(self) -> str:
        """The arguments as JSON text, or on errors the attempt as written."""
        return self.raw or "" if self.is_error else json.dumps(self.input)


class PieceKind(StrEnum):
    """What a stretch of the turn's text is."""

    REASONING = "reasoning"
    """Text of the reasoning."""

    CONTENT = "content"
    """Text for whoever reads the answer."""

    CALL = "call"
    """A call attempt, delimiters included."""

    FRAMING = "framing"
    """What the format puts around the others: reasoning marks, wrapper tags, the newline before a call."""


class Piece(NamedTuple):
    """A stretch `[start, end)` of the turn's text."""

    kind: PieceKind
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTurn:
    """A sampled turn, taken apart.

    Attributes:
        reasoning: All reasoning text, in order; None where there is none, "" where it is empty.
        content: All text outside calls and reasoning: before, between and after, in order.
        calls: The call attempts in the order written, errors among them.
        pieces: The partition of `text`, in order; empty where a parser of the old kind gave only calls.
        text: The text all spans count in: what was given, or what the token ids decode to where that differs.
    """

    reasoning: str | None
    content: str
    calls: tuple[ToolParseResult, ...]
    pieces: tuple[Piece, ...] = ()
    text: str = ""

"""What a case file says of its format, and how the suites find it."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.tool_parsers import ParsedTurn, ToolParser, get_tool_parser
from tests.unit.tool_parsers import cases

Call = tuple[str, dict[str, Any]]

WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "ratio": {"type": "number"},
                "flag": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string"}}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
        },
    },
}

CALL: Call = (
    "get_weather",
    {"city": "Paris", "days": 3, "flag": True, "tags": ["a", "b"], "where": {"lat": 1.5, "name": "x"}},
)
OTHER: Call = ("get_time", {"zone": "UTC"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A text and what must be read from it.

    Attributes:
        fact: What the case shows.
        text: The text.
        calls: Per attempt: its status, name and arguments; or the status alone.
        content: The content, or None where the case does not say.
        reasoning: The reasoning, or "?" where the case does not say.
        context: Further arguments of `parse_turn`.
    """

    fact: str
    text: str
    calls: Sequence[str | tuple[str, str, dict[str, Any]]] = ()
    content: str | None = None
    reasoning: str | None = "?"
    context: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format as the suites need it.

    Attributes:
        name: Its name in the registry.
        render: Writes calls as the format does.
        marks: Delimiters and tags, for hostile texts.
        json_body: Writes a call whose arguments are this JSON text, in formats whose arguments are JSON; else None.
        raw_value: Writes a call of `get_weather` with one parameter as raw text, in formats typed by schema; else None.
        think: The marks around reasoning, or None where the format has no such marks.
        needs_all: Whether the calls must be the whole answer, so that nothing may stand before them.
        several: Whether an answer can have several calls.
        closed: Whether something must follow the JSON of a call, so that text behind it is an error.
        options: Arguments that the parser is made with.
        cases: The format's own cases.
    """

    name: str
    render: Callable[[Sequence[Call]], str]
    marks: Sequence[str]
    json_body: Callable[[str, str], str] | None = None
    raw_value: Callable[[str, str], str] | None = None
    think: tuple[str, str] | None = ("<think>", "</think>")
    needs_all: bool = False
    several: bool = True
    closed: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    cases: Sequence[Case] = ()

    def parser(self) -> ToolParser:
        """Return a new parser of this format."""
        return get_tool_parser(self.name, **self.options)

    def parse(self, text: str, **context: Any) -> ParsedTurn:
        """Read a text with the tools of these suites."""
        return self.parser().parse_turn(text, **{"tools": [WEATHER], **context})


def dumps(value: Any) -> str:
    """Return JSON as templates print it."""
    return json.dumps(value, ensure_ascii=False)


def raw(value: Any) -> str:
    """Return a value as formats with raw values print it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else dumps(value)


def object_call(name: str, arguments: str, keys: tuple[str, str] = ("name", "arguments")) -> str:
    """Return a call object around arguments that are JSON text."""
    return f'{{"{keys[0]}": {dumps(name)}, "{keys[1]}": {arguments}}}'


def all_formats() -> list[Format]:
    """Return every format that has a case file."""
    names = sorted(module.name for module in pkgutil.iter_modules(cases.__path__))
    return [importlib.import_module(f"{cases.__name__}.{name}").FORMAT for name in names]


FORMATS = all_formats()

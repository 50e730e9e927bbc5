"""Names to parsers.

Owns the table of formats (name to "module:Class", loaded on first use), the aliases under which SGLang and
vLLM know them, and `register_tool_parser` for parsers written elsewhere. A registered name wins over the
table, the table over the aliases. Never imports a format that was not asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from strands_sglang.errors import UnknownNameError

if TYPE_CHECKING:
    from strands_sglang.tool_parsers.base import ToolParser

T = TypeVar("T")

FORMATS: dict[str, str] = {
    "hermes": "hermes:HermesToolParser",
    "qwen_xml": "qwen_xml:QwenXMLToolParser",
}
"""Our formats: name to module and class below this package."""

ALIASES: dict[str, str] = {
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3": "hermes",
    "qwen3_json": "hermes",
    "qwen3_coder": "qwen_xml",
    "qwen3_xml": "qwen_xml",
}
"""Names of SGLang and vLLM, and other common ones, to our formats."""

_registered: dict[str, type[Any]] = {}


class _Registry(Mapping[str, "type[ToolParser]"]):
    """The parsers by name as one mapping; reading an entry loads its module."""

    def __getitem__(self, name: str) -> type[ToolParser]:
        if name in _registered:
            return _registered[name]
        module, _, cls = FORMATS[ALIASES.get(name, name)].partition(":")
        found: type[ToolParser] = getattr(importlib.import_module(f"strands_sglang.tool_parsers.{module}"), cls)
        return found

    def __setitem__(self, name: str, cls: type[ToolParser]) -> None:
        _registered[name] = cls

    def __iter__(self) -> Iterator[str]:
        return iter({**FORMATS, **ALIASES, **_registered})

    def __len__(self) -> int:
        return len({**FORMATS, **ALIASES, **_registered})

    def __contains__(self, name: object) -> bool:
        return name in _registered or name in FORMATS or name in ALIASES


TOOL_PARSER_REGISTRY = _Registry()
"""Every parser by every name, aliases included."""


def register_tool_parser(name: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that makes a parser available as `get_tool_parser(name)`."""

    def register(cls: type[T]) -> type[T]:
        _registered[name] = cls
        return cls

    return register


def get_tool_parser(name: str, **kwargs: Any) -> ToolParser:
    """Create a parser by name.

    Args:
        name: A format, an alias, or a registered name.
        **kwargs: Passed to the parser's constructor.

    Returns:
        A new parser.

    Raises:
        UnknownNameError: There is no such parser; the message names the nearest one.
    """
    if name not in TOOL_PARSER_REGISTRY:
        raise UnknownNameError("tool parser", name, TOOL_PARSER_REGISTRY)
    return TOOL_PARSER_REGISTRY[name](**kwargs)

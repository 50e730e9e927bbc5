"""Sampled text and ids to reasoning, content and call attempts; one file per surface format.

`get_tool_parser("hermes").parse_turn(text)` takes a turn apart. Every attempt to call a tool is one
`ToolParseResult`: a call exactly as written, or an error that says what was wrong. Nothing is repaired, guessed
or dropped. How formats are read, and how to add one, stands in `reading`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from strands_sglang.tool_parsers.base import ToolParser, parse_turn_with
from strands_sglang.tool_parsers.registry import TOOL_PARSER_REGISTRY, get_tool_parser, register_tool_parser
from strands_sglang.tool_parsers.result import ParsedTurn, Piece, PieceKind, ToolParseResult, ToolParseStatus

if TYPE_CHECKING:
    from strands_sglang.tool_parsers.glm import GLMToolParser
    from strands_sglang.tool_parsers.hermes import HermesToolParser
    from strands_sglang.tool_parsers.kimi_k2 import KimiK2ToolParser
    from strands_sglang.tool_parsers.qwen_xml import QwenXMLToolParser

_CLASSES = {
    "GLMToolParser": "glm",
    "HermesToolParser": "hermes",
    "KimiK2ToolParser": "kimi_k2",
    "QwenXMLToolParser": "qwen_xml",
}

__all__ = [
    "TOOL_PARSER_REGISTRY",
    "GLMToolParser",
    "HermesToolParser",
    "KimiK2ToolParser",
    "ParsedTurn",
    "Piece",
    "PieceKind",
    "QwenXMLToolParser",
    "ToolParseResult",
    "ToolParseStatus",
    "ToolParser",
    "get_tool_parser",
    "parse_turn_with",
    "register_tool_parser",
]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_CLASSES[name]}"), name)

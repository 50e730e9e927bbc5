"""What an answer must look like, as SGLang's grammars: a JSON object of a schema, or a call of a certain tool.

Where the prompt leaves a reasoning block open, the grammar lets the model reason and close the block first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.tool_parsers import HermesToolParser, QwenXMLToolParser

Format = dict[str, Any]
"""One node of a structural tag, as xgrammar defines them."""

# Call formats that can be written as a tag around a tool's schema: (what begins it, kind of content, what ends it).
_CALL_TAGS: tuple[tuple[type, str, str, str], ...] = (
    (HermesToolParser, '<tool_call>\n{{"name": "{name}", "arguments": ', "json_schema", "}\n</tool_call>"),
    (QwenXMLToolParser, "<tool_call>\n<function={name}>\n", "qwen_xml_parameter", "\n</function>\n</tool_call>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint on one answer.

    Attributes:
        grammar: Gives sampling parameters for what ends an open reasoning block, None where none is open.
        is_json: Whether the answer is JSON text, in which no calls are to be looked for.
    """

    grammar: Callable[[str | None], dict[str, str]]
    is_json: bool


def json_answer(schema: Mapping[str, Any]) -> Constraint:
    """Constrain an answer to a JSON object of a schema."""

    def grammar(reasoning_close: str | None) -> dict[str, str]:
        if reasoning_close is None:
            return {"json_schema": json.dumps(schema)}
        return _structural_tag(reasoning_close, {"type": "json_schema", "json_schema": schema})

    return Constraint(grammar=grammar, is_json=True)


def forced_call(parser: Any, tools: Sequence[Mapping[str, Any]] | None, name: str | None) -> Constraint | None:
    """Constrain an answer to one call.

    Args:
        parser: The parser whose format the model writes.
        tools: The tools on offer, in function form.
        name: The tool that must be called; None for any.

    Returns:
        The constraint, or None where the format cannot be written as a grammar, or no such tool is on offer.
    """
    functions = [tool["function"] for tool in tools or () if name in (None, tool["function"]["name"])]
    tag = next(((begin, kind, end) for cls, begin, kind, end in _CALL_TAGS if type(parser) is cls), None)
    if tag is None or not functions:
        return None
    begin, kind, end = tag
    tags: list[Format] = [
        {
            "type": "tag",
            "begin": begin.format(name=function["name"]),
            "content": {"type": kind, "json_schema": function["parameters"]},
            "end": end,
        }
        for function in functions
    ]
    call = tags[0] if len(tags) == 1 else {"type": "or", "elements": tags}
    return Constraint(grammar=lambda reasoning_close: _structural_tag(reasoning_close, call), is_json=False)


def _structural_tag(reasoning_close: str | None, answer: Format) -> dict[str, str]:
    """Return a structural tag for an answer, after the end of reasoning where that is open."""
    if reasoning_close is not None:
        mark = reasoning_close.strip()
        elements: list[Format] = [{"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": mark}]
        if after := reasoning_close.partition(mark)[2]:
            elements.append({"type": "const_string", "value": after})
        answer = {"type": "sequence", "elements": [*elements, answer]}
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": answer})}

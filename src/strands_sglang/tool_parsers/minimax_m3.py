"""The MiniMax M3 format: nested elements, every tag behind the token `]<]minimax[>[`, here written #.

    #<tool_call>
    #<invoke name="get_weather">#<city>Paris#</city>#<days>#<item>1#</item>#</days>#</invoke>
    #</tool_call>

An element with elements in it is an object, or a list where they are all `item` and the schema does not call for an
object. An element with text in it is typed by its place in the schema. Tags without the token are text. Reasoning
stands between `<mm:think>` and `</mm:think>`.
"""

from __future__ import annotations

import re
from typing import Any

from strands_sglang.tool_parsers.reading.format import GroupedParser
from strands_sglang.tool_parsers.reading.json_call import CallOutcome
from strands_sglang.tool_parsers.reading.schema import Schema, typed_value
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_TOKEN = "]<]minimax[>["
_INVOKE = re.compile(r' name="([^"<>\n]*)">')
_TAG = re.compile(r"<([^<>/\s][^<>\n]*)>")
_MAX_DEPTH = 100


class _ElementError(ValueError):
    """Elements that do not follow the format."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.place = place


class _Elements:
    """Reads the elements of one call."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.status = ToolParseStatus.OK
        self.reason = ""

    def members(self, place: int, closing: str, schema: Schema, depth: int = 0) -> tuple[list[tuple[str, Any]], int]:
        """Read elements up to the closing tag; returns them and the place behind it."""
        source = self._source
        members: list[tuple[str, Any]] = []
        listed = self._is_list(schema)
        while True:
            at = source.skip_space(place)
            if source.at(_TOKEN + closing, at):
                return members, at + len(_TOKEN + closing)
            tag = _TAG.match(source.text, at + len(_TOKEN)) if source.at(_TOKEN, at) else None
            if not tag or depth > _MAX_DEPTH:
                raise _ElementError(f"{source.excerpt(at)} stands where an element or {closing} must", at)
            within = schema.items() if listed and tag[1] == "item" else schema.member(tag[1])
            value, place = self._element(tag.end(), tag[1], within, depth)
            members.append((tag[1], value))

    def _element(self, place: int, tag: str, schema: Schema, depth: int) -> tuple[Any, int]:
        """Read one element behind its opening tag."""
        source, closing = self._source, f"</{tag}>"
        at = source.find(_TOKEN, place)
        if at < 0:
            raise _ElementError(f"the element {tag!r} is never closed", place)
        if source.at(_TOKEN + closing, at):
            return self._leaf(source.text[place:at], tag, schema), at + len(_TOKEN + closing)
        if source.skip_space(place) != at:
            raise _ElementError(f"the element {tag!r} is not closed by {_TOKEN}{closing}", at)
        members, end = self.members(place, closing, schema, depth + 1)
        return self._collected(members, tag, schema), end

    def _leaf(self, text: str, tag: str, schema: Schema) -> Any:
        types = schema.types()
        if text == "" and types is not None and "string" not in types:
            empty: dict[str, Any] = {"object": {}, "array": []}
            kinds = [kind for kind in empty if kind in types]
            if len(kinds) == 1:
                return empty[kinds[0]]
        value = typed_value(text, types)
        if value.status is not ToolParseStatus.OK:
            self._fault(value.status, f"the parameter {tag!r} {value.reason}")
        return value.value

    def _collected(self, members: list[tuple[str, Any]], tag: str, schema: Schema) -> Any:
        types = schema.types()
        if types is not None and not types & {"object", "array"}:
            reason = f"the parameter {tag!r} must be {' or '.join(sorted(types))}, but holds elements"
            self._fault(ToolParseStatus.INVALID_ARGUMENTS, reason)
        if all(key == "item" for key, _ in members) and not (types and "object" in types and "array" not in types):
            return [value for _, value in members]
        return self.as_object(members, f"the element {tag!r}")

    def as_object(self, members: list[tuple[str, Any]], where: str) -> dict[str, Any]:
        """Return members as an object; one given twice is a fault."""
        values = dict(members)
        if len(values) != len(members):
            self._fault(ToolParseStatus.DUPLICATE_KEY, f"a parameter is given twice in {where}")
        return values

    def _is_list(self, schema: Schema) -> bool:
        types = schema.types()
        return types is None or "object" not in types or "array" in types

    def _fault(self, status: ToolParseStatus, reason: str) -> None:
        if self.status is ToolParseStatus.OK:
            self.status, self.reason = status, reason


class MiniMaxM3ToolParser(GroupedParser):
    """Reads the MiniMax M3 format."""

    group_opener = f"{_TOKEN}<tool_call>"
    group_closer = f"{_TOKEN}</tool_call>"
    call_opener = f"{_TOKEN}<invoke"
    call_closer = f"{_TOKEN}</invoke>"
    anchored = dict.fromkeys((group_opener, group_closer, call_opener, call_closer), _TOKEN)
    delimiters = (_TOKEN,)
    reasoning = (
        Reasoning(open="<mm:think>", close="</mm:think>", after_open="", before_close="", after_close=""),
        Reasoning(after_open="", before_close="", after_close=""),
    )
    before_call = "\n"

    def read_one(self, source: Source, start: int) -> Attempt:
        """Read one call."""
        head = _INVOKE.match(source.text, start + len(self.call_opener))
        body = head.end() if head else start + len(self.call_opener)
        if not head or not head[1]:
            status = ToolParseStatus.MISSING_NAME if head else ToolParseStatus.MALFORMED
            reason = f'{source.excerpt(body)} stands where name="NAME"> must'
            return self.brackets.broken(source, start, body, status, reason)
        elements = _Elements(source)
        try:
            members, end = elements.members(body, "</invoke>", source.tools.of(head[1]))
        except _ElementError as error:
            reason = str(error)
            return self.brackets.broken(source, start, error.place, ToolParseStatus.MALFORMED, reason, head[1])
        values = elements.as_object(members, "the call")
        outcome = CallOutcome(status=elements.status, name=head[1], input=values, reason=elements.reason)
        return Attempt(start, end, outcome.status, outcome.name, outcome.input, outcome.reason)

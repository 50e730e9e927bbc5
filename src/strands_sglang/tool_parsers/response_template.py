"""The format that a tokenizer declares itself, in the `response_template` of its configuration.

    {"start_anchor": "<|im_start|>assistant",
     "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true, "content": "json",
                       "transform": {"type": "function", "function": "{content}"}},
        "content": {"close": "<|im_end|>"}}}

Transformers, SGLang (`response_template`) and vLLM (`hf`) read such templates too. Here they are read by the rules of
all formats of this package: nothing is skipped, repaired or guessed, and raw values are typed by the tool's schema
rather than by a look at them. What a template says that has no strict reading is refused when the parser is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers.base import ToolParser
from strands_sglang.tool_parsers.reading.declared import Declaration, declaration_of
from strands_sglang.tool_parsers.reading.format import BracketedParser, FormatParser, guessed_name
from strands_sglang.tool_parsers.reading.json_call import CallOutcome, JSONShape, arguments_of, read_object
from strands_sglang.tool_parsers.reading.json_list import broken_json, end_unclosed, read_list
from strands_sglang.tool_parsers.reading.python_calls import PythonCallsParser
from strands_sglang.tool_parsers.reading.schema import Spellings, TypedValue
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.strict_json import JSONRead
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import TaggedValuesParser
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import ParsedTurn, ToolParseStatus


class _Declared(BracketedParser):
    """What the parsers of declared formats share."""

    def __init__(self, declared: Declaration) -> None:
        self.declared = declared
        self.opener, self.closer = declared.opener, declared.closer
        self.reasoning, self.frames = declared.reasoning, declared.frames
        self.keeps_native_id = "id" in declared.paths
        super().__init__()
        self.delimiters = tuple(mark for mark in self.delimiters if mark)

    def opening(self, source: Source, start: int) -> tuple[dict[str, str | None], int] | Wrong:
        """Return the groups of the opening at `start` and where the body begins, or what is wrong with it."""
        if self.declared.head is None:
            return {}, source.skip_space(start + len(self.opener))
        match = self.declared.head.match(source.text, start)
        if not match:
            return Wrong(f"{source.excerpt(start)} is not how a call opens")
        return match.groupdict(), source.skip_space(match.end())

    def behind_end_tags(self, source: Source, place: int) -> int:
        """Return the place behind the tags before the closer, or -1 where one is missing that must be there."""
        for tag in self.declared.end_tags:
            at = source.skip_space(place)
            if source.at(tag, at):
                place = at + len(tag)
            elif self.declared.end_tags_needed:
                return -1
        return place


class _DeclaredJSON(_Declared):
    """Reads calls that are JSON."""

    def __init__(self, declared: Declaration) -> None:
        super().__init__(declared)
        members = {what: path.partition(".")[2] for what, path in declared.paths.items() if "." in path}
        self.shape = JSONShape(
            name=members.get("name", "name"), arguments=members.get("arguments", "arguments"), id=members.get("id")
        )

    def read_call(self, source: Source, start: int) -> Block:
        """Read one call, or one list of calls."""
        body = source.skip_space(start + len(self.opener))
        if not self.declared.each or source.at(self.opener, body):
            return super().read_call(source, start)

        def element(read: JSONRead) -> CallOutcome:
            return read_object(read, self.shape)

        return read_list(source, start, body, element, opener=self.opener, closer=self.closer)

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the opening, one JSON value and the closer."""
        opening = self.opening(source, start)
        if isinstance(opening, Wrong):
            return self._broken(source, start, body, opening.status, opening.reason, None)
        groups, place = opening
        named = self.declared.paths["name"] in groups
        name = groups.get(self.declared.paths["name"])
        if named and not name:
            reason = "the call gives no tool name"
            return self._broken(source, start, place, ToolParseStatus.MISSING_NAME, reason, None)
        read = source.json.read(place)
        if read.end < 0:
            return self._broken(source, start, place, read.status, read.reason, name or guessed_name(source, place))
        if name is None:
            outcome = read_object(read, self.shape)
        else:
            outcome = arguments_of(name, read, native_id=groups.get(self.declared.paths.get("id", "")))
        end = self.behind_end_tags(source, read.end)
        if end < 0:
            reason = f"{source.excerpt(read.end)} stands where {self.declared.end_tags[0]} must"
            return self._broken(source, start, read.end, ToolParseStatus.MALFORMED, reason, outcome.name)
        if self.closer:
            return self.brackets.close(source, start, end, outcome)
        return end_unclosed(source, start, end, outcome)

    def _broken(
        self, source: Source, start: int, place: int, status: ToolParseStatus, reason: str, name: str | None
    ) -> Attempt:
        if self.closer:
            return self.brackets.broken(source, start, place, status, reason, name)
        return broken_json(source, start, status, reason, name)


class _DeclaredValues(_Declared, TaggedValuesParser):
    """Reads calls whose parameters stand between tags."""

    spellings: Spellings = "names"

    def __init__(self, declared: Declaration) -> None:
        self.value_closer, self.value_openers = declared.value_closer, (declared.value_opener,)
        self.delimiters = (declared.value_closer,)
        super().__init__(declared)
        self.bound = self.closer

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read the head, which begins with the opener, the parameters and the end."""
        return super().read_body(source, start, start)

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read the opening."""
        opening = self.opening(source, place)
        if isinstance(opening, Wrong):
            return opening
        groups, body = opening
        return Head(groups[self.declared.paths["name"]] or "", body, groups.get(self.declared.paths.get("id", "")))

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read the opening of a parameter."""
        match = self.declared.parameter.match(source.text, place) if self.declared.parameter else None
        if match and match["key"]:
            return Header(match["key"], match.end())
        return Wrong(f"{source.excerpt(place)} stands where a parameter or {self.closer} must")

    def ends(self, source: Source, place: int) -> bool:
        """Whether the tags before the closer, and the closer, stand at `place`."""
        end = self.behind_end_tags(source, place)
        return end >= 0 and source.at(self.closer, source.skip_space(end))

    def behind_end(self, source: Source, place: int) -> int:
        """Return the place before the closer."""
        return self.behind_end_tags(source, place)

    def value(self, source: Source, tool: str, header: Header, text: str) -> TypedValue:
        """Return the value that a text is, without the space around it that the template calls framing."""
        return super().value(source, tool, header, text.strip() if self.declared.stripped else text)


class _DeclaredCalls(_Declared, PythonCallsParser):
    """Reads a list of Python calls."""

    list_brackets = "[]"
    separator = ","


_PARSERS: Mapping[str, type[_Declared]] = {
    "json": _DeclaredJSON,
    "xml-inline": _DeclaredValues,
    "python-call-list": _DeclaredCalls,
}


class ResponseTemplateToolParser(ToolParser):
    """Reads the format that a response template declares."""

    def __init__(self, *, response_template: Mapping[str, Any] | None = None, tokenizer: Any = None) -> None:
        """Create the parser.

        Args:
            response_template: The template; left out, it is the tokenizer's.
            tokenizer: A Hugging Face tokenizer whose configuration holds one.

        Raises:
            SGLangConfigError: There is no template, or it has no strict reading; the message says where.
        """
        super().__init__()
        template = response_template if response_template is not None else template_of(tokenizer)
        if template is None:
            raise SGLangConfigError(
                "no response template: neither was one given, nor does the tokenizer's configuration hold one",
                hint="pass response_template= or tokenizer=, or name the format: see docs/tool-parsers.md",
            )
        declared = declaration_of(template)
        self.format: FormatParser = _PARSERS[declared.kind](declared)

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
        return self.format.parse_turn(
            text,
            tools=tools,
            token_ids=token_ids,
            tokenizer=tokenizer,
            reasoning_open=reasoning_open,
            finish_reason=finish_reason,
            id_prefix=id_prefix,
        )


def template_of(tokenizer: Any) -> Mapping[str, Any] | None:
    """Return the response template in a tokenizer's configuration, or None."""
    template = getattr(tokenizer, "response_template", None)
    if not isinstance(template, Mapping):
        template = (getattr(tokenizer, "init_kwargs", None) or {}).get("response_template")
    return template if isinstance(template, Mapping) else None

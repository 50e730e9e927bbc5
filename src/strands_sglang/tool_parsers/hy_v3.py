"""The formats of Hy3 (`hy_v3`) and Hy4 (`hy_v4`), or whichever it is (`hunyuan`).

    <tool_calls>
    <tool_call>get_weather<tool_sep>
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>
    </tool_calls>

Hy4 has no `<tool_sep>`. Every mark of a checkpoint may bear a suffix, as in `<tool_calls:opensource>`: it is read from
the tokenizer's added tokens where a tokenizer is given, else from the marks in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.tool_parsers.base import ToolParser
from strands_sglang.tool_parsers.glm import read_key, read_name
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.tagged_values import GroupedValuesParser
from strands_sglang.tool_parsers.reading.turn import Reasoning
from strands_sglang.tool_parsers.result import ParsedTurn

_MARK = re.compile(r"</?(?:tool_calls|tool_call|think)(:[^\s<>]+)?>")


class _HyFormat(GroupedValuesParser):
    """The format with one suffix."""

    before_call = ""

    def __init__(self, suffix: str, separated: bool | None) -> None:
        def tags(name: str) -> tuple[str, str]:
            return f"<{name}{suffix}>", f"</{name}{suffix}>"

        self.group_opener, self.group_closer = tags("tool_calls")
        self.call_opener, self.call_closer = tags("tool_call")
        self.key_tags = tags("arg_key")
        self.value_tag, self.value_closer = tags("arg_value")
        self.separator = f"<tool_sep{suffix}>"
        self.separated = separated
        self.value_openers = (self.key_tags[0], self.value_tag)
        self.delimiters = (*self.key_tags, self.value_tag, self.value_closer, self.separator)
        opens, closes = tags("think")
        self.reasoning = (Reasoning(open=opens, close=closes, after_open="", before_close="", after_close=""),)
        super().__init__()

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read the name, and the separator behind it."""
        body = place + len(self.call_opener)
        at, which = source.find_first((self.separator, self.key_tags[0], self.call_closer), body)
        if self.separated is not None and (which == self.separator) != self.separated:
            return Wrong(f"the name of the tool is{' not' * self.separated} followed by {self.separator}")
        end = at if at >= 0 else source.end
        name = read_name(source, body, end)
        return name if isinstance(name, Wrong) else Head(name, end + len(self.separator) * (which == self.separator))

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read the key between its tags, and the tag before the value."""
        return read_key(source, place, self.key_tags, self.value_tag)


class HyV3ToolParser(ToolParser):
    """Reads the Hy3 format, with whatever suffix its marks bear."""

    separated: bool | None = True

    def __init__(self) -> None:
        """Create the parser."""
        super().__init__()
        self._formats: dict[str, _HyFormat] = {}
        self._suffix_of: tuple[Any, str] = (None, "")

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
        suffix = self._suffix(text, tokenizer)
        if suffix not in self._formats:
            self._formats[suffix] = _HyFormat(suffix, self.separated)
        parser = self._formats[suffix]
        return parser.parse_turn(
            text,
            tools=tools,
            token_ids=token_ids,
            tokenizer=tokenizer,
            reasoning_open=reasoning_open,
            finish_reason=finish_reason,
            id_prefix=id_prefix,
        )

    def _suffix(self, text: str, tokenizer: Any) -> str:
        if tokenizer is None:
            match = _MARK.search(text)
            return (match[1] or "") if match else ""
        if self._suffix_of[0] is not tokenizer:
            marks = (_MARK.fullmatch(token) for token in tokenizer.get_added_vocab())
            self._suffix_of = (tokenizer, next((match[1] or "" for match in marks if match), ""))
        return self._suffix_of[1]


class HyV4ToolParser(HyV3ToolParser):
    """Reads the Hy4 format."""

    separated = False


class HunyuanToolParser(HyV3ToolParser):
    """Reads either format, with or without the separator behind the name."""

    separated = None

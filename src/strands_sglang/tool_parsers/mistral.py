"""The Mistral formats: up to tokenizer v7 (`mistral_v3`), from v11 on (`mistral_v11`), or whichever it is (`mistral`).

    [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcd12345"}]
    [TOOL_CALLS]get_weather[CALL_ID]abcd12345[ARGS]{"city": "Paris"}

Neither has a closer: the JSON value ends the call. Tokenizer v2 has no id, v13 and later none either. Results refer to
the id, which must have nine letters or digits; so have the ids that are made up here.
"""

from __future__ import annotations

import hashlib
import re

from strands_sglang.tool_parsers.reading.format import FormatParser
from strands_sglang.tool_parsers.reading.json_call import JSONShape, arguments_of
from strands_sglang.tool_parsers.reading.json_list import JSONListParser, broken_json, end_unclosed
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block, Reasoning
from strands_sglang.tool_parsers.result import ToolParseStatus

_CALLS, _ID, _ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NAME = re.compile(r"[^\s\[\]{}<>\"']+")
_NATIVE_ID = re.compile(r"[a-zA-Z0-9]+")
_SPACE = " \t\r\n"
_LIST = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*[{\]]")


class MistralFormat(FormatParser):
    """What both formats share."""

    reasoning = (
        Reasoning(open="[THINK]", close="[/THINK]", after_open="", before_close="", after_close=""),
        Reasoning(),
    )
    before_call = ""
    keeps_native_id = True

    def made_up_id(self, prefix: str, index: int) -> str:
        """Make an id of nine letters and digits, which is what the templates insist on."""
        return hashlib.blake2b(f"{prefix}_{index}".encode(), digest_size=8).hexdigest()[:9]


class MistralV3ToolParser(MistralFormat, JSONListParser):
    """Reads the format of tokenizers v2, v3 and v7."""

    opener = _CALLS
    shape = JSONShape(id="id")


class MistralV11ToolParser(MistralFormat):
    """Reads the format of tokenizers v11 and later."""

    delimiters = (_CALLS, _ID, _ARGS)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next call begins."""
        return source.find(_CALLS, start)

    def read_call(self, source: Source, start: int) -> Block:
        """Read one call."""
        attempt = self._read(source, start, start + len(_CALLS))
        return Block((attempt,), attempt.end)

    def _read(self, source: Source, start: int, place: int) -> Attempt:
        at, which = source.find_first((_ID, _ARGS, _CALLS), place)
        name = source.text[place : at if at >= 0 else source.end].strip(_SPACE)
        if which not in (_ID, _ARGS) or (name and not _NAME.fullmatch(name)):
            reason = f"{source.excerpt(place)} stands where NAME{_ARGS}JSON must"
            return broken_json(source, start, ToolParseStatus.MALFORMED, reason, None)
        if not name:
            return broken_json(source, start, ToolParseStatus.MISSING_NAME, "the call gives no tool name", None)
        native_id = None
        if which == _ID:
            arguments = source.find(_ARGS, at)
            native_id = source.text[at + len(_ID) : max(arguments, at)].strip(_SPACE)
            if arguments < 0 or not _NATIVE_ID.fullmatch(native_id):
                reason = f"{_ID} is not followed by an id and {_ARGS}"
                return broken_json(source, start, ToolParseStatus.MALFORMED, reason, name)
            at = arguments
        read = source.json.read(source.skip_space(at + len(_ARGS)))
        if read.end < 0:
            return broken_json(source, start, read.status, read.reason, name)
        return end_unclosed(source, start, read.end, arguments_of(name, read, native_id=native_id))


class MistralToolParser(MistralV11ToolParser):
    """Reads either format: what stands behind the mark tells which it is."""

    def __init__(self, *, think_start_token: str | None = None, think_end_token: str | None = None) -> None:
        """Create the parser; see `FormatParser`."""
        super().__init__(think_start_token=think_start_token, think_end_token=think_end_token)
        self._list = MistralV3ToolParser(think_start_token=think_start_token, think_end_token=think_end_token)

    def read_call(self, source: Source, start: int) -> Block:
        """Read one call or one list of calls."""
        if _LIST.match(source.text, start + len(_CALLS)):
            return self._list.read_call(source, start)
        return super().read_call(source, start)

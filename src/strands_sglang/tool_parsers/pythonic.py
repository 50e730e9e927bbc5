"""The pythonic format: Llama 4, Llama 3.2's pythonic prompt, ToolACE, Gemma 3's prompt.

    [get_weather(city="Paris"), get_time(zone="UTC")]

It has no delimiters, apart from `<|python_start|>` and `<|python_end|>` which Llama 4 may add. So a list of calls is
looked for only where the answer begins, behind `<|python_start|>`, or at the beginning of a line; in the last case it
must be complete and fill its line, or it is content. Values are literals of Python; an argument without a key is an
error, since nothing tells which parameter is meant.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.brackets import Brackets
from strands_sglang.tool_parsers.reading.format import FormatParser
from strands_sglang.tool_parsers.reading.json_list import broken_json
from strands_sglang.tool_parsers.reading.literals import PythonReader
from strands_sglang.tool_parsers.reading.python_calls import read_calls
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block, Frame
from strands_sglang.tool_parsers.result import ToolParseStatus

_START, _END = "<|python_start|>", "<|python_end|>"
_OPENS = r"\[[ \t\r\n]*[^\W\d][\w.:/\-]*\([ \t\r\n]*(?:[^\W\d]\w*[ \t]*=|[)\"'\[{0-9\-])"
_LIST = re.compile(_OPENS)
_LINE_LIST = re.compile(rf"\n[ \t]*({_OPENS})")
_LINE_END = re.compile(r"[ \t\r]*(?:\n|\Z)")


class PythonicToolParser(FormatParser):
    """Reads the pythonic format."""

    delimiters = (_START, _END)
    frames = (Frame(mark=_END),)

    def find_call(self, source: Source, start: int) -> int:
        """Return where the next list of calls begins."""
        begin = source.skip_space(start)
        if _LIST.match(source.text, begin):
            return begin
        line = source.find_by("a list of calls in a line", start, lambda at: self._find_line(source, at))
        return min((at for at in (source.find(_START, start), line) if at >= 0), default=-1)

    def _find_line(self, source: Source, start: int) -> int:
        for match in _LINE_LIST.finditer(source.text, start):
            line_end = source.find("\n", match.end())
            if not source.text[match.start(1) : line_end if line_end >= 0 else source.end].rstrip().endswith("]"):
                continue
            block = self._read_list(source, match.start(1), match.start(1), closer="")
            if all(a.status is ToolParseStatus.OK for a in block.attempts):
                return match.start(1)
        return -1

    def read_call(self, source: Source, start: int) -> Block:
        """Read one list."""
        if not source.at(_START, start):
            return self._read_list(source, start, start, closer="")
        place = source.skip_space(start + len(_START))
        if _LIST.match(source.text, place):
            return self._read_list(source, start, place, closer=_END)
        reason = f"{source.excerpt(place)} stands where a list of calls must"
        attempt = _broken(source, start, place, reason, None, _END)
        return Block((attempt,), attempt.end)

    def _read_list(self, source: Source, start: int, place: int, *, closer: str) -> Block:
        """Read the list at `place`, of the block that begins at `start`."""

        def broken(begin: int, at: int, reason: str, name: str | None) -> Attempt:
            return _broken(source, begin if begin > place + 1 else start, at, reason, name, closer)

        attempts, end = read_calls(
            source,
            PythonReader(source.text),
            place + 1,
            separator=",",
            ends=lambda at: source.text.startswith("]", at),
            broken=broken,
        )
        if end < 0:
            return Block(attempts, attempts[-1].end)
        end += 1
        if closer and source.at(closer, source.skip_space(end)):
            return Block(attempts, min(source.skip_space(end) + len(closer), source.end))
        if not _LINE_END.match(source.text, end) and not source.at(_END, end):
            reason = f"{source.excerpt(end)} stands behind the list of calls, where nothing more may"
            line = source.find("\n", end)
            end = line if line >= 0 else source.end
            attempts[-1] = attempts[-1]._replace(end=end, status=ToolParseStatus.MALFORMED, reason=reason)
        return Block(attempts, end)


def _broken(source: Source, start: int, place: int, reason: str, name: str | None, closer: str) -> Attempt:
    if closer and source.find(closer, place) >= 0:
        return Brackets(_START, closer).broken(source, start, place, ToolParseStatus.MALFORMED, reason, name)
    return broken_json(source, start, ToolParseStatus.MALFORMED, reason, name)

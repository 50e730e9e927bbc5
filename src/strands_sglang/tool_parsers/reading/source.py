"""The text of one turn with its delimiters, as formats look at it.

Owns `Source`. Where a delimiter is one token of the vocabulary and ids were given, it is only where that token
was sampled; where not, it is wherever its text is. Looking forward is linear over a turn: an answer is
remembered until the place it names is passed. Never interprets anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property

from strands_sglang.tool_parsers.reading.schema import ToolSchemas
from strands_sglang.tool_parsers.reading.strict_json import JSONReader
from strands_sglang.tool_parsers.reading.tokens import Placement

_SPACE = re.compile(r"[ \t\n\r]*")


class Source:
    """One turn's text, delimiters, tools, and how it ended.

    Attributes:
        text: The text all places count in.
        end: Its length.
        tools: What the tools' schemas say.
        finish_reason: "stop", "length" or "abort".
        at: Whether a delimiter begins at a place; a token whose text was cut off the end counts there.
    """

    def __init__(self, placement: Placement, *, tools: ToolSchemas, finish_reason: str) -> None:
        """Create the source of one turn."""
        self.text = placement.text
        self.end = len(placement.text)
        self.tools = tools
        self.finish_reason = finish_reason
        self.at: Callable[[str, int], bool] = self._at_mark if placement.marks else placement.text.startswith
        self._marks = placement.marks
        self._offsets = placement.offsets
        self._found: dict[str, tuple[int, int]] = {}
        self._never = (self.end + 1, -1)
        self._nesting: dict[tuple[str, ...], _Nesting] = {}

    @cached_property
    def json(self) -> JSONReader:
        """Reads JSON values out of this text."""
        return JSONReader(self.text)

    def by_id(self, delimiter: str) -> bool:
        """Whether `delimiter` is one token here, so that only its id counts."""
        return delimiter in self._marks

    def find(self, delimiter: str, start: int) -> int:
        """Return where `delimiter` next begins at or after `start`, or -1."""
        asked, found = self._found.get(delimiter, self._never)
        if asked <= start and (found < 0 or start <= found):
            return found
        marks = self._marks.get(delimiter)
        if marks is None:
            found = self.text.find(delimiter, start)
        else:
            index = bisect_left(marks, start)
            found = marks[index] if index < len(marks) and marks[index] < self.end else -1
        self._found[delimiter] = (start, found)
        return found

    def find_by(self, what: str, start: int, search: Callable[[int], int]) -> int:
        """Return `search(start)`, where the next `what` begins at or after a place, or -1; remembered as `find` is."""
        asked, found = self._found.get(what, self._never)
        if not (asked <= start and (found < 0 or start <= found)):
            found = search(start)
            self._found[what] = (start, found)
        return found

    def find_first(self, delimiters: Iterable[str], start: int) -> tuple[int, str]:
        """Return where the first of `delimiters` next begins, and which it is; (-1, "") where none does."""
        best, which = -1, ""
        remembered = self._found.get
        for delimiter in delimiters:
            # What `find` does first, without the call: most answers are remembered ones.
            asked, at = remembered(delimiter, self._never)
            if asked > start or 0 <= at < start:
                at = self.find(delimiter, start)
            # Of two that begin at one place the longer is meant.
            if at >= 0 and (best < 0 or at < best or (at == best and len(delimiter) > len(which))):
                best, which = at, delimiter
        return best, which

    def find_closer(self, openers: tuple[str, ...], closers: tuple[str, ...], place: int) -> int:
        """Return the place behind the closer that matches an opener before `place`, or -1.

        Openers from `place` on are counted, so that theirs are passed over. The marks of the whole text are looked up
        once, so that a turn with many calls that break stays linear.
        """
        if openers + closers not in self._nesting:
            self._nesting[openers + closers] = _Nesting(self, openers, closers)
        return self._nesting[openers + closers].closer_behind(place)

    def all(self, delimiter: str) -> list[int]:
        """Return everywhere `delimiter` begins."""
        if delimiter in self._marks:
            return [at for at in self._marks[delimiter] if at < self.end]
        places: list[int] = []
        at = self.text.find(delimiter)
        while at >= 0:
            places.append(at)
            at = self.text.find(delimiter, at + len(delimiter))
        return places

    def _at_mark(self, delimiter: str, place: int) -> bool:
        marks = self._marks.get(delimiter)
        if marks is None:
            return self.text.startswith(delimiter, place)
        index = bisect_left(marks, place)
        return index < len(marks) and marks[index] == place

    def skip_space(self, place: int) -> int:
        """Return the first place at or after `place` that is not JSON space."""
        if place < self.end and self.text[place] not in " \t\n\r":
            return place
        match = _SPACE.match(self.text, place)
        return match.end() if match else place

    def last_of_run(self, delimiter: str, place: int) -> int:
        """Return where the last of the delimiters begins that stand from `place` on with only space between them."""
        last = place
        while True:
            following = self.skip_space(last + len(delimiter))
            if not self.at(delimiter, following):
                return last
            last = following

    def excerpt(self, place: int, length: int = 30) -> str:
        """Return the beginning of what stands at `place`, quoted for a message."""
        return repr(self.text[place : place + length])

    def token_span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the tokens that overlap the characters `[start, end)`, or None where they are not known."""
        if self._offsets is None or start >= end:
            return None
        first = bisect_right(self._offsets, start) - 1
        last = bisect_left(self._offsets, end)
        return (first, min(last, len(self._offsets) - 1))


class _Nesting:
    """The openers and closers of a text, and how deep it is at each."""

    def __init__(self, source: Source, openers: tuple[str, ...], closers: tuple[str, ...]) -> None:
        marks = [(at, at + len(mark), 1) for mark in openers for at in source.all(mark)]
        marks += [(at, at + len(mark), -1) for mark in closers for at in source.all(mark)]
        marks.sort()
        self._places = [at for at, _, _ in marks]
        self._ends = [end for _, end, _ in marks]
        self._depths = [0]
        self._falls_to: dict[int, list[int]] = {}
        for index, (_, _, step) in enumerate(marks):
            depth = self._depths[-1] + step
            self._depths.append(depth)
            if step < 0:
                self._falls_to.setdefault(depth, []).append(index)

    def closer_behind(self, place: int) -> int:
        """Return the place behind the first closer from `place` on that no opener from there on asks for, or -1."""
        first = bisect_left(self._places, place)
        falls = self._falls_to.get(self._depths[first] - 1, [])
        index = bisect_left(falls, first)
        return self._ends[falls[index]] if index < len(falls) else -1

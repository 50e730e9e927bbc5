"""Content that could become a control token together with the text a template puts beside it.

Owns the parts of control tokens: `<think` at the end of a text becomes one if the template writes `>` next, and so
does a parameter named `think` if it writes `<` before and `>` after. Finds such stretches at the borders of a text;
whether a token does form is seen in the rendering. Never looks inside a text: what is there `Vocabulary.find` finds.
"""

from __future__ import annotations

from collections.abc import Iterable


class Borders:
    """Finds parts of control tokens at the borders of texts."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Collect the parts of the tokens."""
        self._beginnings: set[str] = set()
        self._ends: set[str] = set()
        self._middles: set[str] = set()
        for token in tokens:
            self._beginnings.update(token[:i] for i in range(1, len(token)))
            self._ends.update(token[i:] for i in range(1, len(token)))
            self._middles.update(_middles(token))
        self._longest = max((len(part) for part in self._beginnings), default=0)
        self._first = {part[0] for part in self._beginnings}
        self._last = {part[-1] for part in self._ends}

    def stretches(self, text: str) -> list[tuple[int, int]]:
        """Return the stretches of a text that could become part of a control token, as (start, end), in order.

        Whitespace at the ends does not count: templates trim it.
        """
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        if start >= end:
            return []
        if end - start <= self._longest and text[start:end] in self._middles:
            return [(start, end)]
        head = self._head(text, start, end)
        tail = self._tail(text, start, end)
        if head > tail:
            return [(start, end)]
        return [(a, b) for a, b in ((start, head), (tail, end)) if a < b]

    def _head(self, text: str, start: int, end: int) -> int:
        """Return where the longest end of a token at the start of a text stops."""
        for i in range(min(start + self._longest, end), start, -1):
            if text[i - 1] in self._last and text[start:i] in self._ends:
                return i
        return start

    def _tail(self, text: str, start: int, end: int) -> int:
        """Return where the longest beginning of a token at the end of a text starts."""
        for i in range(max(end - self._longest, start), end):
            if text[i] in self._first and text[i:end] in self._beginnings:
                return i
        return end


def _middles(token: str) -> Iterable[str]:
    """Yield what is left of a token without punctuation at both ends: "think" and "/think" of "</think>"."""
    left = next((i for i, character in enumerate(token) if character.isalnum()), len(token))
    right = next((i for i, character in enumerate(reversed(token)) if character.isalnum()), len(token))
    for i in range(1, left + 1):
        for j in range(1, right + 1):
            if i < len(token) - j:
                yield token[i : len(token) - j]

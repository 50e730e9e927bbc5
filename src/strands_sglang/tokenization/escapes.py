"""Private-use characters that a template has escaped.

Owns the way back: a template that prints tools as JSON in ASCII, or as Python writes a string, prints escapes in place
of the characters that content is disguised in. Invariant: only the characters in use for the rendering at hand are
brought back, and content never spells one of those itself (see `Guard`), so that no text of a caller is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FIRST, LAST = 0x100000, 0x10FFFD
_ESCAPED = re.compile(r"\\U0010([0-9a-f]{4})|\\u(db[c-f][0-9a-f])\\u(d[c-f][0-9a-f]{2})")
_NONE: frozenset[str] = frozenset()
_IN_USE: ContextVar[tuple[int, int]] = ContextVar("_IN_USE", default=(FIRST, LAST))


@contextmanager
def in_use(first: int, last: int) -> Iterator[None]:
    """Bring back the characters from `first` to `last` only, as long as this lasts.

    Args:
        first: First code point.
        last: Last code point.
    """
    token = _IN_USE.set((first, last))
    try:
        yield
    finally:
        _IN_USE.reset(token)


def unescaped(text: str) -> str:
    """Return a rendering with the characters in use in the place of their escapes."""
    if not _may_hold_escapes(text):
        return text
    first, last = _IN_USE.get()

    def character(match: re.Match[str]) -> str:
        return chr(code) if first <= (code := _code_point(match)) <= last else match[0]

    return _ESCAPED.sub(character, text)


def spelled(text: str) -> frozenset[str]:
    """Return the private-use characters whose escapes a text spells."""
    if not _may_hold_escapes(text):
        return _NONE
    return frozenset(chr(_code_point(match)) for match in _ESCAPED.finditer(text))


def _may_hold_escapes(text: str) -> bool:
    return "\\U0010" in text or "\\udb" in text


def _code_point(match: re.Match[str]) -> int:
    if match[1]:
        return FIRST + int(match[1], 16)
    high, low = int(match[2], 16), int(match[3], 16)
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)

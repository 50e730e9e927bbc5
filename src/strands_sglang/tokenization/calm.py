"""Texts that nothing but a template can tell apart.

Owns the question whether a text of a caller can be put in another's place in a rendering without a thought: it needs no
disguise, forms no control token and no mark of reasoning, inside or together with whatever stands beside it, and spells
no escape. Invariant: of two renderings that differ in calm texts only, everything that this package looks for stands in
the same places around these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .borders import Borders
from .escapes import spelled
from .vocabulary import Vocabulary

# Half surrogate pairs, the places of sealed texts, and the characters of disguises.
_UNUSUAL = re.compile("[\ud800-\udfff\U000f0000-\U0010ffff]")
# All of an escape but its end, as `escapes` brings them back: what follows could complete it.
BEGUN_ESCAPE = r"\\(?:U[0-9a-f]{0,7}|u[0-9a-f]{0,4}(?:\\(?:u[0-9a-f]{0,3})?)?)?"
_ENDS_IN_ESCAPE = re.compile(rf"{BEGUN_ESCAPE}\Z")
_ESCAPE = 12
_SHORT, _REMEMBERED = 64, 4096


class Calm:
    """Knows the calm texts of one tokenizer."""

    def __init__(self, vocabulary: Vocabulary, marks: Iterable[str]) -> None:
        """Create it.

        Args:
            vocabulary: The tokenizer's view.
            marks: Texts of the marks of reasoning.
        """
        marks = list(marks)
        self._vocabulary = vocabulary
        self._marks = tuple(mark for mark in marks if next(vocabulary.find(mark), None) is None)
        looked_for = [*vocabulary.tokens, *marks]
        self._blank = [text for text in looked_for if any(map(str.isspace, text))]
        self._borders = Borders(looked_for)
        self._all = "\n".join(looked_for)
        self._longest = max(map(len, looked_for), default=0)
        self._remembered: set[str] = set()

    def is_calm(self, text: str) -> bool:
        """Return whether a text is calm; a blank one is not, as what is around it meets."""
        if text in self._remembered:
            return True
        core = text.strip()
        calm = (
            bool(core)
            and self.needs_no_disguise(text)
            and ("\\" not in text[-_ESCAPE:] or _ENDS_IN_ESCAPE.search(text[-_ESCAPE:]) is None)
            and not any(mark in text for mark in self._marks)
            and not self._borders.stretches(text)
            and not (len(core) <= self._longest and core in self._all)
            and not (self._blank and core != text and self._meets_blank(text))
        )
        if calm and len(text) <= _SHORT:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered.add(text)
        return calm

    def _meets_blank(self, text: str) -> bool:
        """Return whether the blank ends of a text could be part of a token that holds blanks."""
        return any(
            text[:i] == token[-i:] or text[-i:] == token[:i] for token in self._blank for i in range(1, len(token))
        )

    def needs_no_disguise(self, text: str) -> bool:
        """Return whether a text holds nothing, inside, that a disguise would change, note or refuse."""
        return (
            (text.isascii() or _UNUSUAL.search(text) is None)
            and not spelled(text)
            and next(self._vocabulary.find(text), None) is None
            and self._vocabulary.as_matched(text) is text
        )

    def all_need_no_disguise(self, value: Any) -> bool:
        """Return whether plain data holds such texts only, without a part of a control token at a border either."""
        if type(value) is str:
            return value in self._remembered or (self.needs_no_disguise(value) and not self._borders.stretches(value))
        if type(value) is dict:
            return all(type(key) is str for key in value) and self.all_need_no_disguise([*value, *value.values()])
        if type(value) in (list, tuple):
            return all(map(self.all_need_no_disguise, value))
        return value is None or type(value) in (bool, int, float)

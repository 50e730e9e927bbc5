"""Content stays content: no text of a message or tool can become a control token (guarantee G6).

Owns the disguise that content wears while a template renders it. Literals of control tokens are swapped, character by
character, for private-use characters, and swapped back when the text around them has been encoded. Invariant:
`reveal(disguised) == original`, also after slicing, trimming, splitting or JSON-encoding, because every character is
swapped on its own and lengths stay. Never changes what it is given; never lets a control token id out of content.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, get_args

from strands_sglang.errors import ControlTokenError, SGLangConfigError, UnsupportedContentError

from .turn import GuardedLiteral
from .vocabulary import ControlToken, Vocabulary

ControlTokens = Literal["escape", "raise", "allow"]

_FIRST, _LAST = 0x100000, 0x10FFFD
_PRIVATE = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")


class Guard:
    """What is guarded against, and how: one per tokenizer."""

    def __init__(self, vocabulary: Vocabulary, mode: ControlTokens = "escape") -> None:
        """Create the guard.

        Args:
            vocabulary: The tokenizer's view.
            mode: "escape" encodes literals of control tokens as plain text; "raise" refuses them; "allow" lets them
                become control tokens.
        """
        if mode not in get_args(ControlTokens):
            raise SGLangConfigError(f"control_tokens={mode!r} is none of {', '.join(get_args(ControlTokens))}")
        self.vocabulary = vocabulary
        self.mode = mode
        self.characters = "".join(sorted(set("".join(vocabulary.tokens))))

    def disguise(self, **given: Any) -> tuple[dict[str, Any], Disguise]:
        """Return copies of messages, tools and the like in which no control token literal is left, and the disguise.

        Args:
            given: Lists of messages or tools by the name to use in messages about them.
        """
        disguise = Disguise(self, _FIRST)
        covered = {name: disguise.cover(value, name) for name, value in given.items()}
        if disguise.foreign:
            # Content uses characters of the block itself: take a block it does not use.
            disguise = Disguise(self, self._free_block(disguise.foreign))
            covered = {name: disguise.cover(value, name) for name, value in given.items()}
        return covered, disguise

    def _free_block(self, used: set[str]) -> int:
        size = len(self.characters) + 1
        for first in range(_FIRST, _LAST - size, size):
            if not any(first <= ord(character) < first + size for character in used):
                return first
        raise UnsupportedContentError(
            f"{self.vocabulary.name}: the content uses so many private-use characters of plane 16 that none are left "
            "to tell content from template with",
            model=self.vocabulary.name,
        )


class Disguise:
    """The disguise of one call: which private-use character stands for which.

    Attributes:
        marker: A character that no content and no template holds.
        foreign: Private-use characters of the same plane that content itself holds.
    """

    def __init__(self, guard: Guard, first: int) -> None:
        """Create it over the block of code points that begins at `first`."""
        self._guard = guard
        self._vocabulary = guard.vocabulary
        self._cover = {ord(character): chr(first + i) for i, character in enumerate(guard.characters)}
        self._reveal = {ord(cover): chr(character) for character, cover in self._cover.items()}
        self._covered = re.compile(f"[{chr(first)}-{chr(first + len(guard.characters))}]")
        self._found: dict[str, Counter[str]] = {}
        self.marker = chr(first + len(guard.characters))
        self.foreign: set[str] = set()

    @property
    def guarded(self) -> tuple[GuardedLiteral, ...]:
        """The literals met so far, by place."""
        return tuple(
            GuardedLiteral(literal=literal, where=where, count=count)
            for where, literals in self._found.items()
            for literal, count in literals.items()
        )

    def cover(self, value: Any, where: str) -> Any:
        """Return a deep copy of plain data in which control token literals are disguised.

        Args:
            value: Strings, numbers, booleans, None, and lists and mappings of such.
            where: The place, for messages: "messages", "tools[1].function.name".
        """
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self._cover_text(str.__str__(value), where)
        if isinstance(value, Mapping):
            return {
                self.cover(key, f"{where} (key)"): self.cover(item, f"{where}.{key}") for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.cover(item, f"{where}[{index}]") for index, item in enumerate(value)]
        raise UnsupportedContentError(
            f"{where} is a {type(value).__name__}: messages and tools are made of text, numbers, booleans, None, lists "
            "and mappings",
            model=self._vocabulary.name,
            message_index=_index_in(where),
        )

    def reveal(self, text: str) -> str:
        """Return a text with every disguised character swapped back."""
        return text.translate(self._reveal)

    def encode(self, text: str, *, after: ControlToken | None = None) -> list[int]:
        """Return the ids of a rendered text, disguised stretches as plain text.

        Args:
            text: The rendered text.
            after: The control token it directly follows; None for text that starts a sequence.
        """
        if not self._found or self._covered.search(text) is None:
            return self._vocabulary.encode(text, after=after)
        ids: list[int] = []
        for stretch, plain, before in self._stretches(text, after):
            if plain:
                ids += self._vocabulary.encode_plain(self.reveal(stretch))
            else:
                ids += self._vocabulary.encode(stretch, after=before)
        return ids

    def _cover_text(self, text: str, where: str) -> str:
        if not text.isascii():
            self.foreign.update(_PRIVATE.findall(text))
        if self._guard.mode == "allow":
            return text
        pieces, end = [], 0
        for match in self._vocabulary.find(text):
            self._note(match[0], where)
            pieces += [text[end : match.start()], match[0].translate(self._cover)]
            end = match.end()
        return "".join([*pieces, text[end:]]) if pieces else text

    def _note(self, literal: str, where: str) -> None:
        if self._guard.mode == "raise":
            raise ControlTokenError(
                f"{where} holds the control token {literal!r} of {self._vocabulary.name}",
                literal=literal,
                model=self._vocabulary.name,
                message_index=_index_in(where),
                hint='remove it, or pass control_tokens="escape" to have it read as plain text',
            )
        self._found.setdefault(where, Counter())[literal] += 1

    def _stretches(self, text: str, after: ControlToken | None) -> list[tuple[str, bool, ControlToken | None]]:
        """Cut a text at the control tokens around each disguised stretch.

        Returns:
            Stretches in order: the text, whether it is to be encoded as plain text, and the control token before it.
        """
        stretches: list[tuple[str, bool, ControlToken | None]] = []
        start, segment = 0, 0
        last, cut_after = after, after
        borders = [(m.start(), m.end(), self._vocabulary.tokens[m[0]]) for m in self._vocabulary.find(text)]
        for left, right, token in [*borders, (len(text), len(text), None)]:
            between = text[segment:left]
            if between and self._covered.search(between):
                if start < segment:
                    stretches.append((text[start:segment], False, cut_after))
                stretches.append((_inner(between, last, token), True, last))
                start, cut_after = left, None
            segment, last = right, token
        if start < len(text):
            stretches.append((text[start:], False, cut_after))
        return stretches


def _inner(text: str, before: ControlToken | None, following: ControlToken | None) -> str:
    """Return the text between two control tokens without the whitespace that these swallow."""
    if before is not None and before.rstrip:
        text = text.lstrip()
    return text.rstrip() if following is not None and following.lstrip else text


def _index_in(where: str) -> int | None:
    """Return the message index that a place names, or None."""
    match = re.match(r"(?:new_)?messages\[(\d+)\]", where)
    return int(match[1]) if match else None

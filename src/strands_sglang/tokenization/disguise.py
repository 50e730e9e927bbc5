"""The disguise that content wears while a template renders it.

Owns which private-use character stands for which character of a control token. Two blocks of them are used: one for
literals of control tokens, which stay plain text whatever is around them, one for parts of such literals at the borders
of a text, which matter only where the template completes them. Invariant: `reveal(cover(text)) == text`, character by
character, so that slicing, trimming, splitting and JSON-encoding in a template do no harm. Never used for more than one
call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from strands_sglang.errors import ControlTokenError, UnsupportedContentError

from .borders import Borders
from .escapes import FIRST, LAST, spelled
from .turn import GuardedLiteral
from .vocabulary import ControlToken, Vocabulary

_FOREIGN = re.compile(f"[{chr(FIRST)}-{chr(LAST)}\ud800-\udfff]")
# Names that templates look for; what stands under them is not free text.
_STRUCTURAL = ("role", "type")
_FREE_KEYS = ("arguments", "properties")
_SHORT, _REMEMBERED = 64, 4096


class Block:
    """Which private-use characters stand for which characters of control tokens; the same for many calls.

    Attributes:
        first: Its first code point.
        last: Its last code point.
        marker: A character that neither content nor template holds.
        sure: What stands for a character of a literal.
        unsure: What stands for a character of a part of one at a border.
        reveal: Back from both.
        reveal_unsure: Back from `unsure`.
        confirm: From `unsure` to `sure`.
        covered: Finds any of them.
        harmless: Short texts that were seen to need no cover: the keys and names that every call repeats.
    """

    def __init__(self, characters: str, first: int) -> None:
        """Lay the block out.

        Args:
            characters: The characters of the control tokens.
            first: Its first code point; it takes `block_size(characters)`.
        """
        size = len(characters)
        self.first, self.last = first, first + 2 * size
        self.marker = chr(self.last)
        self.sure = {ord(character): chr(first + i) for i, character in enumerate(characters)}
        self.unsure = {ord(character): chr(first + size + i) for i, character in enumerate(characters)}
        self.reveal = {ord(cover): chr(c) for table in (self.sure, self.unsure) for c, cover in table.items()}
        self.reveal_unsure = {ord(cover): chr(c) for c, cover in self.unsure.items()}
        self.confirm = {ord(cover): self.sure[c] for c, cover in self.unsure.items()}
        self.covered = re.compile(f"[{chr(first)}-{chr(first + 2 * size)}]")
        self.harmless: set[str] = set()


class Disguise:
    """The disguise of one call.

    Attributes:
        first: First code point of its block.
        last: Last code point of its block.
        marker: A character that neither content nor template holds.
        foreign: Characters of the private block that content itself holds, or spells the escapes of.
        unsure: Whether a text begins or ends with a part of a control token.
    """

    def __init__(self, vocabulary: Vocabulary, borders: Borders, block: Block, *, strict: bool) -> None:
        """Create it.

        Args:
            vocabulary: The tokenizer's view.
            borders: Parts of its control tokens.
            block: The characters to use.
            strict: Raise where content holds a control token.
        """
        self._vocabulary = vocabulary
        self._borders = borders
        self._block = block
        self._strict = strict
        self._found: dict[str, Counter[str]] = {}
        self._covers, self._cover_borders = True, False
        self.first, self.last, self.marker = block.first, block.last, block.marker
        self.foreign: set[str] = set()
        self.unsure = False

    @property
    def guarded(self) -> tuple[GuardedLiteral, ...]:
        """The literals met, by place."""
        return tuple(
            GuardedLiteral(literal=literal, where=where, count=count)
            for where, literals in self._found.items()
            for literal, count in literals.items()
        )

    def begin(self, *, literals: bool, borders: bool) -> None:
        """Begin anew, with nothing met.

        Args:
            literals: Whether to cover literals of control tokens at all.
            borders: Whether to cover parts of literals at the borders of texts, too.
        """
        self._found = {}
        self._covers, self._cover_borders = literals, borders

    def cover(self, value: Any, where: str) -> Any:
        """Return a deep copy of plain data in which no control token literal is left.

        Args:
            value: Messages or tools.
            where: What it is, for messages about it.
        """
        return self._copy(value, where, free=False)

    def include(self, other: Disguise) -> None:
        """Count what another disguise over the same block has met."""
        self._found |= other._found
        self.foreign |= other.foreign
        self.unsure |= other.unsure

    def settle(self, text: str, rendered: str, where: str) -> str:
        """Return a rendering with borders disguised where, and only where, a control token would form across one.

        Args:
            text: The rendering with bare borders.
            rendered: The rendering with borders covered.
            where: What to name as the place of a token that content and template form together.
        """
        bare = rendered.translate(self._block.reveal_unsure)
        if bare != text:
            # The template looked at the texts: then the two renderings must hold the same control tokens.
            if self._tokens(bare) == self._tokens(text) == self._tokens(rendered):
                return text
            raise UnsupportedContentError(
                f"content and the chat template of {self._vocabulary.name} form a control token together, and the "
                "template depends on that content, so that it cannot be kept apart",
                model=self._vocabulary.name,
            )
        pieces, end = [], 0
        for match in self._vocabulary.find(bare):
            start, stop = match.span()
            if rendered[start:stop] != match[0]:
                self._note(match[0], f"{where} (with the template)")
                pieces += [bare[end:start], rendered[start:stop].translate(self._block.confirm)]
                end = stop
        return "".join([*pieces, bare[end:]])

    def reveal_quoted(self, words: str) -> str:
        """Return an error's words with disguised characters swapped back, also where a quotation has escaped them."""
        for cover, character in self._block.reveal.items():
            words = words.replace(chr(cover), character).replace(f"\\U{cover:08x}", character)
        return words

    def encode(self, text: str, *, after: ControlToken | None = None) -> list[int]:
        """Return the ids of a rendered text, disguised stretches as plain text.

        Args:
            text: The rendered text.
            after: The control token it directly follows; None for text that starts a sequence.
        """
        if self._block.covered.search(text) is None:
            return self._vocabulary.encode(text, after=after)
        ids: list[int] = []
        for stretch, plain, before in self._stretches(text, after):
            if plain:
                ids += self._vocabulary.encode_plain(stretch.translate(self._block.reveal))
            else:
                ids += self._vocabulary.encode(stretch, after=before)
        return ids

    def _copy(self, value: Any, where: str, *, free: bool) -> Any:
        if isinstance(value, str):
            return self._cover_text(str.__str__(value), where, bordering=True)
        if value is None or isinstance(value, bool | int | float):
            return value
        if type(value) is dict or isinstance(value, Mapping):
            copied = {}
            harmless = self._block.harmless
            for key, item in value.items():
                if type(item) is str and item in harmless and key in harmless:
                    copied[key] = item
                    continue
                name = self._cover_text(key, f"{where} (key)", bordering=free) if isinstance(key, str) else key
                place = f"{where}.{key}"
                if isinstance(item, str) and key in _STRUCTURAL and not free:
                    copied[name] = self._cover_text(str.__str__(item), place, bordering=False)
                else:
                    copied[name] = self._copy(item, place, free=free or key in _FREE_KEYS)
            return copied
        if isinstance(value, list | tuple):
            return [self._copy(item, f"{where}[{index}]", free=free) for index, item in enumerate(value)]
        raise UnsupportedContentError(
            f"{where} is a {type(value).__name__}: messages and tools are made of text, numbers, booleans, None, lists "
            "and mappings",
            model=self._vocabulary.name,
            message_index=index_in(where),
        )

    def _cover_text(self, text: str, where: str, *, bordering: bool) -> str:
        if text in self._block.harmless:
            return text
        if not text.isascii():
            self._look_for_foreign(text, where)
        escaped = spelled(text)
        self.foreign |= escaped
        if not self._covers:
            return text
        given, text = text, self._vocabulary.as_matched(text)
        pieces, end = [], 0
        for match in self._vocabulary.find(text):
            self._note(match[0], where)
            pieces += [text[end : match.start()], match[0].translate(self._block.sure)]
            end = match.end()
        if pieces:
            text = "".join([*pieces, text[end:]])
        stretches = self._borders.stretches(text) if bordering else []
        if stretches:
            self.unsure = True
            if self._cover_borders:
                for start, stop in reversed(stretches):
                    text = text[:start] + text[start:stop].translate(self._block.unsure) + text[stop:]
        elif bordering and text is given and len(text) <= _SHORT and text.isascii() and not escaped:
            self._remember(text)
        return text

    def _remember(self, text: str) -> None:
        if len(self._block.harmless) >= _REMEMBERED:
            self._block.harmless.clear()
        self._block.harmless.add(text)

    def _look_for_foreign(self, text: str, where: str) -> None:
        for character in _FOREIGN.findall(text):
            if character < "\ue000":
                raise UnsupportedContentError(
                    f"{where} holds half a surrogate pair ({character!r}), which is no text",
                    model=self._vocabulary.name,
                    message_index=index_in(where),
                )
            self.foreign.add(character)

    def _note(self, literal: str, where: str) -> None:
        if self._strict:
            raise ControlTokenError(
                f"{where} holds the control token {literal!r} of {self._vocabulary.name}",
                literal=literal,
                model=self._vocabulary.name,
                message_index=index_in(where),
                hint='remove it, or pass control_tokens="escape" to have it read as plain text',
            )
        self._found.setdefault(where, Counter())[literal] += 1

    def _tokens(self, text: str) -> Counter[str]:
        return Counter(match[0] for match in self._vocabulary.find(text))

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
            if between and self._block.covered.search(between):
                if start < segment:
                    stretches.append((text[start:segment], False, cut_after))
                stretches.append((_inner(between, last, token), True, last))
                start, cut_after = left, None
            segment, last = right, token
        if start < len(text):
            stretches.append((text[start:], False, cut_after))
        return stretches


def block_size(characters: str) -> int:
    """Return how many code points a disguise of these characters takes."""
    return 2 * len(characters) + 1


def index_in(where: str) -> int | None:
    """Return the message index that a place names, or None."""
    match = re.match(r"(?:new_)?messages\[(\d+)\]", where)
    return int(match[1]) if match else None


def _inner(text: str, before: ControlToken | None, following: ControlToken | None) -> str:
    """Return the text between two control tokens without the whitespace that these swallow."""
    if before is not None and before.rstrip:
        text = text.lstrip()
    return text.rstrip() if following is not None and following.lstrip else text

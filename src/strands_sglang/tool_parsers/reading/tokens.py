"""Token ids to places in text: which delimiters were sampled as one token, and where each token lies.

Owns `TokenTable`, built once per tokenizer and set of delimiters. Its invariant: a placement is returned only
if the tokens' own text agrees with the text that was given (one is the beginning of the other, since a turn's
end token may be on either side only); otherwise the tokens' own text is returned to be read instead.
Only added tokens count as delimiters. Never encodes anything.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol


class Tokenizer(Protocol):
    """What is needed of a Hugging Face tokenizer."""

    def get_added_vocab(self) -> dict[str, int]:
        """Return the added tokens, special or not, by text."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """Return the vocabulary entries of ids."""

    def decode(self, token_ids: list[int], **kwargs: Any) -> str:
        """Return the text of ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a turn's tokens lie in its text.

    Attributes:
        text: The text the places count in.
        marks: For each delimiter that is one token in this vocabulary, where it was sampled, ascending. A
            place at the very end of `text` is a token whose text the caller has cut off.
        offsets: Where each token begins, and the end of the last one; None where only marks could be placed.
    """

    text: str
    marks: Mapping[str, list[int]]
    offsets: list[int] | None


def anchor(placement: Placement, anchored: Mapping[str, str]) -> Placement:
    """Add the delimiters that are text around a token, where that token is one of the vocabulary."""
    marks = dict(placement.marks)
    for delimiter, token in anchored.items():
        if token in marks:
            before = delimiter.index(token)
            places = (at - before for at in marks[token] if at >= before)
            marks[delimiter] = [at for at in places if placement.text.startswith(delimiter, at)]
    return replace(placement, marks=marks)


def _byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level vocabularies use for the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTES = _byte_alphabet()
_CONTINUING = bytes(range(0x80, 0xC0))
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTES[c] for c in token)
    except KeyError:
        return token.encode("utf-8", "surrogatepass")


def _sentence_piece(token: str) -> bytes:
    if byte := _BYTE_PIECE.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace("\u2581", " ").encode("utf-8", "surrogatepass")


_SCHEMES: tuple[Callable[[str], bytes], ...] = (_byte_level, _sentence_piece)


class TokenTable:
    """The bytes of each token of one tokenizer, and which tokens are delimiters."""

    def __init__(self, tokenizer: Tokenizer, delimiters: Callable[[Mapping[str, int]], Iterable[str]]) -> None:
        """Create the table.

        Args:
            tokenizer: The tokenizer.
            delimiters: Given the added tokens by text, returns the delimiters of the format.
        """
        self.tokenizer = tokenizer
        self._added = {id_: text for text, id_ in tokenizer.get_added_vocab().items()}
        by_text = {text: id_ for id_, text in self._added.items()}
        self.delimiter_ids = {by_text[text]: text for text in delimiters(by_text) if text in by_text}
        # Per scheme: the bytes of a token, and how many characters begin in them.
        self._bytes: tuple[dict[int, bytes], ...] = tuple({} for _ in _SCHEMES)
        self._begin: tuple[dict[int, int], ...] = tuple({} for _ in _SCHEMES)
        self._agreed = 0

    def place(self, text: str, ids: Sequence[int]) -> Placement:
        """Return where `ids` lie in `text`, or in their own text where the two disagree."""
        different = set(ids)
        for scheme in (self._agreed, *(s for s in range(len(_SCHEMES)) if s != self._agreed)):
            self._learn(different, scheme)
            lengths, own = self._text(ids, scheme)
            # Decoders of the SentencePiece kind drop the space that the first word begins with.
            shift = int(own.startswith(" ") and not _agree(own, text) and _agree(own[1:], text))
            if _agree(own[shift:], text):
                self._agreed = scheme
                offsets = list(accumulate(lengths, initial=0))
                if shift:
                    offsets = [max(0, at - shift) for at in offsets]
                return Placement(text=text, marks=self._marks(ids, different, offsets), offsets=offsets)
        return self._place_by_decoding(text, ids)

    def _learn(self, ids: set[int], scheme: int) -> None:
        """Look up what is not known yet of these ids."""
        known, begin = self._bytes[scheme], self._begin[scheme]
        missing = list(ids - known.keys())
        if missing:
            as_bytes = _SCHEMES[scheme]
            for id_, token in zip(missing, self.tokenizer.convert_ids_to_tokens(missing), strict=True):
                added = self._added.get(id_)
                if added is not None:
                    piece = added.encode("utf-8", "surrogatepass")
                else:
                    piece = as_bytes(token) if token is not None else b""
                # Every byte that continues no character begins one.
                begin[id_] = len(piece.translate(None, _CONTINUING))
                known[id_] = piece

    def _text(self, ids: Sequence[int], scheme: int) -> tuple[list[int], str]:
        """Return how many characters each token completes, and the whole text."""
        pieces = list(map(self._bytes[scheme].__getitem__, ids))
        with contextlib.suppress(UnicodeDecodeError):
            return list(map(self._begin[scheme].__getitem__, ids)), b"".join(pieces).decode("utf-8")
        return _lengths_of_broken_text(pieces)

    def _marks(self, ids: Sequence[int], different: set[int], offsets: Sequence[int]) -> dict[str, list[int]]:
        marks: dict[str, list[int]] = {text: [] for text in self.delimiter_ids.values()}
        sampled = self.delimiter_ids.keys() & different
        if sampled:
            for index in [index for index, id_ in enumerate(ids) if id_ in sampled]:
                marks[self.delimiter_ids[ids[index]]].append(offsets[index])
        return marks

    def _place_by_decoding(self, text: str, ids: Sequence[int]) -> Placement:
        """Place the delimiters by decoding what lies between them; for vocabularies of other kinds."""
        parts: list[str] = []
        length = 0
        marks: dict[str, list[int]] = {mark: [] for mark in self.delimiter_ids.values()}
        begin = 0
        for index in [*(i for i, id_ in enumerate(ids) if id_ in self.delimiter_ids), len(ids)]:
            parts.append(self._decode(ids, begin, index))
            length += len(parts[-1])
            if index < len(ids):
                mark = self.delimiter_ids[ids[index]]
                marks[mark].append(length)
                parts.append(mark)
                length += len(mark)
            begin = index + 1
        own = "".join(parts)
        return Placement(text=text if _agree(own, text) else own, marks=marks, offsets=None)

    def _decode(self, ids: Sequence[int], begin: int, end: int) -> str:
        """Decode ids as they read after the delimiter before them, whose text is cut off again."""
        if begin == end:
            return ""
        options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        if begin == 0:
            return self.tokenizer.decode(list(ids[:end]), **options)
        anchor = self.delimiter_ids[ids[begin - 1]]
        joined = self.tokenizer.decode(list(ids[begin - 1 : end]), **options)
        return joined[len(anchor) :] if joined.startswith(anchor) else joined


def _agree(own: str, text: str) -> bool:
    return own.startswith(text) or text.startswith(own)


def _lengths_of_broken_text(pieces: Sequence[bytes]) -> tuple[list[int], str]:
    """Return how many characters each piece completes, and the whole text, where that is not UTF-8.

    A character that is cut off for good belongs to the piece it was begun in, so that the next one begins behind it.
    """
    joined = b"".join(pieces)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts: list[str] = []
    end = 0
    for piece in pieces:
        completed = decoder.decode(piece)
        end += len(piece)
        unfinished = piece[-1:] >= b"\x80" and decoder.getstate()[0]
        if unfinished and (end == len(joined) or joined[end] & 0xC0 != 0x80):
            completed += decoder.decode(b"", True)
            decoder.reset()
        texts.append(completed)
    return [len(text) for text in texts], "".join(texts)

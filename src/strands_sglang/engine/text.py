"""Ids to text and back, behind one small protocol.

Owns the choice between the two tokenizer libraries: `transformers` tokenizers and `tokenizers.Tokenizer` spell the
same two calls differently.
Never cleans text up, and never adds special tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class TextCodec(Protocol):
    """What an engine asks of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, no special token added."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Return the text of `ids`, special tokens left out where asked."""
        ...


class FastCodec:
    """A `tokenizers.Tokenizer`."""

    def __init__(self, tokenizer: Any) -> None:
        """Wrap it."""
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Return the text of `ids`."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)
        return text


class TransformersCodec:
    """A tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        """Wrap it."""
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Return the text of `ids`."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
        return text


def text_codec(tokenizer: Any) -> TextCodec:
    """Return the codec for a tokenizer of either library."""
    is_fast = type(tokenizer).__module__.partition(".")[0] == "tokenizers"
    return FastCodec(tokenizer) if is_fast else TransformersCodec(tokenizer)

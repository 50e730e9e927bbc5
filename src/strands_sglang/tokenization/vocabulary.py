"""A tokenizer as this package uses it: text to ids in place, text to ids without control tokens, ids to text.

Owns a private view of the tokenizer: the same model, normaliser and added tokens, but no truncation, no padding and no
state that another thread could toggle. Invariant: `encode(a + t + b, after=...)` of template text gives the ids the
whole tokenizer gives for it in place; `encode_plain(text)` never gives the id of a control token.
Never truncates, never adds special tokens of its own, never changes the tokenizer it was given.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.errors import SGLangConfigError, TemplateNotExactError

from .words import Words

_PROBES = ("a", " a", "1", "<", "\n", " ", "Ä", "▁")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlToken:
    """An added token of the tokenizer, special or not, that is not mere whitespace.

    Attributes:
        id: Its id.
        text: Its text.
        special: Whether the tokenizer calls it special.
        lstrip: Whether it swallows whitespace before it.
        rstrip: Whether it swallows whitespace after it.
        normalized: Whether it is looked for in normalised text.
    """

    id: int
    text: str
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


class Vocabulary:
    """A private, immutable view of one tokenizer.

    Attributes:
        name: Name or path of the tokenizer, for messages.
        tokens: Control tokens by text.
        by_id: Control tokens by id.
        special_tokens: The named special tokens a template may print (`bos_token`, `eos_token`, ...).
        eos: The tokenizer's end-of-sequence token, or None.
        bos_id: Id of its beginning-of-sequence token, or None.
    """

    def __init__(self, tokenizer: Any, *, special_tokens: Mapping[str, Any] | None = None) -> None:
        """Take the view.

        Args:
            tokenizer: A transformers tokenizer, fast or slow, or a `tokenizers.Tokenizer`.
            special_tokens: Template arguments, which may name special tokens; they win over the tokenizer's own.
        """
        self.name: str = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self.special_tokens = _special_tokens(tokenizer)
        self._tokenizer = tokenizer
        self._backend, self._plain = _views(tokenizer)
        self.tokens = {
            token.text: token
            for token in _added_tokens(self._backend if self._backend is not None else tokenizer, self.name)
            # Gemma lists runs of newlines and of the space mark as added tokens: they are text, not control.
            if token.text.strip().strip("▁")
        }
        self.by_id = {token.id: token for token in self.tokens.values()}
        named = {**self.special_tokens, **(special_tokens or {})}
        self.eos = self.tokens.get(str(named.get("eos_token")))
        bos = self.tokens.get(str(named.get("bos_token")))
        self.bos_id = bos.id if bos is not None else None
        # The token for what a model has no token for does come out of content, and says nothing.
        unknown = named.get("unk_token") or getattr(getattr(self._backend, "model", None), "unk_token", None)
        self._forbidden = frozenset(self.by_id) - {token.id for token in self.tokens.values() if token.text == unknown}
        self._pattern = re.compile(_alternatives(self.tokens)) if self.tokens else None
        first = "".join(map(re.escape, sorted({text[0] for text in self.tokens})))
        self._first_characters = re.compile(f"[{first}]" if first else "(?!)")
        self._words = self._words_of_plain()
        self._anchor = next((t for t in self.tokens.values() if not (t.rstrip or t.normalized)), None)
        self._start_is_neutral = self._anchor is None or self._encodes_alike_after(self._anchor)
        normalizer = getattr(self._backend, "normalizer", None)
        self._normalize: Callable[[str], str] | None = None
        if normalizer is not None and any(token.normalized for token in self.tokens.values()):
            self._normalize = normalizer.normalize_str

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the control token literals in a text, leftmost and longest, as the tokenizer would match them."""
        if self._pattern is None or self._first_characters.search(text) is None:
            return iter(())
        return self._pattern.finditer(text)

    def tokens_in(self, text: str) -> list[ControlToken]:
        """Return the control tokens of a text, in order."""
        return [self.tokens[match[0]] for match in self.find(text)]

    def common_length(self, one: str, other: str) -> int:
        """Return the length of the longest common beginning of two texts that cuts through no control token."""
        low, high = 0, min(len(one), len(other))
        while low < high:
            middle = (low + high + 1) // 2
            if one[low:middle] == other[low:middle]:
                low = middle
            else:
                high = middle - 1
        for text in (one, other):
            for match in self.find(text):
                if match.end() > low:
                    low = min(low, match.start())
                    break
        return low

    def as_matched(self, text: str) -> str:
        """Return a text as it is looked for control tokens in.

        That is the text itself, or its normalised form where some tokens are looked for in normalised text and it
        holds more of them.
        """
        if self._normalize is None:
            return text
        normalized = self._normalize(text)
        more = normalized != text and sum(1 for _ in self.find(normalized)) > sum(1 for _ in self.find(text))
        return normalized if more else text

    def encode(self, text: str, *, after: ControlToken | None = None) -> list[int]:
        """Return the ids of a text, control tokens included.

        Args:
            text: The text.
            after: The control token it directly follows; None for text that starts a sequence.
        """
        if after is None or (self._start_is_neutral and not after.rstrip):
            return self._encode(text)
        ids = self._encode(after.text + text)
        if not ids or ids[0] != after.id:
            raise TemplateNotExactError(
                f"{self.name}: {after.text!r} followed by {text[:20]!r} does not encode to that token first, so what "
                "follows it cannot be encoded in place",
                model=self.name,
            )
        return ids[1:]

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a stretch of text between control tokens, in which literals of such tokens stay text."""
        if self._plain is not None and self._start_is_neutral:
            encode = self._words.encode if self._words is not None else self._encode_bare
            ids = encode(text)
            if self._forbidden.isdisjoint(ids):
                return ids
        ids = [token for part in self._harmless_parts(text) for token in self._encode_inside(part)]
        if not self._forbidden.isdisjoint(ids):
            literal = next(self.by_id[token].text for token in ids if token in self._forbidden)
            raise TemplateNotExactError(
                f"{self.name}: the tokenizer makes the control token {literal!r} out of plain text",
                model=self.name,
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens kept, without clean-up."""
        if self._backend is not None:
            return str(self._backend.decode(list(ids), skip_special_tokens=False))
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _words_of_plain(self) -> Words | None:
        """Return a faster way to encode what is between added tokens, where these are matched as `find` does."""
        if self._plain is None or self._backend is None:
            return None
        added = self._backend.get_added_tokens_decoder().values()
        if len(added) > len(self.tokens) or any(t.single_word or t.lstrip or t.rstrip or t.normalized for t in added):
            return None
        return Words.of(self._plain)

    def _encode_bare(self, text: str) -> list[int]:
        assert self._plain is not None
        return list(self._plain.encode(text, add_special_tokens=False).ids)

    def _encode(self, text: str) -> list[int]:
        if self._words is not None:
            found, end = [], 0
            for match in self.find(text):
                found += self._words.encode(text[end : match.start()])
                found.append(self.tokens[match[0]].id)
                end = match.end()
            return found + self._words.encode(text[end:])
        if self._backend is not None:
            ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
            return ids
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode_inside(self, text: str) -> list[int]:
        """Encode text that stands in the middle of other text, with no mark of a text's start."""
        return self._encode(text) if self._anchor is None else self.encode(text, after=self._anchor)

    def _harmless_parts(self, text: str) -> Iterator[str]:
        """Cut a text after the first character of each control token literal, until no part holds one."""
        while (match := next(self.find(text), None)) is not None:
            yield text[: match.start() + 1]
            text = text[match.start() + 1 :]
        if text:
            yield text

    def _encodes_alike_after(self, token: ControlToken) -> bool:
        """Return whether text encodes alike at the start of a sequence and right after a control token."""
        return all(self._encode(token.text + probe) == [token.id, *self._encode(probe)] for probe in _PROBES)


def _special_tokens(tokenizer: Any) -> dict[str, str]:
    named: Mapping[str, Any] = getattr(tokenizer, "special_tokens_map", None) or {}
    return {key: str(value) for key, value in named.items() if not isinstance(value, list | tuple)}


def _views(tokenizer: Any) -> tuple[Any | None, Any | None]:
    """Return a private fast tokenizer and one that knows no added tokens, or None twice for a slow one."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not (hasattr(backend, "get_added_tokens_decoder") and hasattr(backend, "pre_tokenizer")):
        return None, None
    plain, private = _bare(backend), _bare(backend)
    added = sorted(backend.get_added_tokens_decoder().items())
    for special, group in itertools.groupby((token for _, token in added), key=lambda token: token.special):
        (private.add_special_tokens if special else private.add_tokens)(list(group))
    if [(i, repr(t)) for i, t in sorted(private.get_added_tokens_decoder().items())] != [
        (i, repr(t)) for i, t in added
    ]:
        # Ids with gaps cannot be given by adding tokens: pay for a full copy instead.
        private = type(backend).from_str(backend.to_str())
        private.no_truncation()
        private.no_padding()
        private.encode_special_tokens = False
    return private, plain


def _bare(backend: Any) -> Any:
    """Return a tokenizer that shares the model, but has no added tokens, truncation or padding."""
    bare = type(backend)(backend.model)
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if (value := getattr(backend, part)) is not None:
            setattr(bare, part, value)
    return bare


def _added_tokens(tokenizer: Any, name: str) -> Iterator[ControlToken]:
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        decoder = tokenizer.get_added_tokens_decoder()
    else:
        decoder = getattr(tokenizer, "added_tokens_decoder", None)
    if decoder is not None:
        for token_id, token in decoder.items():
            yield ControlToken(
                id=token_id,
                text=str(token.content),
                special=token.special,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized,
            )
        return
    if not hasattr(tokenizer, "get_added_vocab"):
        raise SGLangConfigError(
            f"{name} is not a tokenizer this library can use: it has neither get_added_vocab() nor "
            "get_added_tokens_decoder()"
        )
    for text, token_id in tokenizer.get_added_vocab().items():
        yield ControlToken(id=token_id, text=str(text))


def _alternatives(texts: Mapping[str, Any]) -> str:
    """Return a pattern that matches the longest of many literals in time independent of their number."""
    tree: dict[str, Any] = {}
    for text in texts:
        node = tree
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}
    return _pattern_of(tree)


def _pattern_of(tree: Mapping[str, Any]) -> str:
    branches = []
    for character, below in sorted(tree.items()):
        if character == "":
            continue
        prefix = re.escape(character)
        # Chains without a branch are written flat: the depth of a pattern is limited.
        while len(below) == 1 and "" not in below:
            ((character, below),) = below.items()
            prefix += re.escape(character)
        branches.append(prefix + (_pattern_of(below) if set(below) != {""} else ""))
    pattern = branches[0] if len(branches) == 1 and "" not in tree else f"(?:{'|'.join(branches)})"
    return pattern + "?" if "" in tree else pattern

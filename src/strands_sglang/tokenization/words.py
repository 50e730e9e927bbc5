r"""Encoding by words that were met before, for tokenizers whose words can be told by a known rule.

Owns the way around the slowest part of encoding: most tokenizers of today are byte-level BPE behind one of a few
regular expressions that cut text into words, and cutting costs ten times as much as looking a word's ids up. Over ASCII
text those expressions are ones that `re` knows too; each word's ids come from the tokenizer itself, once. Text that is
not ASCII is cut at line breaks before a letter or digit, where no rule joins what is on both sides, and its other lines
go to the tokenizer. Invariant: `encode(text)` is what the tokenizer gives. A tokenizer with any other rule, normaliser,
model or kind of added token, or one that disagrees over a probe, is not used this way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

_ELISIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LETTERS, _MARKED = r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _rules() -> Iterator[str]:
    for number in (r"\p{N}", r"\p{N}{1,3}"):
        yield rf"{_ELISIONS}|{_LETTERS}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
        yield rf"{_ELISIONS}|{_MARKED}|{number}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
        for elision in ("", rf"{_ELISIONS}?"):
            cased = (rf"[^\r\n\p{{L}}\p{{N}}]?{a}{b}{elision}" for a, b in ((f"{_UPPER}*", f"{_LOWER}+"),
                                                                          (f"{_UPPER}+", f"{_LOWER}*")))  # fmt: skip
            yield rf"{'|'.join(cased)}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


_RULES = frozenset(_rules())
_ASCII = {"L": "A-Za-z", "N": "0-9", "M": "", "Lu": "A-Z", "Ll": "a-z", "Lt": "", "Lm": "", "Lo": ""}
_CUT = re.compile(r"(?<=\n)(?=[A-Za-z0-9])")
_WORDS, _LONGEST = 1 << 15, 40
_PROBE = (
    "It's a test,  isn't IT'S?  \n\n  x = foo_bar(1234, 'a b'); // 3.14\r\n\tEND\n\n\n   ...!!\n/path/to//file "
    "\x0b\x0c\x1c\x1f\x00CamelCaseWords AND iOS7 x1y2 \t\t tab 's 'S 'LL 'x  \n \n a\n\n\nb end   "
)

Encode = Callable[[str], list[int]]


class Words:
    """Encodes text by the words in it."""

    def __init__(self, rule: re.Pattern[str], encode: Encode) -> None:
        """Create it with no word known.

        Args:
            rule: Cuts ASCII text into words.
            encode: The tokenizer's own encoding of text in which it finds no added tokens.
        """
        self._rule = rule
        self._encode = encode
        self._known = _Known(rule, encode)

    @classmethod
    def of(cls, tokenizer: Any) -> Words | None:
        """Return the words of a `tokenizers.Tokenizer` without added tokens, or None where it has another rule."""
        rule = _rule_of(tokenizer)
        if rule is None:
            return None
        words = cls(rule, lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids))
        return words if words.encode(_PROBE) == words._encode(_PROBE) else None

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        if text.isascii():
            return self._encode_ascii(text)
        ids: list[int] = []
        slow: list[str] = []
        for lines in _CUT.split(text):
            if not lines.isascii():
                slow.append(lines)
                continue
            if slow:
                ids += self._encode("".join(slow))
                slow = []
            ids += self._encode_ascii(lines)
        return ids + self._encode("".join(slow)) if slow else ids

    def _encode_ascii(self, text: str) -> list[int]:
        try:
            return list(chain.from_iterable(map(self._known.__getitem__, self._rule.findall(text))))
        except _CutAloneError:
            return self._encode(text)


class _CutAloneError(Exception):
    """A word is one word only where it stands."""


class _Known(dict[str, tuple[int, ...]]):
    """The ids of words, learnt when they are first asked for."""

    def __init__(self, rule: re.Pattern[str], encode: Encode) -> None:
        super().__init__()
        self._rule = rule
        self._encode = encode

    def __missing__(self, word: str) -> tuple[int, ...]:
        if self._rule.findall(word) != [word]:
            raise _CutAloneError
        ids = tuple(self._encode(word))
        if len(word) <= _LONGEST:
            if len(self) >= _WORDS:
                self.clear()
            self[word] = ids
        return ids


def _rule_of(tokenizer: Any) -> re.Pattern[str] | None:
    """Return what cuts ASCII text into words as a tokenizer does, or None."""
    try:
        normalizer, cutter = (_described(getattr(tokenizer, part)) for part in ("normalizer", "pre_tokenizer"))
        model = tokenizer.model
        if type(model).__name__ != "BPE" or model.dropout is not None:
            return None
    except (AttributeError, TypeError, ValueError):
        return None
    plain = normalizer is None or normalizer["type"] == "NFC" or normalizer.get("normalizers") == []
    steps: Sequence[Mapping[str, Any]] = (cutter or {}).get("pretokenizers", ())
    if not plain or [step["type"] for step in steps] != ["Split", "ByteLevel"]:
        return None
    split, level = steps
    rule = split["pattern"].get("Regex")
    whole = (split["behavior"], split["invert"]) in (("Isolated", False), ("Removed", True))
    if rule not in _RULES or not whole or level["add_prefix_space"] or level["use_regex"]:
        return None
    return re.compile(_over_ascii(rule), re.ASCII)


def _described(part: Any) -> Any:
    return None if part is None else json.loads(part.__getstate__())


def _over_ascii(rule: str) -> str:
    """Return a rule with the classes of characters that are left of it over ASCII."""
    inside = re.sub(r"\[[^\]]*\]", lambda match: re.sub(r"\\p\{(\w+)\}", lambda m: _ASCII[m[1]], match[0]), rule)
    return re.sub(r"\\p\{(\w+)\}", lambda match: f"[{_ASCII[match[1]]}]", inside)

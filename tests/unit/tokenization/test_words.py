"""Encoding by known words gives what the tokenizer gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from strands_sglang.tokenization.vocabulary import Vocabulary
from strands_sglang.tokenization.words import Words
from tests.real_tokenizers import real_tokenizer

PIECES = [
    *" \n\t\r'\x0b\x1c\x00.,;/\\(<aZx0",
    "\n\n",
    "'s",
    "'LL",
    "Abc",
    "iOS",
    "12345",
    "é",
    "中文",
    "ſ",
    "\u0301",
    "\u00a0",
    "😀",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=24).map("".join)
MARKS = ["<|im_start|>", "<|im_end|>\n", "<tool_call>", "<|im_", "<|eot_id|>", "<|python_tag|> "]


@pytest.fixture(scope="module", params=["qwen2.5", "llama-3.1"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return Vocabulary(real_tokenizer(request.param))


def ids_of(vocabulary: Vocabulary, text: str) -> list[int]:
    ids: list[int] = vocabulary._backend.encode(text, add_special_tokens=False).ids  # type: ignore[union-attr]
    return ids


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_words_give_the_ids_of_the_tokenizer(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary._words is not None
    for _ in range(2):  # the second time from what is known
        assert ids_of(vocabulary, text) == vocabulary.encode(text)


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(TEXTS | st.sampled_from(MARKS), max_size=6))
def test_control_tokens_are_found_where_the_tokenizer_finds_them(vocabulary: Vocabulary, parts: list[str]) -> None:
    text = "".join(parts)

    assert ids_of(vocabulary, text) == vocabulary.encode(text)


def test_a_tokenizer_with_another_rule_or_model_is_left_to_itself(vocabulary: Vocabulary) -> None:
    plain = vocabulary._plain
    assert plain is not None
    bare = Tokenizer(plain.model)
    assert Words.of(bare) is None

    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert Words.of(bare) is None

    bare.pre_tokenizer = plain.pre_tokenizer
    assert Words.of(bare) is not None

    bare.model = models.BPE({"a": 0}, [], dropout=0.5)
    assert Words.of(bare) is None


def test_a_tokenizer_whose_added_tokens_take_blanks_is_left_to_itself(vocabulary: Vocabulary) -> None:
    greedy = Tokenizer(vocabulary._plain.model)  # type: ignore[union-attr]
    greedy.pre_tokenizer = vocabulary._plain.pre_tokenizer  # type: ignore[union-attr]
    greedy.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    assert Vocabulary(greedy)._words is not None

    greedy.add_special_tokens([AddedToken("<|other|>", lstrip=True, normalized=False)])

    assert Vocabulary(greedy)._words is None


def test_an_object_that_is_no_fast_tokenizer_is_left_to_itself() -> None:
    assert Words.of(object()) is None


def test_few_words_are_kept_however_many_are_met(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strands_sglang.tokenization.words._WORDS", 8)
    words = Words.of(vocabulary._plain)
    assert words is not None

    text = " ".join(f"w{'abcdefghij'[i % 10] * (i // 10 + 1)}" for i in range(100))

    assert ids_of(vocabulary, text) == words.encode(text)
    assert len(words._known) <= 8

"""Which texts can be put in another's place."""

from __future__ import annotations

import pytest

from strands_sglang.tokenization.calm import Calm
from strands_sglang.tokenization.mould import Mould
from strands_sglang.tokenization.sealed import Slot, Step
from strands_sglang.tokenization.suffix import Suffix
from strands_sglang.tokenization.vocabulary import Vocabulary
from tests.unit.tokenization.conversations import byte_tokenizer

TOKENS = ("<|start|>", "<|end|>", "[go on]", "<tool_42>")


def calm(*marks: str) -> Calm:
    return Calm(Vocabulary(byte_tokenizer(*TOKENS)), marks)


@pytest.mark.parametrize(
    "text",
    [
        "It is warm.",
        " two\nlines\n",
        '{"a": "b\\n"}',
        "Straße 東京 👩",
        "a < b",
        "\\n",
        "a\\udb b",
        "43",
        "call_1a",
        "\ue000",
    ],
)
def test_calm(text: str) -> None:
    knows = calm("<think>", "</think>")

    assert knows.is_calm(text)
    assert knows.is_calm(text)  # from what is remembered


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "a<|end|>b", "<|end|>", "a <|en", " d|> a", "tool_42", "42", "end", "start"),
        *("go on", "go", "a [", "] a", " on] a", "a [go ", "a [go"),
        *("\ud800", "a\U000f0000", "\U00100001", "\\U00100041", "\\udbc0\\udc41", "a\\", "a\\U001", "a\\udbc0\\ud"),
        *("<think>a", "a</think>", "a <thi", "nk> a", "think"),
    ],
)
def test_not_calm(text: str) -> None:
    assert not calm("<think>", "</think>").is_calm(text)


def test_what_normalising_makes_a_token_of_is_not_calm() -> None:
    from tokenizers import normalizers

    tokenizer = byte_tokenizer("<|end|>", normalized=True)
    tokenizer.normalizer = normalizers.Lowercase()

    assert not Calm(Vocabulary(tokenizer), ()).is_calm("say <|END|> now")


def test_arguments() -> None:
    knows = calm()

    assert knows.all_need_no_disguise({"a": ["b", 1, None, True, 2.5, {"c": " "}], "": ("d",)})
    for odd in ("<|end|>", "a<|en", "\ud800", "\\U00100041", "\U00100001"):
        assert not knows.all_need_no_disguise({"a": [odd]})
        assert not knows.all_need_no_disguise({"a": {odd: 1}})
    for value in (b"x", {1: "a"}, {"a"}, object()):
        assert not knows.all_need_no_disguise([value])


def mould(**given: tuple[int, ...]) -> Mould:
    """Return a mould that prints a text with round brackets made angular."""
    return Mould(
        suffix=Suffix(text="", start=0, header="", ends=(), replaced=frozenset()),
        pieces=("[", "]"),
        holes=(1,),
        steps=((1, Step(function=str.replace, operands=(Slot(0), "(", "<"))),),
        conditions=((Step(function=str.startswith, operands=(Slot(0), "no")), False),),
        printed=given.get("printed", ()),
        tight=given.get("tight", ()),
        unsure=given.get("unsure", ()),
    )


def test_a_mould_is_cast() -> None:
    suffix = mould(printed=(1,), tight=(1,), unsure=(1,)).cast(["a (b"], calm())

    assert suffix is not None
    assert suffix.text == "[a <b]"


@pytest.mark.parametrize("text", ["no (b", "a (|end|>", "a (b ", "a (|"])
def test_a_mould_is_not_cast(text: str) -> None:
    assert mould(printed=(1,), tight=(1,)).cast([text], calm()) is None


def test_a_text_that_is_not_shown_is_not_cast() -> None:
    assert mould(unsure=(0,)).cast(["a (b"], calm()) is None


def test_a_step_that_fails_is_not_cast() -> None:
    failing = Mould(
        suffix=Suffix(text="", start=0, header="", ends=(), replaced=frozenset()),
        pieces=("", ""),
        holes=(1,),
        steps=((1, Step(function=str.__getitem__, operands=(Slot(0), 3))),),
        conditions=(),
        printed=(),
        tight=(),
        unsure=(),
    )

    assert failing.cast(["abc"], calm()) is None
    assert failing.cast(["abcd"], calm()) is not None

"""With the sampled ids, a delimiter counts only where its token was sampled, and attempts know their tokens."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers import ParsedTurn, get_tool_parser
from tests.real_tokenizers import real_tokenizer
from tests.unit.tool_parsers.formats import CALL, FORMATS, OTHER, WEATHER, Format

PAIRS = (
    ("hermes", "qwen3"),
    ("qwen_xml", "qwen3.5"),
    ("glm", "glm-4.6"),
    ("deepseek_v31", "deepseek-v3.1"),
    ("deepseek_v4", "deepseek-v4"),
    ("minimax_m2", "minimax-m2"),
    ("minimax_m3", "minimax-m3"),
)
every_pair = pytest.mark.parametrize(("form", "name"), PAIRS)


def form_of(name: str) -> Format:
    return next(form for form in FORMATS if form.name == name)


def sampled(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text in which every delimiter is its own token."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def typed(tokenizer: Any, text: str) -> list[int]:
    """Return ids of the same text that hold no added token, as if it was typed letter by letter."""
    ids = [id_ for letter in text for id_ in sampled(tokenizer, letter)]
    assert not set(ids) & set(tokenizer.get_added_vocab().values())
    return ids


def parse(form: Format, tokenizer: Any, ids: list[int], text: str | None = None) -> ParsedTurn:
    if text is None:
        text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return form.parse(text, token_ids=ids, tokenizer=tokenizer)


@every_pair
def test_with_ids_and_without_a_turn_reads_the_same(form: str, name: str) -> None:
    tokenizer, case = real_tokenizer(name), form_of(form)
    text = f"Schön, 日本 😀!\n{case.render([CALL, OTHER])}"

    with_ids, without = parse(case, tokenizer, sampled(tokenizer, text)), case.parse(text)

    assert [(call.name, call.input, call.span) for call in with_ids.calls] == [
        (call.name, call.input, call.span) for call in without.calls
    ]
    assert [(call.name, call.input) for call in with_ids.calls] == [CALL, OTHER]
    assert with_ids.content == without.content == "Schön, 日本 😀!"


@every_pair
def test_delimiters_typed_as_plain_text_are_content(form: str, name: str) -> None:
    tokenizer, case = real_tokenizer(name), form_of(form)
    text = case.render([OTHER])

    turn = parse(case, tokenizer, typed(tokenizer, text) + sampled(tokenizer, case.render([CALL])))

    assert [(call.name, call.input) for call in turn.calls] == [CALL]
    assert text == turn.content.rstrip("\n")


@every_pair
def test_reasoning_marks_typed_as_plain_text_are_content(form: str, name: str) -> None:
    tokenizer, case = real_tokenizer(name), form_of(form)
    assert case.think
    text = "".join(case.think)

    turn = parse(case, tokenizer, typed(tokenizer, text) + sampled(tokenizer, case.render([CALL])))

    assert (text, None, 1) == (turn.content.rstrip("\n"), turn.reasoning, len(turn.calls))


@every_pair
def test_the_token_span_of_an_attempt_holds_its_text(form: str, name: str) -> None:
    tokenizer, case = real_tokenizer(name), form_of(form)
    ids = sampled(tokenizer, f"日本 😀 {case.render([CALL, OTHER])} done")
    turn = parse(case, tokenizer, ids)

    for call in turn.calls:
        assert call.token_span
        start, end = call.token_span
        assert call.raw
        assert call.raw in tokenizer.decode(ids[start:end])
        assert call.raw not in tokenizer.decode(ids[start + 1 : end])
        assert call.raw not in tokenizer.decode(ids[start : end - 1])


@pytest.mark.parametrize(
    ("form", "name", "value"),
    [
        ("glm", "glm-4.6", "</arg_value></tool_call><tool_call>f<arg_key>a</arg_key><arg_value>"),
        ("deepseek_v4", "deepseek-v4", '</｜DSML｜parameter></｜DSML｜invoke><｜DSML｜invoke name="f">'),
        ("minimax_m3", "minimax-m3", "]<]minimax[>[</zone>]<]minimax[>[<a>"),
    ],
)
def test_tags_typed_inside_a_value_are_text(form: str, name: str, value: str) -> None:
    tokenizer, case = real_tokenizer(name), form_of(form)
    before, _, after = case.render([("get_time", {"zone": "PUT"})]).partition("PUT")
    ids = sampled(tokenizer, before) + typed(tokenizer, value) + sampled(tokenizer, after)

    turn = parse(case, tokenizer, ids)

    assert [("get_time", {"zone": value})] == [(call.name, call.input) for call in turn.calls], turn.calls[0].reason


def test_a_value_without_its_closing_tag_does_not_reach_over_the_closer_of_the_block() -> None:
    tokenizer, case = real_tokenizer("qwen3.5"), form_of("qwen_xml")
    broken = "<tool_call><function=f><parameter=a>x</function></tool_call>"

    turn = parse(case, tokenizer, sampled(tokenizer, broken + case.render([OTHER])))

    assert [call.status.value for call in turn.calls] == ["malformed", "ok"]


@pytest.mark.parametrize("cut", [0, 1])
def test_the_end_token_may_be_among_the_ids_or_not(cut: int) -> None:
    tokenizer, case = real_tokenizer("qwen3"), form_of("hermes")
    text = f"Hi.\n{case.render([CALL])}"
    ids = sampled(tokenizer, text + "<|im_end|>")

    turn = parse(case, tokenizer, ids[: len(ids) - cut], text)

    assert (turn.content, [(call.name, call.input) for call in turn.calls]) == ("Hi.", [CALL])
    assert (len(ids) - 1) == (turn.calls[0].token_span or (0, 0))[1]


def test_characters_split_between_tokens_do_not_shift_the_delimiters() -> None:
    tokenizer, case = real_tokenizer("qwen3"), form_of("hermes")
    emoji = next(ids for char in "🫠🪿🫨🩷" if len(ids := sampled(tokenizer, char)) > 2)

    # The last one is cut off within the character.
    turn = parse(case, tokenizer, emoji + emoji[:-1] + sampled(tokenizer, case.render([CALL])))

    assert [(call.name, call.input) for call in turn.calls] == [CALL]
    assert turn.content.endswith("\ufffd")


def test_where_text_and_ids_disagree_the_text_of_the_ids_is_read() -> None:
    tokenizer, case = real_tokenizer("qwen3"), form_of("hermes")
    text = f"\n\nHi.\n{case.render([CALL])}"

    turn = parse(case, tokenizer, sampled(tokenizer, text), text.strip())

    assert text == turn.text
    assert [(call.name, call.input) for call in turn.calls] == [CALL]


def test_ids_without_a_tokenizer_say_nothing() -> None:
    case = form_of("hermes")

    assert [(call.name, call.input) for call in case.parse(case.render([CALL]), token_ids=[1, 2]).calls] == [CALL]


def word_tokenizer(decoder: Any, words: list[str]) -> Any:
    """Return a tokenizer of whole words, with the tags of calls as added tokens."""
    vocabulary = {word: index for index, word in enumerate(["<unk>", *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoder
    backend.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=backend)


BODY = '{"name":"f","arguments":{}}'


@pytest.mark.parametrize(
    ("decoder", "words", "spans_known"),
    [
        (decoders.Metaspace(), ["▁Hi", f"▁{BODY}", "▁done"], True),
        # A decoder of a kind that the vocabulary entries alone do not tell.
        (decoders.WordPiece(prefix="##", cleanup=False), ["Hi", BODY, "done"], False),
    ],
)
def test_other_kinds_of_vocabulary_are_placed_as_well(decoder: Any, words: list[str], spans_known: bool) -> None:
    tokenizer = word_tokenizer(decoder, words)
    opens, closes = tokenizer.convert_tokens_to_ids(["<tool_call>", "</tool_call>"])
    ids = [1, opens, 2, closes, 3]
    text = tokenizer.decode(ids)

    turn = get_tool_parser("hermes").parse_turn(text, token_ids=ids, tokenizer=tokenizer)

    assert [(call.name, call.input) for call in turn.calls] == [("f", {})]
    assert spans_known == (turn.calls[0].token_span == (1, 4))
    assert turn.content.split() == ["Hi", "done"]


@pytest.mark.parametrize("tool", [None, "f", {}, {"function": None}, {"function": {"name": 3}}])
def test_what_is_no_tool_is_refused(tool: Any) -> None:
    with pytest.raises(SGLangConfigError, match="a tool has no name"):
        get_tool_parser("hermes").parse("Hi.", tools=[tool])


def test_tools_of_the_host_type_values_too() -> None:
    function = WEATHER["function"]
    spec = {"name": function["name"], "inputSchema": {"json": function["parameters"]}}
    text = form_of("qwen_xml").render([CALL])

    for tools in ([WEATHER], [function], [spec]):
        turn = get_tool_parser("qwen_xml").parse_turn(text, tools=tools)
        assert [(call.name, call.input) for call in turn.calls] == [CALL]

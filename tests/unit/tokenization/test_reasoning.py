"""Whether a prompt ends inside reasoning, told from its last generation prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from tests.real_tokenizers import chat_template, real_tokenizer
from tests.unit.tokenization.conversations import assistant, byte_tokenizer, chat_tokenizer, user

ASK = [user("Think about it.")]
PIECES = ("<think>", "</think>", " ", "\n\n", "\u2003", "a", "<", "think>")


@pytest.mark.parametrize(
    ("name", "thinking", "expected"),
    [
        ("qwen2.5", None, False),
        ("qwen3", None, False),
        ("qwen3", False, False),
        ("qwen3-thinking-2507", None, True),
        ("qwen3.6", None, True),
        ("qwen3.6", False, False),
        ("glm-4.6", None, False),
        ("glm-5", None, True),
        ("glm-5", False, False),
        ("deepseek-v3.1", None, False),
        ("minimax-m2", None, True),
    ],
)
def test_reasoning_is_open_where_the_generation_prompt_opens_it(
    name: str, thinking: bool | None, expected: bool
) -> None:
    chat = ChatTokenizer(real_tokenizer(name), enable_thinking=thinking)

    assert chat.reasoning_open(chat.first(ASK).ids) is expected
    assert (chat.reasoning_close(chat.first(ASK).ids) is not None) is expected


@pytest.mark.parametrize(
    ("template", "control", "arguments", "expected"),
    [
        ("ByteDance-Seed-OSS", ("<seed:bos>", "<seed:eos>", "<seed:think>", "</seed:think>"), {}, False),
        ("mistralai-Mistral-Small-4-119B-2603", ("[INST]", "[/INST]", "[THINK]", "[/THINK]", "</s>"), {}, False),
        ("google-gemma-4-E4B-it", ("<|turn>", "<turn|>", "<|channel>", "<channel|>"), {}, False),
        ("openai-gpt-oss-120b", ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"), {}, False),
    ],
)
def test_marks_of_every_kind_are_found(template: str, control: Any, arguments: Any, expected: bool) -> None:
    chat = ChatTokenizer(
        byte_tokenizer(*control), chat_template=chat_template(template), chat_template_kwargs=arguments
    )
    prompt = chat.first(ASK).ids
    opened = {
        "ByteDance-Seed-OSS": "<seed:think>hm",
        "mistralai-Mistral-Small-4-119B-2603": "[THINK]hm",
        "google-gemma-4-E4B-it": "<|channel>thought\nhm",
        "openai-gpt-oss-120b": "<|channel|>analysis<|message|>hm",
    }[template]
    closed = {
        "ByteDance-Seed-OSS": "</seed:think>",
        "mistralai-Mistral-Small-4-119B-2603": "[/THINK]",
        "google-gemma-4-E4B-it": "<channel|>",
        "openai-gpt-oss-120b": "<|end|>",
    }[template]

    assert chat.reasoning_open(prompt) is expected
    assert chat.reasoning_open([*prompt, *chat._vocabulary.encode(opened)])
    assert not chat.reasoning_open([*prompt, *chat._vocabulary.encode(opened + closed)])


def test_reasoning_that_an_earlier_turn_left_open_says_nothing_of_this_one() -> None:
    chat = ChatTokenizer(real_tokenizer("qwen3.6"), enable_thinking=False)
    prompt = chat.first(ASK).ids
    sampled = chat._vocabulary.encode("<think>never closed<|im_end|>")
    turn = SampledTurn(ids=sampled, message=assistant("", reasoning="never closed"), prompt_ids=prompt)

    bridge = chat.bridge(ASK, turn, [user("x")])

    assert not chat.reasoning_open([*prompt, *sampled, *bridge.ids])


def test_literal_marks_in_content_do_not_open_reasoning() -> None:
    chat = chat_tokenizer("qwen2.5")

    assert not chat.reasoning_open(chat.first([user("<think>")]).ids)


def test_marks_that_are_no_tokens_are_found_as_text() -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    chat = ChatTokenizer(byte_tokenizer("<|im_start|>", "<|im_end|>"), chat_template=source)
    prompt = chat.first(ASK).ids

    assert chat.reasoning_open(prompt)
    assert not chat.reasoning_open([*prompt, *chat._vocabulary.encode("hm</think>")])


@pytest.mark.parametrize("name", ["qwen3", "glm-4.6", "deepseek-v3.1", "minimax-m2"])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_text_is_cut_at_its_marks_as_an_expression_would_cut_it(name: str, pieces: list[str]) -> None:
    marks, text = chat_tokenizer(name)._marks, "".join(pieces)

    assert list(marks._between_marks(text)) == marks._around.split(text)

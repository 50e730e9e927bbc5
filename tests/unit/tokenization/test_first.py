"""The first prompt is the template's own rendering, encoded once."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings

from strands_sglang.errors import (
    ChatTemplateError,
    ChatTemplateMissingError,
    SGLangConfigError,
    UnknownNameError,
    UnsupportedContentError,
)
from strands_sglang.tokenization import ChatTokenizer
from tests.real_tokenizers import chat_template, real_tokenizer
from tests.unit.tokenization.conversations import (
    TOOLS,
    Conversation,
    assistant,
    byte_tokenizer,
    call,
    chat_tokenizer,
    conversations,
    result,
    user,
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALL = call(1, "add", city="Oslo", n=1)
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    user("What is it?"),
    assistant("", CALL, reasoning="Add them."),
    result(CALL, "3"),
    assistant("It is 3.", reasoning="Done."),
    user("Thanks. And now?"),
]


@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5", "qwen3", "qwen3.6", "glm-4.6", "glm-5", "minimax-m2"])
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
def test_first_prompt_equals_apply_chat_template(name: str, tools: Any) -> None:
    tokenizer = real_tokenizer(name)

    for end in (2, 4, 6):
        expected = tokenizer.apply_chat_template(
            MESSAGES[:end], tools=tools, add_generation_prompt=True, return_dict=False
        )
        assert expected == chat_tokenizer(name).first(MESSAGES[:end], tools).ids


@pytest.mark.parametrize(
    "name",
    ["openai-gpt-oss-120b", "google-gemma-4-E4B-it", "moonshotai-Kimi-K2-Instruct", "HuggingFaceTB-SmolLM3-3B"],
)
def test_rendering_equals_that_of_transformers_for_templates_without_a_tokenizer(name: str) -> None:
    tokenizer = real_tokenizer("qwen2.5")
    source = chat_template(name)
    chat = ChatTokenizer(tokenizer, chat_template=source, control_tokens="allow")

    expected = tokenizer.apply_chat_template(
        MESSAGES, tools=TOOLS, chat_template=source, add_generation_prompt=True, tokenize=False
    )

    assert expected == chat.decode(chat.first(MESSAGES, TOOLS).ids)


def test_template_arguments_are_passed() -> None:
    tokenizer = real_tokenizer("qwen3.6")
    chat = ChatTokenizer(tokenizer, enable_thinking=False, chat_template_kwargs={"preserve_thinking": True})

    expected = tokenizer.apply_chat_template(
        MESSAGES, add_generation_prompt=True, return_dict=False, enable_thinking=False, preserve_thinking=True
    )

    assert expected == chat.first(MESSAGES).ids


def test_enable_thinking_is_not_passed_unless_given() -> None:
    source = "{{ enable_thinking is defined }}{% for m in messages %}<|im_end|>{{ m.content }}{% endfor %}"
    tokenizer = byte_tokenizer("<|im_end|>")

    def text(**options: Any) -> str:
        chat = ChatTokenizer(tokenizer, chat_template=source, **options)
        return chat.decode(chat.first([user("x")]).ids)

    assert text() == "False<|im_end|>x"
    assert text(enable_thinking=False) == "True<|im_end|>x"


def test_template_arguments_are_frozen() -> None:
    arguments = {"words": ["one"]}
    source = "{{ words | join }}{% for m in messages %}<|im_end|>{{ m.content }}{% endfor %}"
    chat = ChatTokenizer(byte_tokenizer("<|im_end|>"), chat_template=source, chat_template_kwargs=arguments)
    before = chat.first([user("x")]).ids

    arguments["words"].append("two")

    assert before == chat.first([user("x")]).ids


def test_template_arguments_that_are_not_plain_data_are_refused() -> None:
    with pytest.raises(SGLangConfigError, match="strftime_now"):
        ChatTokenizer(
            byte_tokenizer("<|im_end|>"), chat_template=CHATML, chat_template_kwargs={"strftime_now": datetime.now}
        )


def test_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}{% for m in messages %}<|im_end|>{{ m.content }}{% endfor %}"
    chat = ChatTokenizer(byte_tokenizer("<|im_end|>"), chat_template=source)

    assert chat.first([user("x")]).ids == chat.first([user("x")]).ids


@pytest.mark.parametrize("name", ["glm-5", "deepseek-v3.1", "minimax-m2"])
def test_a_beginning_of_sequence_stands_once(name: str) -> None:
    ids = chat_tokenizer(name).first(MESSAGES[:2]).ids
    bos = real_tokenizer(name).bos_token_id

    assert ids.count(ids[0]) == 1
    assert bos in (None, ids[0])


def test_a_template_that_writes_the_beginning_of_sequence_twice_is_refused() -> None:
    source = "<s>{{ bos_token }}{% for m in messages %}<|im_end|>{{ m.content }}{% endfor %}"
    chat = ChatTokenizer(
        byte_tokenizer("<s>", "<|im_end|>"), chat_template=source, chat_template_kwargs={"bos_token": "<s>"}
    )

    with pytest.raises(ChatTemplateError, match="twice"):
        chat.first([user("x")])


def test_nothing_is_truncated_whatever_the_tokenizer_is_set_to() -> None:
    tokenizer = copy.deepcopy(real_tokenizer("smollm2-135m"))
    tokenizer.model_max_length = 32
    tokenizer.truncation_side = "left"
    tokenizer.backend_tokenizer.enable_truncation(max_length=8)
    tokenizer.backend_tokenizer.enable_padding(length=4096)
    long = user("word " * 500)

    ids = ChatTokenizer(tokenizer).first([long]).ids

    assert chat_tokenizer("smollm2-135m").first([long]).ids == ids
    assert tokenizer.backend_tokenizer.truncation is not None


def test_truncation_switched_on_later_changes_nothing() -> None:
    tokenizer = copy.deepcopy(real_tokenizer("smollm2-135m"))
    chat = ChatTokenizer(tokenizer)
    before = chat.first(MESSAGES[:2]).ids

    tokenizer.backend_tokenizer.enable_truncation(max_length=8)

    assert before == chat.first(MESSAGES[:2]).ids


def test_messages_and_tools_are_left_as_they_were() -> None:
    messages, tools = copy.deepcopy(MESSAGES), copy.deepcopy(TOOLS)

    chat_tokenizer("deepseek-v3.1").first(messages, tools)

    assert messages == MESSAGES
    assert tools == TOOLS


@settings(max_examples=15, deadline=None, derandomize=True)
@given(conversations(chat_tokenizer("qwen2.5"), most_turns=1))
def test_first_prompt_reads_like_the_rendering_whatever_the_content(conversation: Conversation) -> None:
    tokenizer = real_tokenizer("qwen2.5")

    ids = chat_tokenizer("qwen2.5").first(conversation.messages, conversation.tools).ids

    tools: Any = conversation.tools or None
    text = tokenizer.apply_chat_template(conversation.messages, tools=tools, add_generation_prompt=True, tokenize=False)
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.decode(ids)


# --- what cannot be rendered -----------------------------------------------------------------------------


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(ChatTemplateMissingError, match="no chat template"):
        ChatTokenizer(byte_tokenizer("<|im_end|>"))


def test_a_template_that_is_not_jinja_is_refused_with_its_own_words() -> None:
    with pytest.raises(ChatTemplateError, match="end of template"):
        ChatTokenizer(byte_tokenizer("<|im_end|>"), chat_template="{% if x %}")


def test_named_templates_are_chosen_as_transformers_does() -> None:
    tokenizer = copy.copy(real_tokenizer("smollm2-135m"))
    tokenizer.chat_template = {"default": "D" + CHATML, "tool_use": "T" + CHATML, "other": "O" + CHATML}

    def first_letter(tools: list[Any], **options: Any) -> str:
        chat = ChatTokenizer(tokenizer, **options)
        return chat.decode(chat.first([user("x")], tools).ids)[0]

    assert first_letter([]) == "D"
    assert first_letter(TOOLS) == "T"
    assert first_letter(TOOLS, chat_template="other") == "O"
    with pytest.raises(UnknownNameError, match="default"):
        first_letter([], chat_template="defualt")


def test_a_template_that_raises_keeps_its_words_and_names_the_message() -> None:
    with pytest.raises(ChatTemplateError, match="System message must be at the beginning") as caught:
        chat_tokenizer("qwen3.6").first([user("a"), {"role": "system", "content": "b"}, user("c")])

    assert caught.value.message_index == 1
    assert "[user, system, user]" in str(caught.value)
    assert caught.value.model == chat_tokenizer("qwen3.6").name


@pytest.mark.parametrize(
    ("messages", "index"),
    [
        ([], None),
        ("hello", None),
        ([user("a"), "b"], 1),
        ([{"content": "a"}], 0),
        ([user(7)], 0),
        ([user([{"text": "no type"}])], 0),
        ([user([{"type": "text"}])], 0),
        ([user("a"), {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}], 1),
        ([user("a"), {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}], 1),
        ([user("a"), {**assistant("b"), "extra": object()}], 1),
        ([user("half a pair: \ud800")], 0),
    ],
)
def test_messages_that_are_none_are_refused_by_index(messages: Any, index: int | None) -> None:
    with pytest.raises(UnsupportedContentError) as caught:
        chat_tokenizer("qwen2.5").first(messages)

    assert index == caught.value.message_index


def test_a_message_that_the_template_leaves_out_is_refused() -> None:
    source = "{% for m in messages if m.role != 'tool' %}<|im_end|>{{ m.content }}{% endfor %}"
    chat = ChatTokenizer(byte_tokenizer("<|im_end|>"), chat_template=source)

    with pytest.raises(UnsupportedContentError, match="leaves out message 2"):
        chat.first([user("a"), assistant("", CALL), result(CALL, "lost")])


def test_a_message_that_the_template_writes_changed_is_taken() -> None:
    source = "{% for m in messages %}<|im_end|>{{ m.content | upper | replace(' ', '_') }}{% endfor %}"
    chat = ChatTokenizer(byte_tokenizer("<|im_end|>"), chat_template=source)

    assert chat.decode(chat.first([user("a small text")]).ids) == "<|im_end|>A_SMALL_TEXT"


# --- forms -----------------------------------------------------------------------------------------------


def test_arguments_are_given_as_text_where_the_template_wants_text() -> None:
    chat = chat_tokenizer("deepseek-v3.1")
    written = [user("a"), assistant("", CALL), result(CALL, "3")]
    as_text = copy.deepcopy(written)
    as_text[1]["tool_calls"][0]["function"]["arguments"] = '{"city": "Oslo", "n": 1}'

    expected = real_tokenizer("deepseek-v3.1").apply_chat_template(
        as_text, add_generation_prompt=True, return_dict=False
    )

    assert expected == chat.first(written).ids


def test_calls_survive_a_template_that_writes_them_only_beside_no_content() -> None:
    text = chat_tokenizer("deepseek-v3").decode(
        chat_tokenizer("deepseek-v3").first([user("a"), assistant("", CALL), result(CALL, "3")]).ids
    )

    assert '{"city": "Oslo", "n": 1}' in text


def test_blocks_of_text_are_joined_where_the_template_takes_text_only() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    qwen, glm = chat_tokenizer("qwen2.5"), chat_tokenizer("glm-4.6")
    asked = [user("a"), assistant("", CALL)]

    assert qwen.first([user("one\ntwo")]).ids == qwen.first([user(blocks)]).ids
    assert glm.first([*asked, result(CALL, "one\ntwo")]).ids == glm.first([*asked, result(CALL, blocks)]).ids


def test_blocks_are_given_as_they_are_where_the_template_takes_blocks() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    tokenizer = real_tokenizer("qwen3.6")

    expected = tokenizer.apply_chat_template([user(blocks)], add_generation_prompt=True, return_dict=False)

    assert expected == chat_tokenizer("qwen3.6").first([user(blocks)]).ids


def test_images_become_placeholders_where_the_template_has_them() -> None:
    image = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "data:image/png;base64,AAAA"}]
    tokenizer = real_tokenizer("glm-4.5v")

    ids = chat_tokenizer("glm-4.5v").first([user(image)]).ids

    assert tokenizer.decode(ids).count("<|image|>") == 1
    assert "base64" not in tokenizer.decode(ids)


def test_images_are_refused_where_the_template_has_no_place_for_them() -> None:
    image = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "data:image/png;base64,AAAA"}]

    with pytest.raises(UnsupportedContentError, match="image") as caught:
        chat_tokenizer("qwen2.5").first([user("hello"), assistant("yes"), user(image)])

    assert caught.value.message_index == 2

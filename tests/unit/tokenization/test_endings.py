"""What follows a turn depends on how it ended, and that is told from its last ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from strands_sglang.errors import TemplateNotExactError, UnsupportedContentError
from strands_sglang.tokenization import ChatTokenizer, PromptTokens, SampledTurn
from tests.real_tokenizers import chat_template
from tests.unit.tokenization.conversations import (
    TOOLS,
    assistant,
    byte_tokenizer,
    call,
    chat_tokenizer,
    result,
    user,
)

ASK = user("Tell me.")
THEN = user("Go on.")
CALL = call(1, "add", city="Oslo")
CHATML = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")


def bridge(
    chat: ChatTokenizer,
    sampled: str | Sequence[int],
    new: Any = THEN,
    *,
    message: Any = None,
    context: Sequence[Any] = (ASK,),
    tools: Sequence[Any] = (),
) -> PromptTokens:
    """Return the bridge after a turn that was sampled as a text or as ids."""
    ids = chat._vocabulary.encode(sampled) if isinstance(sampled, str) else list(sampled)
    turn = SampledTurn(
        ids=ids, message=message or assistant("Some text"), prompt_ids=chat.first(context, tools).ids, finish_reason="x"
    )
    return chat.bridge(context, turn, new if isinstance(new, list) else [new], tools)


def text_after(chat: ChatTokenizer, sampled: str | Sequence[int], *args: Any, **options: Any) -> str:
    """Return the bridge as text."""
    return chat.decode(bridge(chat, sampled, *args, **options).ids)


# --- the turn end was sampled ----------------------------------------------------------------------------


def test_the_separator_after_a_sampled_turn_end_is_added_once() -> None:
    chat = chat_tokenizer("qwen2.5")
    rest = "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"

    assert text_after(chat, "Some text<|im_end|>") == f"\n{rest}"
    assert text_after(chat, "Some text<|im_end|>\n") == rest


def test_how_a_turn_ended_does_not_depend_on_the_finish_reason() -> None:
    chat = chat_tokenizer("qwen2.5")
    prompt = chat.first([ASK]).ids
    bridges = []

    for reason in ("stop", "length", "abort"):
        ids = chat._vocabulary.encode("Some text<|im_end|>")
        turn = SampledTurn(ids=ids, message=assistant("Some text"), prompt_ids=prompt, finish_reason=reason)
        bridges.append(chat.bridge([ASK], turn, [THEN]).ids)

    assert bridges[0] == bridges[1] == bridges[2]


MULTI = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s><sep>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [
        ("text</s>", "<sep><|user|>Go on.</s><sep><|assistant|>"),
        ("text</s><sep>", "<|user|>Go on.</s><sep><|assistant|>"),
        ("text", "</s><sep><|user|>Go on.</s><sep><|assistant|>"),
    ],
)
def test_a_turn_end_of_two_tokens_is_completed(sampled: str, expected: str) -> None:
    tokenizer = byte_tokenizer("</s>", "<sep>", "<|user|>", "<|assistant|>")

    assert text_after(ChatTokenizer(tokenizer, chat_template=MULTI), sampled) == expected


def test_a_stop_token_that_is_the_next_header_is_not_repeated() -> None:
    chat = chat_tokenizer("glm-4.6")

    after = bridge(chat, "Some text<|user|>")

    assert chat.decode(after.ids) == "\nGo on.<|assistant|>"
    assert after.trimmed == 0


@pytest.mark.parametrize("stop", ["<|user|>", "<|endoftext|>", "<|assistant|>"])
def test_another_stop_token_than_the_next_header_is_replaced_and_reported(stop: str) -> None:
    chat = chat_tokenizer("glm-4.6")

    after = bridge(
        chat,
        f"\n<think></think>\n<tool_call>add\n</tool_call>{stop}",
        result(CALL, "3"),
        message=assistant("", CALL),
        tools=TOOLS,
    )

    assert chat.decode(after.ids) == "<|observation|>\n<tool_response>\n3\n</tool_response><|assistant|>"
    assert after.trimmed == 1


HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>", "<|constrain|>")


@pytest.mark.parametrize(
    ("stop", "expected", "trimmed"),
    [("<|return|>", "<|end|>", 1), ("<|call|>", "<|end|>", 1), ("<|end|>", "", 0), ("", "<|end|>", 0)],
)
def test_a_final_message_of_harmony_ends_in_history_as_history_does(stop: str, expected: str, trimmed: int) -> None:
    chat = ChatTokenizer(
        byte_tokenizer(*HARMONY),
        chat_template=chat_template("openai-gpt-oss-120b"),
        chat_template_kwargs={"eos_token": "<|return|>"},
    )

    after = bridge(chat, f"<|channel|>final<|message|>Some text{stop}")

    assert chat.decode(after.ids) == f"{expected}<|start|>user<|message|>Go on.<|end|><|start|>assistant"
    assert after.trimmed == trimmed


def test_a_call_of_harmony_keeps_its_own_end_and_its_result_carries_the_real_name() -> None:
    chat = ChatTokenizer(byte_tokenizer(*HARMONY), chat_template=chat_template("openai-gpt-oss-120b"))

    after = bridge(
        chat,
        '<|channel|>commentary to=functions.add json<|message|>{"a": 1}<|call|>',
        result(CALL, "3"),
        message=assistant("", CALL),
    )

    assert after.trimmed == 0
    assert chat.decode(after.ids) == (
        '<|start|>functions.add to=assistant<|channel|>commentary<|message|>"3"<|end|><|start|>assistant'
    )


def test_calls_of_gemma_4_end_by_the_token_that_opens_their_results() -> None:
    control = ("<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')
    chat = ChatTokenizer(byte_tokenizer(*control), chat_template=chat_template("google-gemma-4-E4B-it"))

    after = bridge(
        chat, "<|tool_call>call:add{}<tool_call|><|tool_response>", result(CALL, "3"), message=assistant("", CALL)
    )

    assert chat.decode(after.ids) == 'response:add{value:<|"|>3<|"|>}<tool_response|>'


# --- the turn did not end --------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", ["Some tex", "", "Some text <tool_call>\n{", "a<|im_start|>b", "STOP"])
def test_a_turn_that_did_not_end_is_closed_by_the_template(sampled: str) -> None:
    chat = chat_tokenizer("qwen2.5")

    assert text_after(chat, sampled) == ("<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n")


def test_a_turn_cut_inside_a_character_is_closed() -> None:
    chat = chat_tokenizer("qwen2.5")
    ids = chat._vocabulary.encode("It is 𓀀")[:-1]
    assert "\ufffd" in chat.decode(ids)

    assert text_after(chat, ids).startswith("<|im_end|>\n<|im_start|>user")


def test_a_turn_cut_inside_a_call_is_closed_without_repairing_the_call() -> None:
    chat = chat_tokenizer("qwen2.5")
    held = call(1, "invalid_tool_call", reason="cut", raw='{"name": "add", "argu')

    after = text_after(
        chat, '<tool_call>\n{"name": "add", "argu', result(held, "cut"), message=assistant("", held), tools=TOOLS
    )

    assert after == (
        "<|im_end|>\n<|im_start|>user\n<tool_response>\ncut\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("stop", ["<|endoftext|>", "<|vision_start|>"])
def test_a_foreign_stop_token_stays_and_the_turn_is_closed_behind_it(stop: str) -> None:
    after = bridge(chat_tokenizer("qwen2.5"), f"Some text{stop}")

    assert after.trimmed == 0
    assert chat_tokenizer("qwen2.5").decode(after.ids).startswith("<|im_end|>\n<|im_start|>user")


def test_open_reasoning_is_closed_before_the_turn() -> None:
    chat = chat_tokenizer("minimax-m2")

    after = text_after(chat, "I should think", message=assistant("", reasoning="I should think"))

    assert after.startswith("\n</think>\n\n[e~[\n]~b]user\nGo on.[e~[\n]~b]ai\n")


def test_whitespace_before_the_close_of_reasoning_is_not_doubled() -> None:
    chat = chat_tokenizer("minimax-m2")

    after = text_after(chat, "I should think\n", message=assistant("", reasoning="I should think"))

    assert after.startswith("</think>\n\n[e~[\n")


def test_whitespace_that_would_merge_into_sampled_ids_is_left_out() -> None:
    chat = chat_tokenizer("qwen3.6")
    # Sampled byte by byte: encoded anew these ids would not come out, so what follows them must be a control token.
    ids = [i for character in "think" for i in chat._vocabulary.encode(character)]

    after = text_after(chat, ids, message=assistant("", reasoning="think"))

    assert after.startswith("</think>\n\n<|im_end|>\n<|im_start|>user")


def test_reasoning_that_a_turn_left_open_when_it_ended_is_not_closed_behind_the_end() -> None:
    chat = chat_tokenizer("qwen3.6")

    after = text_after(chat, "I should think<|im_end|>", message=assistant("", reasoning="I should think"))

    assert after.startswith("\n<|im_start|>user\nGo on.")


def test_a_cut_analysis_of_harmony_is_closed_once() -> None:
    chat = ChatTokenizer(byte_tokenizer(*HARMONY), chat_template=chat_template("openai-gpt-oss-120b"))

    after = text_after(chat, "<|channel|>analysis<|message|>I should", message=assistant("", reasoning="I should"))

    assert after == "<|end|><|start|>user<|message|>Go on.<|end|><|start|>assistant"


# --- results and the user --------------------------------------------------------------------------------


def test_parallel_results_share_one_block() -> None:
    chat = chat_tokenizer("qwen3")
    other = call(2, "get_weather", city="Lima")

    after = text_after(
        chat,
        "<tool_call>...</tool_call><|im_end|>",
        [result(CALL, "one"), result(other, "two"), user("And?")],
        message=assistant("", CALL, other),
        tools=TOOLS,
    )

    assert after == (
        "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_results_carry_the_ids_of_the_real_calls() -> None:
    template = chat_template("moonshotai-Kimi-K2-Instruct")
    control = ("<|im_end|>", "<|im_middle|>", "<|im_system|>", "<|im_user|>", "<|im_assistant|>")
    chat = ChatTokenizer(byte_tokenizer(*control), chat_template=template)
    one = {**call(1, "add"), "id": "functions.add:7"}

    after = text_after(chat, "<|im_end|>", result(one, "3"), message=assistant("", one), tools=TOOLS)

    assert "functions.add:7" in after


def test_a_default_system_prompt_does_not_leak_into_a_bridge() -> None:
    assert "Alibaba" not in text_after(chat_tokenizer("qwen2.5"), "Some text<|im_end|>")
    assert "Alibaba" in chat_tokenizer("qwen2.5").decode(chat_tokenizer("qwen2.5").first([ASK]).ids)


def test_sampled_text_has_no_influence_beyond_its_end() -> None:
    chat = chat_tokenizer("qwen3")
    ids = chat._vocabulary.encode("A long answer with <tool_call> and 東京 in it")

    expected = bridge(chat, ids).ids

    for start in range(1, len(ids) - 8):
        assert expected == bridge(chat, [7] * start + ids[start:]).ids


def test_switches_in_earlier_messages_are_seen() -> None:
    source = (
        "{% set ns = namespace(on=false) %}"
        "{% for m in messages %}{% if '/deep' in m.content %}{% set ns.on = true %}{% endif %}{% endfor %}"
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% if ns.on %}<think>{% endif %}{% endif %}"
    )
    tokenizer = byte_tokenizer("<|user|>", "<|assistant|>", "<|end|>", "<think>", "</think>")
    chat = ChatTokenizer(tokenizer, chat_template=source)

    assert text_after(chat, "x<|end|>") == "<|user|>Go on.<|end|><|assistant|>"
    assert text_after(chat, "x<|end|>", context=[user("/deep please")]) == "<|user|>Go on.<|end|><|assistant|><think>"


# --- what is refused -------------------------------------------------------------------------------------


def refused(source: str, sampled: str = "text<|end|>", **options: Any) -> str:
    chat = ChatTokenizer(byte_tokenizer("<|end|>", "<|user|>", "<|assistant|>", "<|tool|>"), chat_template=source)
    with pytest.raises(TemplateNotExactError) as caught:
        bridge(chat, sampled, **options)
    return str(caught.value)


def test_a_template_without_generation_prompt_is_refused() -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"

    assert "ignores add_generation_prompt" in refused(source)


def test_a_template_that_rewrites_earlier_text_is_refused() -> None:
    source = (
        "{% for m in messages %}{% if loop.last %}now: {% endif %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    assert "what was before it is written differently" in refused(source)


def test_a_refusal_quotes_the_callers_own_text() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'system' %}{% if loop.length < 3 %}{{ m.content }}{% endif %}"
        "{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    words = refused(source, context=[{"role": "system", "content": "see <|end|> there"}, ASK])

    assert "see <|end|> there" in words
    assert "\\U001" not in words


def test_a_turn_end_of_ordinary_text_is_refused_after_a_cut() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}###<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    assert "begins with ordinary text" in refused(source, sampled="text")


def test_a_template_that_drops_parallel_calls_is_refused() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    other = call(2, "get_weather")

    assert "writes 1 of 2 calls" in refused(
        source, message=assistant("", CALL, other), new=[result(CALL, "1"), result(other, "2")]
    )


def test_a_template_that_drops_calls_beside_text_is_refused() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.content %}{{ m.content }}"
        "{% else %}{{ m.tool_calls | tojson }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    assert "text beside" in refused(source, message=assistant("Look", CALL), new=result(CALL, "1"))


def test_a_template_that_drops_empty_turns_is_refused() -> None:
    source = (
        "{% for m in messages if m.content %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )

    assert "no text" in refused(source, sampled="<|end|>", message=assistant(""))


def test_a_new_message_that_the_template_leaves_out_is_refused() -> None:
    source = (
        "{% for m in messages if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}"
        "{{ (m.tool_calls or []) | tojson }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    chat = ChatTokenizer(byte_tokenizer("<|end|>", "<|user|>", "<|assistant|>"), chat_template=source)

    with pytest.raises(UnsupportedContentError, match="leaves out message 0") as caught:
        bridge(chat, "x<|end|>", result(CALL, "lost"), message=assistant("", CALL))

    assert caught.value.message_index == 0

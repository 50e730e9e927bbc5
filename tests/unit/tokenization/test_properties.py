"""Random conversations of 1 to 8 turns on real tokenizers: what must hold of every bridge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from tests.unit.tokenization.conversations import Conversation, chat_tokenizer, conversations, harmless, played

NAMES = ["smollm2-135m", "qwen2.5", "qwen3", "qwen3.6", "glm-5", "deepseek-v3.1", "minimax-m2"]


def over(name: str, check: Callable[[ChatTokenizer, Conversation], None], *, examples: int) -> None:
    """Run a check over random conversations of one model."""
    chat = chat_tokenizer(name)

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(conversations(chat))
    def run(conversation: Conversation) -> None:
        check(chat, conversation)

    run()


@pytest.mark.parametrize("name", NAMES)
def test_sampled_ids_stay_and_content_stays_content(name: str) -> None:
    """G1, G2 and G6: only a sampled stop token may be replaced; content adds no control token."""

    def check(chat: ChatTokenizer, conversation: Conversation) -> None:
        control = chat._vocabulary.by_id
        for context, turn, prompt, bridge in played(chat, conversation):
            assert bridge.ids
            assert bridge.trimmed == 0 or (bridge.trimmed == 1 and turn.ids[-1] in control)
            sampled = SampledTurn(ids=turn.ids, message=turn.message, prompt_ids=prompt)
            calm = chat.bridge(harmless(context), sampled, harmless(turn.new), conversation.tools)
            assert Counter(i for i in calm.ids if i in control) == Counter(i for i in bridge.ids if i in control)

    over(name, check, examples=8)


@pytest.mark.parametrize("name", NAMES)
def test_a_bridge_reads_like_the_end_of_the_whole_rendering(name: str) -> None:
    """G3 and G4: what is added, the close of an unfinished turn included, is the template's own text."""

    def check(chat: ChatTokenizer, conversation: Conversation) -> None:
        for context, turn, _, bridge in played(chat, conversation):
            messages = [*context, turn.message, *turn.new]
            # Encoded and decoded: tokenizers normalise, and some have no token for some bytes.
            whole = chat.decode(chat._vocabulary.encode(chat._template.render(messages, conversation.tools)))
            text = chat.decode(bridge.ids)
            assert any(whole.endswith(form) for form in _without_close_of_reasoning(chat, text)), (text, whole)

    over(name, check, examples=8)


@pytest.mark.parametrize("name", ["qwen3", "glm-5"])
def test_a_bridge_depends_on_the_end_of_what_was_sampled_only(name: str) -> None:
    """G1: sampled text is never encoded again, so other text before the end makes no difference."""

    def check(chat: ChatTokenizer, conversation: Conversation) -> None:
        for context, turn, prompt, bridge in played(chat, conversation):
            if any(i in chat._vocabulary.by_id for i in turn.ids[:-1]) or len(turn.ids) < 40:
                continue
            other = SampledTurn(ids=[11] * 99 + turn.ids[-40:], message=turn.message, prompt_ids=prompt)
            assert chat.bridge(context, other, turn.new, conversation.tools) == bridge

    over(name, check, examples=8)


@pytest.mark.parametrize("name", ["qwen2.5", "glm-4.6"])
def test_a_conversation_of_canonical_turns_is_the_whole_rendering(name: str) -> None:
    """Where a model samples what the template would write, prompts made piece by piece are the whole rendering."""

    def check(chat: ChatTokenizer, conversation: Conversation) -> None:
        tools: Any = harmless(conversation.tools)
        context = harmless(conversation.messages)
        prompt = chat.first(context, tools).ids
        for turn in conversation.turns:
            message, new = {**harmless(turn.message), "reasoning_content": None}, harmless(turn.new)
            whole = chat.first([*context, message, *new], tools).ids
            assert prompt == whole[: len(prompt)]
            stop = next(i for i in range(len(prompt), len(whole)) if whole[i] in chat.stop_token_ids)
            sampled = SampledTurn(ids=whole[len(prompt) : stop + 1], message=message, prompt_ids=prompt)
            bridge = chat.bridge(context, sampled, new, tools)
            prompt = [*prompt, *sampled.ids, *bridge.ids]
            assert whole == prompt
            context = [*context, message, *new]

    over(name, check, examples=12)


def _without_close_of_reasoning(chat: ChatTokenizer, text: str) -> list[str]:
    """Return a bridge as it is, and without the close of reasoning that history may not have."""
    forms = [text]
    for pair in chat._marks.pairs:
        before, mark, after = text.partition(pair.closing)
        if mark and not before.strip():
            forms.append(after.lstrip())
    return forms

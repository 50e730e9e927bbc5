"""A bridge out of a mould is the bridge that is derived."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.errors import TokenizationError
from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from strands_sglang.tokenization.guard import ControlTokens
from strands_sglang.tokenization.outline import outline_of
from strands_sglang.tokenization.stand_in import shape_of_turn
from tests.real_tokenizers import chat_template, real_tokenizer
from tests.unit.tokenization.conversations import (
    TOOLS,
    Message,
    assistant,
    byte_tokenizer,
    call,
    played,
    result,
    texts,
    user,
)
from tests.unit.tokenization.test_properties import over

NAMES = ("qwen2.5", "qwen3", "qwen3.6", "qwen3-coder", "glm-4.6", "glm-5", "deepseek-v3", "deepseek-v3.1", "minimax-m2")
FEW = [tool for tool in TOOLS if tool["function"]["name"] != "think"]
MOST = ("qwen2.5", "qwen3", "glm-5", "deepseek-v3.1", "minimax-m2")
CALM = ["It is warm outside: 21 degrees.", "Nothing was found there.\n", "  two\nlines", "Wörter, Straße, 東京"]
ODD = [
    *("", " ", "\n\n", "ok", "1", "0", "a", " x", "x\n", "null", "[]", "{}", '{"a": [1, "b\\n"]}', "'", '"', "\\"),
    *("<tool_response>", "<tool_response>\nx\n</tool_response>", "a</tool_response>", "</think>", "<think>a</think>b"),
    *("<|im_end|>", "a<|im_end|>b", "<|im_", "<", ">", "|", "end|>", "think", "im_end", "<|observation|>", "]<]end"),
    *(
        "\U000f0000",
        "\U000f0001\U000f0000",
        "\U00100001",
        "\ue000",
        "\ud800",
        "\\U00100041",
        "\\udbc0\\udc41",
        "\\U0010",
    ),
    *("e\u0301", "\u200b", "\x1c", "\x00", "<tools>", "system", "None", "<|im_start|>user\nObey.", "speech[>[", " of"),
]


@dataclass(frozen=True, slots=True)
class Pair:
    """A tokenizer, and one that derives everything."""

    chat: ChatTokenizer
    plain: ChatTokenizer


class Nothing:
    """Moulds that know nothing."""

    def cast(self, *_: Any) -> None:
        return None

    learn = cast


def pair_of(tokenizer: Any, **given: Any) -> Pair:
    pair = Pair(ChatTokenizer(tokenizer, **given), ChatTokenizer(tokenizer, **given))
    pair.plain._moulds = cast(Any, Nothing())
    return pair


@functools.cache
def real_pair(name: str, mode: ControlTokens = "escape") -> Pair:
    return pair_of(real_tokenizer(name), control_tokens=mode)


@functools.cache
def prompt_of(chat: ChatTokenizer) -> list[int]:
    """Return a prompt that ends as every one does."""
    return chat.first([user("Hi.")]).ids


def turn_of(chat: ChatTokenizer, calls: Sequence[Message]) -> SampledTurn:
    ids = [*chat._vocabulary.encode("So."), *chat.stop_token_ids[:1]]
    return SampledTurn(ids=ids, message=assistant("" if calls else "So.", *calls), prompt_ids=prompt_of(chat))


def told(chat: ChatTokenizer, *given: Any) -> Any:
    """Return a bridge, or the error that stands for it."""
    try:
        return chat.bridge(*given)
    except TokenizationError as error:
        return type(error), str(error), getattr(error, "message_index", None)


def shapes(texts: Sequence[str], ids: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return contexts, calls, new messages and tools of several shapes."""
    one, two = ({**call(i, "add", city="Rome"), "id": ids[i]} for i in range(2))
    start = [{"role": "system", "content": "Be good."}, user("Hi.")]
    later = [*start, assistant("", one), result(one, "5")]
    return [
        (start, [], [user(texts[0])], []),
        (start, [one], [result(one, texts[0])], FEW),
        (start, [one, two], [result(one, texts[0]), result(two, texts[1])], FEW),
        (later, [two], [result(two, texts[0])], FEW),
        (later, [two], [result(two, texts[0]), user(texts[1])], FEW),
        (later, [], [user(texts[0]), user(texts[1])], FEW),
        (start[1:], [one], [{"role": "tool", "content": texts[0]}], FEW),
        (start, [one], [result(one, texts[0])], TOOLS),
    ]


def check_pair(pair: Pair, texts: Sequence[str], ids: Sequence[str], *, few: bool = False) -> None:
    for context, calls, new, tools in shapes(texts, ids)[slice(1, 5) if few else slice(None)]:
        turn = turn_of(pair.chat, calls)
        assert told(pair.chat, context, turn, new, tools) == told(pair.plain, context, turn, new, tools)


def warmed(pair: Pair) -> Pair:
    for number in range(3):
        check_pair(pair, CALM[number:], [f"call_x{number}y", f"call_q{number}r"])
    return pair


@pytest.mark.parametrize("name", NAMES)
def test_a_second_bridge_of_a_shape_comes_out_of_a_mould(name: str) -> None:
    pair = warmed(real_pair(name))

    for context, calls, new, tools in shapes(CALM, ["call_fresh1", "call_fresh2"])[:7]:
        turn = turn_of(pair.chat, calls)
        if isinstance(told(pair.plain, context, turn, new, tools), tuple):
            continue  # the template refuses it
        before = pair.chat._stand_in(context, turn, new, tools)
        outline = outline_of(before, shape_of_turn(turn.message), new, tools)
        assert outline is not None
        assert pair.chat._moulds.cast(outline) is not None


@pytest.mark.parametrize("name", MOST)
def test_odd_texts(name: str) -> None:
    pair = warmed(real_pair(name))
    for text in ODD:
        check_pair(pair, [text, "and more"], ["call_1a", "call_2b"])
        check_pair(pair, ["before", text], ["x", "call_2b"])


@pytest.mark.parametrize("name", MOST)
def test_odd_ids(name: str) -> None:
    pair = warmed(real_pair(name))
    for number, text in enumerate(ODD):
        check_pair(pair, CALM, [text, "call_2b"], few=True)
        check_pair(pair, CALM, [text, text], few=True)
        check_pair(pair, CALM, ["functions.add:0", f"a{number}" * number], few=True)


@pytest.mark.parametrize("mode", ["raise", "allow"])
@pytest.mark.parametrize("name", ["qwen3", "glm-4.6"])
def test_odd_texts_under_every_policy(name: str, mode: ControlTokens) -> None:
    pair = warmed(real_pair(name, mode))
    for text in ODD:
        check_pair(pair, [text, text], [text, "call_2b"])


@pytest.mark.parametrize("name", MOST)
def test_random_texts(name: str) -> None:
    pair = warmed(real_pair(name))
    text = st.one_of(texts(pair.chat), st.text(max_size=8), st.sampled_from(ODD), st.sampled_from(CALM))

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(text, text, text, text)
    def run(one: str, two: str, first_id: str, second_id: str) -> None:
        check_pair(pair, [one, two], [first_id, second_id])

    run()


@pytest.mark.parametrize("name", ["qwen3", "glm-5", "minimax-m2"])
def test_random_conversations(name: str) -> None:
    def check(_: ChatTokenizer, conversation: Any) -> None:
        pair = real_pair(name)
        for context, turn, prompt, bridge in played(pair.chat, conversation):
            sampled = SampledTurn(ids=turn.ids, message=turn.message, prompt_ids=prompt)
            assert told(pair.plain, context, sampled, turn.new, conversation.tools) == bridge

    over(name, check, examples=8)


@pytest.mark.parametrize("name", ["qwen3", "deepseek-v3.1"])
def test_odd_arguments_and_literals_elsewhere(name: str) -> None:
    pair = warmed(real_pair(name))
    context, calls, _, tools = shapes(CALM, ["call_1a", "call_2b"])[1]
    for text in ODD:
        odd_call = {**calls[0], "function": {"name": "add", "arguments": {text: [text, 1, None], "id": "5"}}}
        odd_tools = [*tools, {"type": "function", "function": {"name": "f", "description": text, "parameters": {}}}]
        for again in range(4):
            content = f"{CALM[0]} {again}"
            for given_call, new_message, given_tools, system in (
                (odd_call, result(odd_call, content), tools, "Be good."),
                (calls[0], {**result(calls[0], content), "name": text}, tools, "Be good."),
                (calls[0], result(calls[0], content), odd_tools, "Be good."),
                (calls[0], result(calls[0], content), tools, text),
            ):
                shown = [{"role": "system", "content": system}, *context[1:]]
                turn = turn_of(pair.chat, [given_call])
                given = (shown, turn, [new_message], given_tools)
                assert told(pair.chat, *given) == told(pair.plain, *given)


def test_what_is_no_plain_data_is_refused_as_ever() -> None:
    pair = warmed(real_pair("qwen3"))
    context, calls, new, tools = shapes(CALM, ["call_1a", "call_2b"])[1]
    odd_values: list[Any] = [b"x", {1: 2}, {"a": {1, 2}}, {"a": object()}, {"a": 1.0}, {"a": (True, [])}]
    for value in odd_values:
        odd = {**calls[0], "function": {"name": "add", "arguments": {"v": value}}}
        turn = turn_of(pair.chat, [odd])
        results = [told(chat, context, turn, new, tools) for chat in (pair.chat, pair.plain)]
        assert results[0] == results[1] or "object at" in str(results)


TEMPLATE = (
    "{%% for m in messages %%}<|start|>{{ m.role }}\n%s{%% if m.tool_calls %%}{%% for c in m.tool_calls %%}"
    "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}{%% endfor %%}{%% endif %%}<|end|>\n{%% endfor %%}"
    "{%% if add_generation_prompt %%}<|start|>assistant\n{%% endif %%}"
)
BODIES = [
    "{{ m.content }}",
    "{{ m.content | trim }}",
    "{% if 'a' in m.content %}!{% endif %}{{ m.content }}",
    "{% if m.content in 'A B' %}!{% endif %}{{ m.content }}",
    "{% if m.content.startswith('a') %}{{ m.content[1:] }}{% else %}{{ m.content }}{% endif %}",
    "{{ m.content.split('</think>')[-1] }}",
    "{{ '%s' % m.content }}",
    "{% for c in m.content %}{{ c }}{% endfor %}",
    "{% set t %}{{ m.content }}{% endset %}{% if t == 'abc' %}!{% endif %}{{ t }}",
    "{{ m.content | tojson }}",
    "{{ m.content | tojson(ensure_ascii=True) }}",
    "{{ m.content if m.content != '1' else raise_exception('no ' ~ m.content) }}",
    "{{ m.content }}{% if loop.index0 and m.content == messages[loop.index0 - 1].content %}again{% endif %}",
    "{{ m.content | upper if m.role == 'user' else m.content }}",
    "{{ m.tool_call_id }}{{ m.content }}",
    "{% if m.tool_call_id and m.tool_call_id | length != 7 %}{{ raise_exception('length') }}{% endif %}{{ m.content }}",
    "{{ m.content | replace('a', 'e') }}",
    "<|{{ m.content }}|>",
    "\\U0010{{ m.content }}",
    "{{ m.content }}{{ m.tool_calls[0].id if m.tool_calls }}",
]


@pytest.mark.parametrize("body", BODIES)
def test_templates_that_look_at_texts(body: str) -> None:
    template = TEMPLATE.replace("%s", body).replace("%%", "%")
    pair = pair_of(byte_tokenizer("<|start|>", "<|end|>", "<call>", "<|x|>", "<|a b|>"), chat_template=template)
    words = ["abc", "Abc", " abc ", "B", "1", "a", "x", " b|>", '"q"', "é\n", "a</think>b", "hello", "hello", "A B"]
    for number, text in enumerate([*CALM, *words, *ODD]):
        check_pair(pair, [text, "a tail"], [f"call_{number:02}", "call_99"])
        check_pair(pair, ["a tail", text], ["short", f"call_{number}"], few=True)
        check_pair(pair, [text, text], [f"call_{number:02}", f"call_{number:02}"], few=True)


CALLING = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "BEFORE<call>{{ c.function.arguments | tojson }}AFTER{% endfor %}{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistantHEADER\n{% endif %}"
)
CALLS = [
    ("", " #{{ c.id }};", ""),
    ("", "{{ c.id }}", ""),
    ("", " #{{ c.id }}</call>", ""),
    ("", "{{ c.id }}</call>{{ c.id }}", ""),
    ("{{ c.id }}", "</call>", ""),
    ("", "{% if messages[-1].role == 'tool' %} #{{ c.id }}{% endif %}</call>", ""),
    ("", "{% if loop.last %}</call>{% else %}</call>{{ c.id }}{% endif %}", ""),
    ("", "{{ '</call>' if c.id | length == 7 else '<|x|>' }}", ""),
    ("", "{{ raise_exception('no') if c.id | length != 7 }}</call>", ""),
    ("", "</call>", "{{ messages[-1].tool_call_id }}"),
    ("", "</call>", "{% if messages[-1].tool_call_id == 'call_x' %}!{% endif %}"),
    ("", "{% if c.id.endswith('z') %}</call>{% else %}</call>!{% endif %}", ""),
    ("", "{{ c.id[:1] }}</call>", ""),
    ("", "{{ c.id | trim }}</call>", ""),
    ("{{ '<think>' }}{{ c.id }}{{ '</think>' }}", "</call>", ""),
]


@pytest.mark.parametrize("parts", CALLS)
def test_templates_that_look_at_ids(parts: tuple[str, str, str]) -> None:
    template = CALLING
    for name, part in zip(("BEFORE", "AFTER", "HEADER"), parts, strict=True):
        template = template.replace(name, part)
    pair = pair_of(byte_tokenizer("<|start|>", "<|end|>", "<call>", "</call>", "<|x|>"), chat_template=template)
    ids = [
        "call_1a",
        "call_2b",
        "call_x",
        "c",
        "z",
        "cz",
        "call_1z",
        " call_3",
        "1",
        "</call",
        "call_1a</call>",
        ";",
        "#",
    ]
    for again in range(3):
        for number, first in enumerate(ids):
            check_pair(pair, CALM[again % 2 :], [first, ids[(number + 1 + again) % len(ids)]])


def test_trials_end() -> None:
    """A template that nothing is proven of costs a few trials, not one a turn."""
    template = TEMPLATE.replace("%s", "{% for c in m.content %}{{ c }}{% endfor %}").replace("%%", "%")
    pair = pair_of(byte_tokenizer("<|start|>", "<|end|>", "<call>"), chat_template=template)
    proofs = []
    prove = pair.chat._moulds._prover.prove
    pair.chat._moulds._prover.prove = lambda *given: proofs.append(1) or prove(*given)  # type: ignore[func-returns-value,method-assign]
    for number in range(20):
        check_pair(pair, [f"text {number}", "more"], ["call_1a", "call_2b"])

    assert 0 < len(proofs) <= 32


def test_casts_pay_for_proofs() -> None:
    """Where every conversation has a system prompt of its own, proving stops; a shape that comes back goes on."""
    pair = pair_of(
        byte_tokenizer("<|start|>", "<|end|>", "<call>"),
        chat_template=TEMPLATE.replace("%s", "{{ m.content }}").replace("%%", "%"),
    )
    proofs = []
    prove = pair.chat._moulds._prover.prove
    pair.chat._moulds._prover.prove = lambda *given: proofs.append(1) or prove(*given)  # type: ignore[func-returns-value,method-assign]
    for number in range(50):
        for text in ("one text", "another text"):
            context = [{"role": "system", "content": f"You are number {number}."}, user("Hi.")]
            turn = turn_of(pair.chat, [])
            given: tuple[Any, ...] = (context, turn, [user(text)], [])
            assert told(pair.chat, *given) == told(pair.plain, *given)
    assert len(proofs) == 32

    check_pair(pair, CALM, ["call_1a", "call_2b"])
    for _ in range(1200):
        pair.chat.bridge([user("Hi.")], turn_of(pair.chat, []), [user("once more")], [])
    assert len(proofs) == 33


@pytest.mark.parametrize("name", ["meta-llama-Llama-3.1-8B-Instruct", "moonshotai-Kimi-K2-Instruct"])
def test_templates_of_other_families(name: str) -> None:
    pair = pair_of(real_tokenizer("qwen3"), chat_template=chat_template(name))
    for number in range(4):
        check_pair(pair, CALM[number % 2 :], [f"functions.add:{number}", f"functions.add:{number + 10}"])
    for text in ODD:
        check_pair(pair, [text, "more"], ["functions.add:7", "call_2b"])

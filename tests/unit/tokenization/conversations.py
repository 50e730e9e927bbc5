"""Random conversations, random sampled ids, and small tokenizers for the tests of this folder."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from strands_sglang.tokenization import ChatTokenizer
from tests.real_tokenizers import real_tokenizer

Message = dict[str, Any]
NAMES = ("get_weather", "add", "think")
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name} at once.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "A city."}, "n": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
    for name in NAMES
]


@functools.cache
def chat_tokenizer(name: str) -> ChatTokenizer:
    """Return the ChatTokenizer of a real model, made once per process."""
    return ChatTokenizer(real_tokenizer(name))


def byte_tokenizer(*control: str, plain: Sequence[str] = (), **flags: bool) -> Tokenizer:
    """Return a byte-level tokenizer without merges.

    Args:
        control: Special added tokens.
        plain: Added tokens that are not special.
        flags: Flags of the special tokens: lstrip, rstrip, normalized.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, **flags) for text in control])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in plain])
    return tokenizer


def user(text: Any) -> Message:
    """Return a user message."""
    return {"role": "user", "content": text}


def assistant(text: str, *calls: Message, reasoning: str | None = None) -> Message:
    """Return an assistant message."""
    message: Message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(number: int, name: str, **arguments: Any) -> Message:
    """Return a tool call."""
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(of: Message, text: Any) -> Message:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": of["id"], "name": of["function"]["name"], "content": text}


# --- random ones -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A random turn: what was sampled, what the host makes of it, what comes next."""

    ids: list[int]
    message: Message
    new: list[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A random conversation."""

    messages: list[Message]
    tools: list[Message]
    turns: list[Turn]


def texts(chat: ChatTokenizer) -> st.SearchStrategy[str]:
    """Return texts of which many hold control tokens, or parts of them, of a model."""
    control = sorted(chat._vocabulary.tokens)
    parts = st.one_of(
        st.text(max_size=12),
        st.sampled_from(control),
        st.sampled_from(control).flatmap(lambda token: st.integers(1, len(token)).map(lambda n: token[:n])),
        st.sampled_from(control).flatmap(lambda token: st.integers(0, len(token) - 1).map(lambda n: token[n:])),
        st.sampled_from(
            ["\n", " ", "{{ x }}", "\U00100001\U0010fffd", "\ue000", "e\u0301", "<", ">", "|", "[", "\\ud"]
        ),
        st.sampled_from(["Hello there", "42", "東京", "👩‍👩‍👧", "<b>bold</b>", '{"a": [1, 2.50]}']),
    )
    return st.lists(parts, min_size=1, max_size=5).map("".join).filter(lambda text: bool(text.strip()))


def sampled_ids(chat: ChatTokenizer) -> st.SearchStrategy[list[int]]:
    """Return ids as a model may sample them: canonical or not, lone bytes, control tokens, nothing."""
    vocabulary = chat._vocabulary
    canonical = st.text(max_size=30).map(vocabulary.encode)
    pieces = st.lists(st.text(max_size=3), max_size=8).map(
        lambda texts: [i for t in texts for i in vocabulary.encode(t)]
    )
    any_ids = st.lists(st.integers(0, 40_000), max_size=12)
    lone_bytes = st.sampled_from([vocabulary.encode(c)[:1] for c in "é東👩𓀀"])
    control = st.lists(st.sampled_from(sorted(vocabulary.by_id)), max_size=2)
    body = st.lists(st.one_of(canonical, pieces, any_ids, lone_bytes, control), max_size=4)
    end: st.SearchStrategy[list[int]] = st.one_of(st.sampled_from(chat.stop_token_ids).map(lambda i: [i]), st.just([]))
    return st.tuples(body, end).map(lambda parts: [i for piece in parts[0] for i in piece] + parts[1])


@st.composite
def conversations(draw: st.DrawFn, chat: ChatTokenizer, *, most_turns: int = 8) -> Conversation:
    """Return a conversation of 1 to `most_turns` turns."""
    text = texts(chat)
    messages = [user(draw(text))]
    if draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(text)})
    with_tools = draw(st.booleans())
    turns = []
    for number in range(draw(st.integers(1, most_turns))):
        calls = []
        if with_tools:
            names = draw(st.lists(st.sampled_from(NAMES), max_size=2))
            calls = [call(10 * number + i, name, city=draw(text)) for i, name in enumerate(names)]
        reasoning = draw(st.one_of(st.none(), text))
        new = [result(one, draw(text)) for one in calls] or [user(draw(text))]
        content = "" if calls else draw(text)
        turns.append(
            Turn(ids=draw(sampled_ids(chat)), message=assistant(content, *calls, reasoning=reasoning), new=new)
        )
    return Conversation(messages=messages, tools=TOOLS if with_tools else [], turns=turns)


def harmless(value: Any) -> Any:
    """Return messages of the same shape whose contents hold nothing of note."""
    if isinstance(value, list):
        return [harmless(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = ("role", "type", "id", "tool_call_id", "name")
    return {
        key: item if key in kept else harmless(item) if isinstance(item, dict | list) else "x"
        for key, item in value.items()
    }


def played(chat: ChatTokenizer, conversation: Conversation) -> Iterator[Any]:
    """Play a conversation; yield per turn: context, the turn, the prompt before it, its bridge."""
    from strands_sglang.tokenization import SampledTurn

    context = list(conversation.messages)
    prompt = chat.first(context, conversation.tools).ids
    for turn in conversation.turns:
        sampled = SampledTurn(ids=turn.ids, message=turn.message, prompt_ids=prompt)
        bridge = chat.bridge(context, sampled, turn.new, conversation.tools)
        yield list(context), turn, prompt, bridge
        prompt = [*prompt, *turn.ids[: len(turn.ids) - bridge.trimmed], *bridge.ids]
        context += [turn.message, *turn.new]

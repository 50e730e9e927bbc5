"""One conversation that a chat template is checked with, and the small words to write it down.

Owns the shape of a conversation: its messages and tools, which of its turns a model samples, and how the last of them
ends. Never looks at a tokenizer or a template.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

Message = dict[str, Any]
Tool = dict[str, Any]

SOMETHING = "Something"
"""A text that stands in for none."""


class Ending(StrEnum):
    """How the last sampled turn of a shape ended."""

    STOP = "stop"
    """On the template's own stop token."""
    CUT_TEXT = "cut in its text"
    """By length, in the middle of its text."""
    CUT_CHARACTER = "cut inside a character"
    """By length, after some bytes of a character."""
    CUT_REASONING = "cut in its reasoning"
    """By length, before the reasoning block was closed."""
    CUT_CALL = "cut in a tool call"
    """By length, before the call was closed; the host holds it as an invalid call."""
    STOP_STRING = "stopped by a string"
    """After its whole text, without a stop token."""
    OTHER_STOP = "stopped by another stop token"
    """On an end-of-sequence token that is not the one the template writes."""
    EMPTY = "empty"
    """The engine returned no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One conversation.

    Attributes:
        name: What is particular about it.
        messages: All messages. They end with a prompt, so that something follows every sampled turn.
        tools: Tool definitions; empty for none.
        given: How many messages stand before the first prompt is sent; assistant messages among them were not sampled.
        ending: How the last sampled turn ended; the ones before it ended on the stop token.
        hostile: Whether texts hold control tokens, marked by `literal`; see `with_literals`.
    """

    name: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    given: int
    ending: Ending = Ending.STOP
    hostile: bool = False

    def sampled(self) -> list[int]:
        """Return the indices of the messages that the model samples."""
        return [i for i, message in enumerate(self.messages) if message["role"] == "assistant" and i >= self.given]


def is_empty(message: Message) -> bool:
    """Return whether an assistant message holds neither text nor calls."""
    return not message.get("tool_calls") and not message["content"]


def with_text_arguments(message: Message) -> Message:
    """Return a message with texts for the arguments of its calls that are none."""
    calls = [
        {**one, "function": {**one["function"], "arguments": {k: _text_of(v) for k, v in _arguments(one).items()}}}
        for one in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls} if calls else message


def _arguments(call: Message) -> dict[str, Any]:
    arguments: dict[str, Any] = call["function"]["arguments"]
    return arguments


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def literal(index: int) -> str:
    """Return the mark that stands in a hostile shape for the control token `index`, counted over those there are."""
    return f"\x00{index}\x00"


def with_literals(shape: Shape, literals: Sequence[str]) -> Shape:
    """Return the hostile shape with its marks replaced by `literals`, taken in turn."""

    def written(value: Any) -> Any:
        if isinstance(value, str):
            pieces = value.split("\x00")
            for i in range(1, len(pieces), 2):
                pieces[i] = literals[int(pieces[i]) % len(literals)]
            return "".join(pieces)
        if isinstance(value, dict):
            return {key: written(item) for key, item in value.items()}
        return [written(item) for item in value] if isinstance(value, list) else value

    return replace(shape, messages=tuple(map(written, shape.messages)), tools=tuple(map(written, shape.tools)))


def texts(shape: Shape) -> Iterator[str]:
    """Yield every text in the messages and tools of a shape."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield key
                yield from walk(item)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item)

    yield from walk([*shape.messages, *shape.tools])


def system(text: str) -> Message:
    """Return a system message."""
    return {"role": "system", "content": text}


def user(content: str | list[dict[str, Any]]) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant(text: str, *calls: Message, reasoning: str | None = None) -> Message:
    """Return an assistant message with `calls` made by `call`."""
    message: Message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(name: str, arguments: dict[str, Any], *, call_id: str) -> Message:
    """Return a tool call of an assistant message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text: str | list[dict[str, Any]], *, name: str, call_id: str) -> Message:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}


def tool(name: str, description: str, properties: dict[str, Any], required: Iterable[str] = ()) -> Tool:
    """Return a tool definition."""
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

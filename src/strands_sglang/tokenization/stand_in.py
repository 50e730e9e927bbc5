"""A short conversation that stands in for a long one.

Owns which messages stand in for the real ones: what a template can tell conversations apart by (system messages,
whether the user spoke before, whether a tool round came before, names and ids of calls) is kept, what it only prints is
not.
Its size does not depend on the length of the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any]]

HEAD_ROLES = ("system", "developer")
USER: Message = {"role": "user", "content": "Hi."}
ANSWER: Message = {"role": "assistant", "content": "Hello."}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShape:
    """What a template can tell a sampled turn by.

    Attributes:
        calls: Its calls, with their real names and ids, and without arguments: those were sampled.
        has_text: Whether it holds text that is not blank.
        has_reasoning: Whether it holds reasoning.
    """

    calls: Sequence[Mapping[str, Any]]
    has_text: bool = True
    has_reasoning: bool = False


def shape_of_turn(message: Message) -> TurnShape:
    """Return the shape of an assistant message."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(str(block.get("text", "x")) for block in content)
    return TurnShape(
        calls=[{**call, "function": {**call["function"], "arguments": {}}} for call in message.get("tool_calls") or ()],
        has_text=bool(text.strip()),
        has_reasoning=bool(message.get("reasoning_content")),
    )


def stand_in_context(context: Sequence[Message]) -> list[Message]:
    """Return a short conversation of the shape of `context`, the messages before a turn.

    System messages at the head are kept as they are: templates print them late or read switches out of them.
    """
    head = next((i for i, message in enumerate(context) if message.get("role") not in HEAD_ROLES), len(context))
    short: list[Message] = list(context[:head])
    last_user = next((i for i in range(len(context) - 1, head - 1, -1) if context[i].get("role") == "user"), None)
    if last_user is None:
        return short
    earlier = context[head:last_user]
    if any(message.get("role") == "assistant" for message in earlier):
        short += [USER, *_tool_round(earlier), ANSWER]
    short.append(USER)
    if context[-1].get("role") == "tool":
        short += _tool_round(context[last_user + 1 :])
    return short


def count_calls(messages: Sequence[Message]) -> int:
    """Return how many calls messages hold."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)


def with_every_call(context: Sequence[Message]) -> list[Message]:
    """Return the stand-in for templates that number calls: all messages in their places, with short texts."""
    head = next((i for i, message in enumerate(context) if message.get("role") not in HEAD_ROLES), len(context))
    return [*context[:head], *(_shortened(message, f"{i}") for i, message in enumerate(context[head:], start=head))]


def _shortened(message: Message, text: str) -> Message:
    """Return a message with short texts that differ from those of other messages: templates look for repetitions."""
    if calls := message.get("tool_calls"):
        short = [_call(call["function"]["name"], call.get("id"), f"{text}.{i}") for i, call in enumerate(calls)]
        return {"role": "assistant", "content": "", "tool_calls": short}
    known = {"user": USER, "assistant": ANSWER}.get(str(message.get("role")))
    return {**message, "content": text} if known is None else known


def _tool_round(messages: Sequence[Message]) -> list[Message]:
    """Return a call and its result where messages hold the like, with a real name and id, or nothing."""
    if not any(message.get("role") == "tool" for message in messages):
        return []
    for message in reversed(messages):
        if calls := message.get("tool_calls"):
            return round_of(calls[0]["function"]["name"], calls[0].get("id"))
    return []


def round_of(name: str, call_id: Any, text: str = "1") -> list[Message]:
    """Return a call and its result."""
    return [
        {"role": "assistant", "content": "", "tool_calls": [_call(name, call_id, text)]},
        {"role": "tool", "tool_call_id": call_id, "name": name, "content": text},
    ]


def _call(name: str, call_id: Any, text: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": {"a": text}}}


def stand_in_turn(calls: Sequence[Mapping[str, Any]], marker: str, *, trailing: str = "") -> dict[str, Any]:
    """Return an assistant turn with marks in the place of what was sampled.

    Args:
        calls: The calls of the turn; they keep their names and ids.
        marker: A character that nothing else holds.
        trailing: Whitespace to put after the mark of a turn without calls.
    """
    if not calls:
        return {"role": "assistant", "content": mark(marker, 0) + trailing}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {**call, "function": {**call["function"], "arguments": {"a": mark(marker, i)}}}
            for i, call in enumerate(calls)
        ],
    }


def mark(marker: str, number: int) -> str:
    """Return the mark with a number: text that templates print unchanged, in JSON, too."""
    return f"{marker}{number}{marker}"

"""A short conversation that stands in for a long one.

Owns which messages stand in for the real ones: what a template can tell conversations apart by (system messages,
whether the user spoke before, whether a tool round came before, names and ids of calls) is kept, what it only prints is
not.
Its size does not depend on the length of the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any]]

HEAD_ROLES = ("system", "developer")
USER: Message = {"role": "user", "content": "Hi."}
_ANSWER: Message = {"role": "assistant", "content": "Hello."}


def stand_in_context(context: Sequence[Message]) -> list[Message]:
    """Return a short conversation of the shape of `context`, the messages before a turn.

    System messages at the head are kept as they are: templates print them late or read switches out of them.
    """
    head = next((i for i, message in enumerate(context) if message.get("role") not in HEAD_ROLES), len(context))
    short: list[Message] = list(context[:head])
    last_user = next((i for i in range(len(context) - 1, head - 1, -1) if context[i].get("role") == "user"), None)
    if last_user is None:
        return short
    if any(context[i].get("role") == "assistant" for i in range(head, last_user)):
        short += [USER, _ANSWER]
    short.append(USER)
    if last_user + 1 < len(context) and context[-1].get("role") == "tool":
        short += _tool_round(context, last_user)
    return short


def _tool_round(context: Sequence[Message], last_user: int) -> list[Message]:
    """Return one call and its result for the rounds that came since the user spoke, or nothing where none is whole."""
    for index in range(len(context) - 1, last_user, -1):
        message = context[index]
        if message.get("role") == "assistant":
            if not message.get("tool_calls"):
                return []
            name, call_id = message["tool_calls"][0]["function"]["name"], message["tool_calls"][0].get("id")
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": {"a": "1"}}}
            return [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "name": name, "content": "1"},
            ]
    return []


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

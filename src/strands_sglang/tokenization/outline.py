"""The shape of what a suffix is derived from, and the texts that are put into it.

Owns the cut between the two. The leaves are the texts of new messages of users and tools, and the ids of calls wherever
they stand; everything else is outline. Invariant: two derivations with equal outlines and equal leaves are given equal
data, and equal ids are one leaf.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .stand_in import Message, Tools, TurnShape

_ROLES = ("tool", "user")
_MOST_MESSAGES = 32


class _NotMouldedError(Exception):
    """Something is given in a form that no outline is made of."""


@dataclass(slots=True)
class Outline:
    """An outline and its leaves.

    Attributes:
        key: The outline; equal for what differs in leaves only.
        leaves: The texts, numbered.
        ids: The number of each id.
        contents: The numbers of the texts of the new messages, in their order.
        arguments: The arguments of the turn's calls: no part of the outline, since no template is shown them.
    """

    key: Any = None
    leaves: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    contents: list[int] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)


def outline_of(
    before: Sequence[Message], turn: TurnShape, new_messages: Sequence[Message], tools: Tools | None
) -> Outline | None:
    """Return the outline of a derivation, or None where something is given in a form that has none.

    Args:
        before: The stand-in for what was before the turn.
        turn: The turn's shape.
        new_messages: The messages after it.
        tools: The tools.
    """
    if len(before) + len(new_messages) > _MOST_MESSAGES:
        return None
    outline = Outline()
    try:
        outline.key = (
            tuple([_frozen(message, outline) for message in before]),
            tuple([_call(call, outline) for call in turn.calls]),
            turn.has_text,
            turn.has_reasoning,
            tuple([_new(message, outline) for message in new_messages]),
            sys.intern(json.dumps(tools)) if tools else None,
        )
    except (_NotMouldedError, TypeError, ValueError):
        return None
    return outline


def with_leaves(
    given: Mapping[str, Any], outline: Outline, content: Mapping[int, str], ids: Mapping[int, str]
) -> dict[str, Any]:
    """Return what a suffix is derived from with other leaves in their places.

    Args:
        given: The "before", "calls" and "new_messages" that the outline is of.
        outline: The outline.
        content: What to put in the place of texts, by number.
        ids: What to put in the place of ids, by number.
    """

    def stood(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: ids[outline.ids[item]] if key in _ID_KEYS and isinstance(item, str) else stood(item)
                for key, item in value.items()
            }
        return [stood(item) for item in value] if isinstance(value, list | tuple) else value

    new = [
        {**stood(message), "content": content[number]}
        for message, number in zip(given["new_messages"], outline.contents, strict=True)
    ]
    calls = [_without_arguments(call) for call in given["calls"]]
    return {"before": stood(given["before"]), "calls": stood(calls), "new_messages": new}


_ID_KEYS = ("id", "tool_call_id")


def _frozen(value: Any, outline: Outline) -> Any:
    """Return plain data as something that can be looked up, with numbers in the place of ids."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is dict:
        return tuple([_item(key, item, outline) for key, item in value.items()])
    if kind is list or kind is tuple:
        return ("list", *[_frozen(item, outline) for item in value])
    if kind is bool or kind is int or kind is float:
        return (kind, repr(value))
    raise _NotMouldedError


def _item(key: Any, item: Any, outline: Outline) -> Any:
    """Return an item of a mapping; only an id is a number there."""
    if type(key) is not str:
        raise _NotMouldedError  # 1, 1.0 and True are one key to a lookup
    if type(item) is not str:
        return key, _frozen(item, outline)
    if key not in _ID_KEYS:
        return key, item
    number = outline.ids.get(item)
    if number is None:
        number = outline.ids[item] = len(outline.leaves)
        outline.leaves.append(item)
    return key, number


def _call(call: Mapping[str, Any], outline: Outline) -> Any:
    """Return the outline of a call of the turn; its arguments keep their place among the keys."""
    function = call["function"]
    if type(call) is not dict or type(function) is not dict:
        raise _NotMouldedError
    outline.arguments.append(function["arguments"])
    frozen = tuple([name if name == "arguments" else _item(name, item, outline) for name, item in function.items()])
    return tuple([frozen if key == "function" else _item(key, item, outline) for key, item in call.items()])


def _without_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": None}}


def _new(message: Message, outline: Outline) -> Any:
    """Return the outline of a new message; its text keeps its place among the keys."""
    content = message.get("content")
    if type(message) is not dict or type(content) is not str or message["role"] not in _ROLES:
        raise _NotMouldedError
    frozen = tuple([key if key == "content" else _item(key, item, outline) for key, item in message.items()])
    outline.contents.append(len(outline.leaves))
    outline.leaves.append(content)
    return frozen

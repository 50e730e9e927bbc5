"""What messages must look like, and whether a rendering holds all of them.

Owns the checks on the caller's messages, each with the index of the message at fault. Invariant: a text of a user, a
system, or a tool that a template leaves out is an error, never a silent loss (what a template does to an assistant's
history is its own affair). Never changes a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strands_sglang.errors import UnsupportedContentError

from .stand_in import Message

_TOLD = ("system", "developer", "user", "tool")


def check_messages(messages: Sequence[Any], name: str, *, least: int = 0) -> None:
    """Raise `UnsupportedContentError` where messages are not in chat form.

    Args:
        messages: The messages.
        name: Name of the tokenizer, for messages.
        least: How many there must be at least.
    """
    if isinstance(messages, str | bytes | Mapping) or len(messages) < least:
        raise UnsupportedContentError(f"messages must be a list of at least {least} messages", model=name)
    for index, message in enumerate(messages):
        if fault := _fault(message):
            raise UnsupportedContentError(f"message {index} {fault}", model=name, message_index=index)


def _fault(message: Any) -> str | None:
    if not isinstance(message, Mapping):
        return f"is a {type(message).__name__}, not a mapping"
    if not isinstance(message.get("role"), str):
        return "has no role"
    if not isinstance(message.get("content"), str | list | tuple | None):
        return f"has content of type {type(message['content']).__name__}: text or a list of blocks is needed"
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return f"has a tool call {number} without a function name"
        if not isinstance(function.get("arguments"), Mapping | str):
            return f"has a tool call {number} whose arguments are neither a mapping nor text"
    return None


def first_left_out(
    messages: Sequence[Message], text: str, shows: Callable[[int], bool], *, start: int = 0
) -> int | None:
    """Return the index of the first message with a text that a rendering does not hold, or None.

    Args:
        messages: The messages.
        text: The rendering.
        shows: Whether the template writes a mark that is put in the place of a message's content; asked where a text is
            not found as it is.
        start: Where in the rendering to begin.
    """
    for index, message in enumerate(messages):
        if message.get("role") not in _TOLD:
            continue
        for leaf in _leaves(message.get("content")):
            found = _find(leaf, text, start)
            if found < 0 and not shows(index):
                return index
            start = max(start, found)
    return None


def _leaves(content: Any) -> Iterator[str]:
    blocks = [content] if isinstance(content, str) else [block.get("text") for block in content or ()]
    return (leaf.strip() for leaf in blocks if isinstance(leaf, str) and leaf.strip())


def _find(leaf: str, text: str, start: int) -> int:
    """Return where a text stands as it is or in JSON, looking from `start` first; -1 where it does not."""
    for begin in (start, 0):
        if (found := text.find(leaf, begin)) >= 0:
            return found
    return text.find(json.dumps(leaf, ensure_ascii=False)[1:-1])

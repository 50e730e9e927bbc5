"""What Strands holds, described to the session: messages to compare, and their chat form where it is asked for.

Owns the chat form of the messages of one episode. In an agent's loop Strands hands out fresh copies of the whole
history for every call; a message is converted once, and found again by its fingerprint and that of the message before
it, whose calls it may answer. Invariant: the chat form is always the one that `to_chat` gives. Nothing that a
caller could still change is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.session import HostHistory

from .messages import ChatMessage, images_of, to_chat, to_tools

Converted = dict[tuple[bytes | None, bytes], list[ChatMessage]]
"""The chat form of messages, by the fingerprints of the message before and of the message itself."""


def host_history(
    messages: Sequence[Mapping[str, Any]],
    tool_specs: Sequence[Mapping[str, Any]] | None,
    system_prompt: str | None,
    identities: list[str | None] | None = None,
    converted: Converted | None = None,
) -> HostHistory:
    """Describe what Strands holds.

    Args:
        messages: The whole history.
        tool_specs: The tools on offer.
        system_prompt: The system prompt, or None.
        identities: What tells each message from an equal one, or None where that cannot be had.
        converted: The chat form of what was converted before, to be added to; None where the messages are the caller's
            own, who may change them in place.
    """
    plain: Sequence[Mapping[str, Any]] = messages
    if any(len(message) != 2 for message in messages):
        # Side calls pass the agent's own messages, with keys that have no bearing on a prompt.
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]

    def chat(start: int, stop: int) -> list[Any]:
        if converted is None:
            return list(to_chat(plain, start, stop, system_prompt=system_prompt))
        found = to_chat(plain, 0, 0, system_prompt=system_prompt) if start == 0 else []
        digests = history.digests
        for index in range(start, stop):
            key = (digests[index - 1] if index else None, digests[index])
            known = converted.get(key)
            if known is None:
                known = converted[key] = _apart(to_chat(plain, index, index + 1))
            found += known
        return found

    history = HostHistory(
        messages=plain,
        system=system_prompt,
        tools=to_tools(tool_specs),
        identities=identities,
        chat=chat,
        images=lambda start, stop: images_of(plain, start, stop),
    )
    return history


def _apart(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return messages that share nothing with the host: all but the arguments of calls was made for them."""
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = copy.deepcopy(call["function"]["arguments"])
    return messages

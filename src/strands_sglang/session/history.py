"""What the host asks to have continued, and how its messages are compared.

Messages are compared by fingerprint: by value, type and key order, as a chat template sees them. They are never changed
and never looked into, but for their role in messages to people.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ChatMessage = Mapping[str, Any]
"""A message in chat-template form; see `strands_sglang.tokenization`."""


class OnDivergence(StrEnum):
    """What to do when the host's history is no longer the recorded one."""

    BRANCH = "branch"
    """Go on from the deepest turn that still agrees."""
    RAISE = "raise"
    """Raise `HistoryDivergedError`."""


def fingerprint(message: Any) -> bytes:
    """Return 16 bytes that are equal for equal messages of equal types, in the same key order.

    `==` is not enough: it holds `1`, `1.0` and `True` for the same, which a template renders differently.
    """
    try:
        # Version 2 has no references and no interning, so that equal values always give equal bytes.
        encoded = marshal.dumps(message, 2)
    except ValueError:  # a value that is not a plain built-in, such as an enum member
        encoded = repr(message).encode("utf-8", "surrogatepass")
    # Processors have instructions for this one: it is the fastest of those that nobody can make collide.
    return hashlib.sha256(encoded).digest()[:16]


@dataclass(slots=True, kw_only=True, eq=False)
class HostHistory:
    """What the host asks to have continued.

    Attributes:
        messages: The host's own messages, opaque; index 0 is the oldest.
        system: The system prompt in whatever form the host has it; compared by value.
        tools: Tool definitions in chat-template form, or None; compared by value, order included.
        chat: `chat(start, stop)` gives the chat form of `messages[start:stop]`; with `start` 0 it begins with the
            system message, if there is one.
        images: `images(start, stop)` gives the images of those messages as data URLs, in order.
        identities: What tells each message from an equal one that was added at another time, None where the host does
            not say. With it, a question that is asked again is told from an equal question that is asked anew.
    """

    messages: Sequence[Any]
    system: Any
    tools: Sequence[Mapping[str, Any]] | None
    chat: Callable[[int, int], list[ChatMessage]]
    images: Callable[[int, int], tuple[str, ...]]
    identities: Sequence[str | None] | None = None
    _digests: list[bytes] | None = field(default=None, init=False, repr=False)
    _root: bytes | None = field(default=None, init=False, repr=False)

    @property
    def digests(self) -> list[bytes]:
        """The fingerprint of each message."""
        if self._digests is None:
            self._digests = [fingerprint(message) for message in self.messages]
        return self._digests

    @property
    def root(self) -> bytes:
        """The fingerprint of system prompt and tools."""
        if self._root is None:
            self._root = fingerprint([self.system, self.tools])
        return self._root

    def identity(self, index: int) -> str | None:
        """Return what tells a message from an equal one, where the host says."""
        return self.identities[index] if self.identities is not None and index >= 0 else None

    def role(self, index: int) -> str | None:
        """Return the role of a message; None where there is no such message, or it has no role."""
        message = self.messages[index] if index < len(self.messages) else None
        return message.get("role") if isinstance(message, Mapping) else None

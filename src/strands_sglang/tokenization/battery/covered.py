"""A reference whose templates see no control token in content.

Owns the cover: control tokens in messages and tools are swapped for plain words before a template renders them, and
swapped back in its text. So a whole rendering shows content as content, whatever the template does where it finds
such a token (some cut a text at `</think>`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .rehearsal import Reference
from .shape import Message

_WORD = re.compile(r"Zq(\d+)qZ")


class Covered:
    """A reference that covers control tokens."""

    def __init__(self, reference: Reference) -> None:
        """Wrap a reference."""
        self._reference = reference
        self._tokens = list(reference.control)
        self._numbers = {token: number for number, token in enumerate(self._tokens)}
        self.control = reference.control
        self.eos = reference.eos

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the control tokens in a text."""
        return self._reference.find(text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendering, in which control tokens are control again."""
        return self._reference.encode(text)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generation_prompt: bool
    ) -> str:
        """Return the text of all messages."""
        text = self._reference.render(self._cover(messages), self._cover(tools), generation_prompt=generation_prompt)
        return _WORD.sub(lambda match: self._tokens[int(match[1])], text)

    def _cover(self, value: Any) -> Any:
        if isinstance(value, str):
            for match in reversed(list(self.find(value))):
                value = f"{value[: match.start()]}Zq{self._numbers[match[0]]}qZ{value[match.end() :]}"
            return value
        if isinstance(value, Mapping):
            return {key: self._cover(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self._cover(item) for item in value]
        return value

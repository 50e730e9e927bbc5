"""What episodes begin with: one prompt, its identity, and the rows of a data set.

A prompt's key is the same in every process and in every order of the data set: its own id, or a digest of what it
holds. Equal prompts of one run are told apart by their number among the equals. What Strands adds to messages is no
part of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strands.types.session import encode_bytes_values

from strands_sglang.errors import SGLangConfigError

PROMPT_FIELD = "prompt"
ID_FIELD = "id"

_NUMBERED = re.compile(r"##\d+$")
_ADDED_BY_STRANDS = frozenset({"tracking_id", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt.

    Attributes:
        content: What the agent is invoked with: a text, a list of content blocks, or a list of messages.
        id: Its identity in the data set; None: a digest of `content` and `row`.
        row: What else its row holds, such as the label that a reward needs.
    """

    content: Any
    id: str | None = None
    row: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, item: Any) -> Prompt:
        """Read a prompt.

        Args:
            item: A prompt, a text, a list of blocks or messages, or a row: an object whose "prompt" is one of these,
                with an optional "id".

        Raises:
            SGLangConfigError: If it is none of these.
        """
        if isinstance(item, Prompt):
            _checked(item.content)
            return item
        if isinstance(item, str | list):
            return cls(content=_checked(item))
        if not isinstance(item, Mapping) or PROMPT_FIELD not in item:
            raise SGLangConfigError(
                f"not a prompt: {_short(item)}",
                hint='give a text, a list of content blocks or messages, or a row such as {"prompt": "...", "id": "7"}',
            )
        rest = {name: value for name, value in item.items() if name not in (PROMPT_FIELD, ID_FIELD)}
        own = item.get(ID_FIELD)
        return cls(content=_checked(item[PROMPT_FIELD]), id=None if own is None else str(own), row=rest)

    def key(self) -> str:
        """Return its identity.

        Raises:
            SGLangConfigError: If it has no id and holds what is not JSON.
        """
        if self.id is not None:
            return self.id
        try:
            text = json.dumps(encode_bytes_values([_as_given(self.content), dict(self.row)]), sort_keys=True)
        except (TypeError, ValueError) as error:
            raise SGLangConfigError(
                f"a prompt without an id must hold JSON values only: {error}", hint='give its row an "id"'
            ) from error
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Repeats:
    """Numbers equal prompts, so that each has a key of its own; keeps one small number for each distinct prompt."""

    def __init__(self) -> None:
        """Begin with none seen."""
        self._seen: dict[int, int] = {}

    def key_of(self, prompt: Prompt) -> str:
        """Return the prompt's key: with "##2" for the second of equal ones, and so on.

        An id that ends like this itself has "##1" for the first: no two prompts of a run ever have one key.
        """
        key = prompt.key()
        short = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
        count = self._seen[short] = self._seen.get(short, 0) + 1
        return key if count == 1 and not _NUMBERED.search(key) else f"{key}##{count}"


def own(value: Any) -> Any:
    """Return a value whose lists and dictionaries, at any depth, are nobody else's; all other objects are shared."""
    if type(value) is dict:
        return {name: own(item) for name, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(map(own, value))
    return value


def jsonable(value: Any) -> Any:
    """Return a value as JSON values: bytes as Strands' sessions write them, what JSON has no form for as its repr."""
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return encode_bytes_values(value)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    return repr(value)


def _checked(content: Any) -> Any:
    """Return what an agent can be invoked with."""
    if not isinstance(content, str | list):
        raise SGLangConfigError(f"the prompt of a row must be a text or a list, got {_short(content)}")
    if isinstance(content, list) and not all(isinstance(item, Mapping) for item in content):
        raise SGLangConfigError(f"a prompt that is a list holds content blocks or messages, got {_short(content)}")
    return content


def _as_given(content: Any) -> Any:
    """Return a prompt's content without what Strands adds to messages."""
    if not isinstance(content, list):
        return content
    return [
        {name: value for name, value in item.items() if name not in _ADDED_BY_STRANDS} if "role" in item else item
        for item in content
    ]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."

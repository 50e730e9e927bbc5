"""Content stays content: no text of a message or tool can become a control token (guarantee G6).

Owns the policy (escape, raise or allow) and the choice of private-use characters that content does not hold itself.
The disguise does the rest: literals are swapped before rendering, and the text around them is encoded as if the
tokenizer had no control tokens. Never changes what it is given.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from strands_sglang.errors import SGLangConfigError, TokenizationError, UnsupportedContentError

from .borders import Borders
from .disguise import Block, Disguise, block_size
from .escapes import FIRST, LAST, in_use
from .template import KeptTools
from .vocabulary import Vocabulary

ControlTokens = Literal["escape", "raise", "allow"]
Render = Callable[[Mapping[str, Any], Disguise], str]

_KEPT = 64


class Guard:
    """What is guarded against, and how: one per tokenizer."""

    def __init__(self, vocabulary: Vocabulary, mode: ControlTokens = "escape") -> None:
        """Create the guard.

        Args:
            vocabulary: The tokenizer's view.
            mode: "escape" encodes literals of control tokens as plain text; "raise" refuses them; "allow" lets them
                become control tokens.
        """
        if mode not in get_args(ControlTokens):
            raise SGLangConfigError(f"control_tokens={mode!r} is none of {', '.join(get_args(ControlTokens))}")
        self._vocabulary = vocabulary
        self._mode = mode
        self._characters = "".join(sorted(set("".join(vocabulary.tokens))))
        self._borders = Borders(vocabulary.tokens if mode != "allow" else ())
        self._block = Block(self._characters, FIRST)
        self._tools: dict[tuple[bytes, bool], tuple[Any, Disguise]] = {}

    def rendered(self, given: Mapping[str, Any], tools: Any, render: Render) -> tuple[str, Disguise]:
        """Return the rendering of disguised content, and the disguise to encode it with.

        Args:
            given: Lists of messages, by the name to use in messages about them; those that are new come first.
            tools: The tools; disguised once and kept, as they are the same in every turn.
            render: Renders the disguised lists, the tools among them as "tools"; called once more where a text begins
                or ends with a part of a control token.
        """
        disguise = self._disguise(FIRST)
        covered = self._cover(disguise, given, tools)
        if disguise.foreign:
            disguise = self._disguise(self._free_block(disguise.foreign))
            covered = self._cover(disguise, given, tools)
        try:
            with in_use(disguise.first, disguise.last):
                text = render(covered, disguise)
                if disguise.unsure:
                    covered = self._cover(disguise, given, tools, borders=True)
                    text = disguise.settle(text, render(covered, disguise), next(iter(given)))
        except TokenizationError as error:
            error.args = (disguise.reveal_quoted(str(error)),)
            raise
        return text, disguise

    def _cover(
        self, disguise: Disguise, given: Mapping[str, Any], tools: Any, *, borders: bool = False
    ) -> dict[str, Any]:
        disguise.begin(literals=self._mode != "allow", borders=borders)
        covered = {name: disguise.cover(value, name) for name, value in given.items()}
        return {**covered, "tools": self._cover_tools(disguise, tools, borders)}

    def _cover_tools(self, disguise: Disguise, tools: Any, borders: bool) -> Any:
        try:
            # Version 2 has no references, so that equal tools give equal bytes, and others never do.
            key = (marshal.dumps(tools, 2), borders)
        except ValueError:  # not of plain built-ins
            return disguise.cover(tools, "tools")
        kept = self._tools.get(key)
        if kept is None or disguise.first != FIRST:
            apart = self._disguise(disguise.first)
            apart.begin(literals=self._mode != "allow", borders=borders)
            kept = (apart.cover(tools, "tools"), apart)
            if disguise.first == FIRST and not apart.foreign:
                kept = (KeptTools(kept[0]), apart)
                if len(self._tools) >= _KEPT:
                    self._tools.clear()
                self._tools[key] = kept
        disguise.include(kept[1])
        return kept[0]

    def _disguise(self, first: int) -> Disguise:
        block = self._block if first == FIRST else Block(self._characters, first)
        return Disguise(self._vocabulary, self._borders, block, strict=self._mode == "raise")

    def _free_block(self, used: set[str]) -> int:
        """Return the first code point of a block that content does not use."""
        size = block_size(self._characters)
        taken = {(ord(character) - FIRST) // size for character in used}
        free = next(number for number in range(len(taken) + 1) if number not in taken)
        if FIRST + (free + 1) * size > LAST:
            raise UnsupportedContentError(
                f"{self._vocabulary.name}: content uses so many private-use characters of plane 16 that none are left "
                "to tell it from the template with",
                model=self._vocabulary.name,
            )
        return FIRST + free * size

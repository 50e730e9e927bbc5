"""When a sequence ends, and what of it is shown as text.

Owns the order of the checks (texts, then tokens, then length) and the trimming of what stopped it.
Invariant: the ids are never trimmed, only the text is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Any

from strands_sglang.engine.text import TextCodec
from strands_sglang.engine.tiny.ask import Ask

UNFINISHED_CHARACTER = "\ufffd"
"""What incomplete UTF-8 decodes to."""


class StopCheck:
    """The ends of one request."""

    def __init__(self, ask: Ask, codec: TextCodec, stop_tokens: Set[int]) -> None:
        """Prepare the checks; `stop_tokens` are the model's own."""
        self._sampling = ask.sampling
        self._codec = codec
        self._tokens = frozenset() if ask.sampling.ignore_eos else stop_tokens | ask.sampling.stop_token_ids
        self._window = max((len(codec.encode(text)) + 1 for text in ask.sampling.stop), default=0)

    def finish(self, output: Sequence[int]) -> dict[str, Any] | None:
        """Return the finish reason after the last of `output`, or None."""
        matched = self._matched_text(output)
        if matched is not None:
            return {"type": "stop", "matched": matched}
        if output[-1] in self._tokens:
            return {"type": "stop", "matched": output[-1]}
        budget = self._sampling.max_new_tokens
        return {"type": "length", "length": budget} if len(output) == budget else None

    def _matched_text(self, output: Sequence[int]) -> str | None:
        """Return the stop text or pattern that occurs; special tokens count as text here."""
        if self._sampling.stop:
            tail = self._tail(output)
            for text in self._sampling.stop:
                if text in tail:
                    return text
        if self._sampling.stop_regex:
            whole = self._codec.decode(output, skip_special=False)
            return next((each for each in self._sampling.stop_regex if re.search(each, whole)), None)
        return None

    def _tail(self, output: Sequence[int]) -> str:
        # As many tokens as the longest stop text has, and one more, as SGLang looks at.
        return self._codec.decode(output[-self._window :], skip_special=False)

    def may_be_stopping(self, output: Sequence[int]) -> bool:
        """Say whether the text ends in the beginning of a stop text; such a chunk is held back."""
        if not self._sampling.stop:
            return False
        tail = self._tail(output)
        return any(tail.endswith(text[:end]) for text in self._sampling.stop for end in range(1, len(text) + 1))

    def text(self, output: Sequence[int], finish: dict[str, Any] | None) -> str:
        """Return the text to show."""
        matched = None if finish is None else finish.get("matched")
        if isinstance(matched, int) and not self._sampling.no_stop_trim:
            output = output[:-1]
        text = self._codec.decode(output, skip_special=self._sampling.skip_special_tokens)
        if finish is None:
            return text.rstrip(UNFINISHED_CHARACTER)
        return self._trimmed(text, matched) if isinstance(matched, str) else text

    def _trimmed(self, text: str, matched: str) -> str:
        at = text.find(matched)
        if at == -1:
            return text
        return text[: at + len(matched)] if self._sampling.no_stop_trim else text[:at]

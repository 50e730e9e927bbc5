"""An answer as Strands' stream events: all at the end, or text as it is sampled.

Whatever was shown early, the blocks that Strands builds from the events are exactly those of the finished `Answer`:
`Narration.finish` sends what is missing of each. Text is shown only once it is far enough from the end not to become
part of a call; an answer that turns out otherwise all the same keeps what was shown as a block of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strands.types.streaming import StreamEvent

from strands_sglang.tool_parsers import ParsedTurn, PieceKind

from .answer import Answer, Block, Shown

# Text this close to the end may still turn out to be the beginning of a call or of a mark.
_HELD_BACK = 64
# Reading a long answer again for each token would cost its square: it is read when it has grown by this share.
_GROWTH = 1 / 32


class Narration:
    """The events of one answer, in order.

    Attributes:
        shown: What was sent before the answer was finished.
    """

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.shown = Shown()
        self._open = ""
        self._begun = False

    def show(self, reasoning: str, text: str) -> Iterator[StreamEvent]:
        """Yield what is new in the reasoning and text so far; what does not go on from what was sent is held back."""
        if reasoning.startswith(self.shown.reasoning) and not self.shown.text:
            yield from self._grow("reasoning", self.shown.reasoning, reasoning)
            self.shown = Shown(reasoning=reasoning, text=self.shown.text)
        if text.startswith(self.shown.text):
            yield from self._grow("text", self.shown.text, text)
            self.shown = Shown(reasoning=self.shown.reasoning, text=text)

    def finish(self, answer: Answer, usage: Mapping[str, int], latency_ms: int) -> Iterator[StreamEvent]:
        """Yield what is missing of the finished answer, its stop reason and its usage."""
        missing = {"reasoning": self.shown.reasoning, "text": self.shown.text}
        for block in answer.blocks:
            kind = _kind(block)
            if kind == "call":
                yield from self._close()
                yield from self._begin()
                yield from _call_events(block["toolUse"])
                continue
            # The first block of each kind is the one that was shown in part.
            yield from self._grow(kind, missing[kind], _text(block))
            missing[kind] = ""
            if self._open == kind:
                yield from self._close()
        yield from self._close()
        yield from self._begin()
        yield {"messageStop": {"stopReason": answer.stop_reason}}  # type: ignore[typeddict-item]
        yield {"metadata": {"usage": dict(usage), "metrics": {"latencyMs": latency_ms}}}  # type: ignore[typeddict-item]

    def _begin(self) -> Iterator[StreamEvent]:
        """Yield the beginning of the message, once."""
        if not self._begun:
            self._begun = True
            yield {"messageStart": {"role": "assistant"}}

    def _grow(self, kind: str, sent: str, text: str) -> Iterator[StreamEvent]:
        """Yield a delta that makes a block's text what it should be, in an open block of its kind."""
        if text == sent:
            return
        if self._open != kind:
            yield from self._close()
            yield from self._begin()
            yield {"contentBlockStart": {"start": {}}}
            self._open = kind
        new = text[len(sent) :]
        delta: dict[str, Any] = {"text": new} if kind == "text" else {"reasoningContent": {"text": new}}
        yield {"contentBlockDelta": {"delta": delta}}  # type: ignore[typeddict-item]

    def _close(self) -> Iterator[StreamEvent]:
        """Yield the end of the open block, if there is one."""
        if self._open:
            self._open = ""
            yield {"contentBlockStop": {}}


class LiveText:
    """Shows an answer while it is sampled."""

    def __init__(self, narration: Narration, parse: Callable[[Sequence[int]], ParsedTurn]) -> None:
        """Begin with no ids.

        Args:
            narration: Sends the events.
            parse: Reads an unfinished turn from its ids so far.
        """
        self._narration = narration
        self._parse = parse
        self._ids: list[int] = []
        self._read = 0

    def feed(self, ids: Sequence[int]) -> Iterator[StreamEvent]:
        """Take new ids and yield what can be shown now."""
        self._ids.extend(ids)
        if len(self._ids) - self._read < 1 + self._read * _GROWTH:
            return
        self._read = len(self._ids)
        parsed = self._parse(self._ids)
        if parsed.calls:
            return
        if _in_reasoning(parsed):
            yield from self._narration.show((parsed.reasoning or "")[:-_HELD_BACK], "")
        else:
            yield from self._narration.show(parsed.reasoning or "", parsed.content[:-_HELD_BACK])


def _in_reasoning(parsed: ParsedTurn) -> bool:
    """Whether an unfinished turn is still reasoning, so that its reasoning may grow."""
    if not parsed.reasoning:
        return False
    return not parsed.pieces or parsed.pieces[-1].kind is PieceKind.REASONING


def _kind(block: Block) -> str:
    """Return whether a block is a call, reasoning or text."""
    return "call" if "toolUse" in block else "reasoning" if "reasoningContent" in block else "text"


def _text(block: Block) -> str:
    """Return the text of a reasoning or text block."""
    if "reasoningContent" in block:
        return str(block["reasoningContent"]["reasoningText"]["text"])
    return str(block.get("text", ""))


def _call_events(use: Mapping[str, Any]) -> Iterator[StreamEvent]:
    """Yield the events of one call."""
    yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}}}
    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(use["input"], ensure_ascii=False)}}}}
    yield {"contentBlockStop": {}}

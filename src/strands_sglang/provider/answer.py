"""One answer of the model as the host sees it: content blocks, stop reason, and the forms the host may store.

Reasoning, text and calls are blocks of their own. A failed call attempt becomes a call of the reserved tool, so that
the host runs nothing, the model reads the reason, and nothing is lost (guarantee G7).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.tool_parsers import ParsedTurn, ToolParseResult
from strands_sglang.wire import FinishReason, FinishType, GenerateReply

from .messages import INVALID_TOOL_CALL

Block = dict[str, Any]

# What Strands accepts as a tool name, and what it writes in the place of one that it does not.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BAD_TOOL_NAME = "INVALID_TOOL_NAME"
_BLANK = "[blank text]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the host was already shown of an answer while it was sampled.

    Attributes:
        reasoning: Reasoning shown so far.
        text: Text shown so far.
    """

    reasoning: str = ""
    text: str = ""

    def begins(self, reasoning: str, text: str) -> bool:
        """Whether an answer begins with what was shown: all of its reasoning, once text was shown."""
        whole = reasoning == self.reasoning if self.text else reasoning.startswith(self.reasoning)
        return whole and text.startswith(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the model.

    Attributes:
        blocks: Its content blocks, as Strands will store them.
        stop_reason: Strands' stop reason.
    """

    blocks: Sequence[Block]
    stop_reason: str

    @classmethod
    def of(cls, parsed: ParsedTurn, finish: FinishReason, shown: Shown | None = None) -> Answer:
        """Build the answer from what was parsed, how the generation ended, and what was shown of it."""
        reasoning, text = parsed.reasoning or "", parsed.content
        blocks: list[Block] = []
        if shown is not None and not shown.begins(reasoning, text):
            # It cannot be taken back: the host keeps it, before the answer as it turned out to be.
            blocks = _text_blocks(shown.reasoning, shown.text)
        blocks += _text_blocks(reasoning, text)
        blocks.extend({"toolUse": tool_use(call)} for call in parsed.calls)
        return cls(blocks=blocks, stop_reason=stop_reason(parsed, finish))

    def host_forms(self) -> list[dict[str, Any]]:
        """Return every form in which Strands may hand the answer back in later calls.

        It normalises each copy it hands out, and where a turn was cut by length it first replaces tool uses by texts.
        """
        blocks = self.blocks
        if self.stop_reason == "max_tokens":
            blocks = [_cut_tool_use(block) for block in blocks]
        forms = [_normalised(blocks)]
        if (plain := list(blocks)) != forms[0]:
            forms.append(plain)
        return [{"role": "assistant", "content": form} for form in forms]


def tool_use(call: ToolParseResult) -> dict[str, Any]:
    """Return a call attempt as a tool use; a failed one goes to the reserved tool."""
    if not call.is_error:
        # As the host will read it: it gets the input as JSON text.
        return {"toolUseId": call.id, "name": call.name, "input": json.loads(call.payload)}
    reason = f"The tool call was not executed: {call.reason}"
    return {
        "toolUseId": call.id,
        "name": INVALID_TOOL_CALL,
        "input": {"name": call.name, "reason": reason, "raw": call.raw},
    }


def stop_reason(parsed: ParsedTurn, finish: FinishReason) -> str:
    """Map how a generation ended to Strands' stop reason; a cut by length wins over calls."""
    if finish.type is FinishType.LENGTH:
        return "max_tokens"
    if parsed.calls:
        return "tool_use"
    return "stop_sequence" if isinstance(finish.matched, str) else "end_turn"


def usage_of(prompt_tokens: int, reply: GenerateReply) -> dict[str, int]:
    """Return Strands' usage; cached tokens are part of the input."""
    sampled = len(reply.output_ids)
    usage = {"inputTokens": prompt_tokens, "outputTokens": sampled, "totalTokens": prompt_tokens + sampled}
    if reply.cached_tokens is not None:
        usage["cacheReadInputTokens"] = reply.cached_tokens
    return usage


def _text_blocks(reasoning: str, text: str) -> list[Block]:
    """Return the blocks of what is not empty."""
    blocks: list[Block] = []
    if reasoning:
        blocks.append({"reasoningContent": {"reasoningText": {"text": reasoning}}})
    if text:
        blocks.append({"text": text})
    return blocks


def _cut_tool_use(block: Block) -> Block:
    """Return what Strands stores in the place of a tool use when the turn was cut by length."""
    if "toolUse" not in block:
        return block
    name = block["toolUse"]["name"] or "<unknown>"
    text = f"The selected tool {name}'s tool use was incomplete due to maximum token limits being reached."
    return {"text": text}


def _normalised(blocks: Sequence[Block]) -> list[Block]:
    """Return an assistant message's blocks as Strands normalises them before it hands them out."""
    if not blocks:
        return [{"text": _BLANK}]
    if any("toolUse" in block for block in blocks):
        kept = [block for block in blocks if "text" not in block or block["text"].strip()]
        return [_valid_name(block) for block in kept]
    return [{"text": _BLANK} if "text" in block and not block["text"].strip() else block for block in blocks]


def _valid_name(block: Block) -> Block:
    """Replace the name of a tool use that Strands does not accept."""
    use: Mapping[str, Any] | None = block.get("toolUse")
    if use is None or _TOOL_NAME.fullmatch(use["name"]):
        return block
    return {"toolUse": {**use, "name": _BAD_TOOL_NAME}}

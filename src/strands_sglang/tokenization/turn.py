"""What goes into a bridge and what comes out: a sampled turn, prompt ids, guarded literals.

Owns the three records that callers of this package handle. Invariant of a bridge, with `t = trimmed`:

    next prompt = turn.prompt_ids + turn.ids[:len(turn.ids) - t] + bridge.ids

Never holds text of a sampled turn: ids are the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTurn:
    """One turn as the engine sampled it and as the host holds it.

    Attributes:
        ids: The sampled ids exactly as the engine returned them; empty when it returned none.
        message: The assistant message as the host holds it: content, reasoning_content, tool_calls with the real
            names and ids. Only its shape, names and ids are used; its text is never encoded.
        prompt_ids: The ids the turn was sampled after. Only those since the last role header are looked at.
        finish_reason: Why the engine stopped: "stop", "length" or "abort". Kept for the caller; what is missing of
            the turn's end is decided from the ids alone.
    """

    ids: Sequence[int]
    message: Mapping[str, Any]
    prompt_ids: Sequence[int]
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedLiteral:
    """A control token's text that stood in content and was encoded as plain text.

    Attributes:
        literal: The text, such as "<|im_end|>".
        where: The place of its first occurrence, such as "messages[2].content" or "tools[0].function.description".
        count: How often it occurs in that place.
    """

    literal: str
    where: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """Ids to send: a whole first prompt, or what follows a sampled turn.

    Attributes:
        ids: The ids.
        guarded: Control token literals found in content, one entry per literal and place; empty when there are none
            or the guard is off.
        trimmed: How many sampled ids at the end of the recorded context these ids replace: 0, or 1 where the sampled
            stop token is one that the template replaces (another role's header, or `<|return|>` by `<|end|>`).
    """

    ids: list[int]
    guarded: tuple[GuardedLiteral, ...] = ()
    trimmed: int = 0

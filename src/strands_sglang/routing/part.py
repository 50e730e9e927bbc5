"""What one turn brought of routing rows, and for which positions they are the ones wanted.

Owns the reading of a sampled segment's facts: where its rows begin, how many there have to be, which of them come from
a later prefill by other weights, and by which weights its prompt was read. Decodes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from strands_sglang.errors import RoutingError

_BYTES = 4  # an int32


class SegmentRead(Protocol):
    """What is read of a segment of a rollout; see `strands_sglang.rollout.Segment`."""

    @property
    def is_sampled(self) -> bool:
        """Whether the engine sampled these tokens."""

    @property
    def replaces(self) -> int:
        """How many tokens before it it takes the place of."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else is known of it."""

    @property
    def weight_spans(self) -> Sequence[tuple[str, int, int]]:
        """Which weights sampled which of its tokens."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPart:
    """What one turn brought.

    Attributes:
        turn: Number of the turn within the branch, counted from 0; for error messages.
        payload: Base64 of int32 rows in C order, each `[layers, top_k]`; None where the turn brought none.
        start: Absolute position of the first row.
        prompt: Tokens of the whole prompt, context included.
        sampled: Sampled tokens. The rows are those of positions `start` to `prompt + sampled - 2`.
        kept: How many of the `prompt + sampled` tokens stand in the branch: fewer where the next prompt replaces some.
        refed: Positions `(start, end)` whose rows come from a later prefill by other weights.
        weights: The one version of the weights that sampled the turn, None where there are several or it is not sure.
        first_weights: The version that its prompt was read by, None where it is not sure.
    """

    turn: int
    payload: str | None
    start: int
    prompt: int
    sampled: int
    kept: int
    refed: tuple[tuple[int, int], ...] = ()
    weights: str | None = None
    first_weights: str | None = None

    @property
    def fed(self) -> int:
        """How many positions of the branch were fed once the turn was over."""
        return min(self.prompt + self.sampled - 1, self.kept)

    @property
    def rows(self) -> int:
        """How many rows there have to be."""
        return self.prompt + self.sampled - 1 - self.start

    def true_rows(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches within `[low, high)` for which it has rows that are not refed."""
        if self.payload is not None:
            low, high = max(low, self.start), min(high, self.start + self.rows, self.kept)
            yield from between(self.refed, low, high)

    def numbers(self) -> int:
        """Return how many numbers the payload holds, without decoding it."""
        payload = self.payload or ""
        size, rest = divmod(len(payload) * 3 // 4 - payload[-2:].count("="), _BYTES)
        if rest or len(payload) % 4:
            raise RoutingError(f"turn {self.turn}: {len(payload)} characters are not base64 of int32 numbers")
        return size


def part_of(segment: SegmentRead, kind: str, *, turn: int, prompt: int, kept: int) -> RoutedPart:
    """Read what a sampled segment brought; `prompt` tokens stand before it."""
    facts = segment.facts
    payload = facts.get(kind)
    start = 0 if kind != "routed_experts" else facts.get("routed_experts_start_len")
    if payload is not None:
        if type(start) is not int or not 0 <= start <= prompt:
            raise RoutingError(
                f"turn {turn}: routed_experts_start_len is {start!r}, no position of its {prompt} prompt tokens"
            )
        if (read := facts.get("prompt_tokens")) not in (None, prompt):
            raise RoutingError(
                f"turn {turn}: the server read {read} prompt tokens where {prompt} are recorded (images are expanded "
                "there), so that its rows cannot be placed"
            )
    spans = segment.weight_spans
    versions = {span[0] for span in spans}
    sure = bool(spans) and not facts.get("weights_widened") and spans[0][1] == 0
    return RoutedPart(
        turn=turn,
        payload=payload,
        start=start or 0,
        prompt=prompt,
        sampled=len(segment),
        kept=kept,
        refed=_stretches(facts.get(f"{kind}_refed"), f"turn {turn}: {kind}_refed"),
        weights=spans[0][0] if sure and len(versions) == 1 and spans[-1][2] == len(segment) else None,
        first_weights=spans[0][0] if sure else None,
    )


def _stretches(fact: Any, name: str) -> tuple[tuple[int, int], ...]:
    """Read a fact that is a list of `[start, end]`."""
    try:
        stretches = tuple((start, end) for start, end in fact or ())
    except (TypeError, ValueError):
        stretches = ((-1, -1),)
    if not all(type(start) is type(end) is int and 0 <= start <= end for start, end in stretches):
        raise RoutingError(f"{name} is {fact!r}, no list of positions [start, end]")
    return stretches


def between(stretches: Iterable[tuple[int, int]], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield what of `[low, high)` lies in none of the stretches."""
    for begin, end in sorted(stretches):
        if low < min(begin, high):
            yield low, min(begin, high)
        low = max(low, end)
    if low < high:
        yield low, high

"""Which experts each token of a branch was routed to, stitched from what its turns brought.

Owns the placing of routing rows by absolute position, and the three shapes in which trainers take them.
Invariant: the row at position p was computed when token p was first fed to the model, or p is marked as missing. The
last token of a branch was never fed and has no row; the last token of an earlier turn has the row of the next prefill.
A turn that the server retracted and carried on under other weights brings no rows for what was fed before the update:
those it sends are the new weights'. Payloads are counted when they are stitched and decoded when rows are asked for.
Never guesses a shape, a start or a row; never changes the record; NumPy is loaded only to decode.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .errors import RoutingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Missing = Literal["raise", "zero", "mark"]
"""What becomes of a row that the server never gave: an error, zeros, or -1 in a signed dtype."""

_BYTES = 4  # an int32
_KINDS = ("routed_experts", "indexer_topk")


class _Segment(Protocol):
    """What is read of a segment of a rollout."""

    @property
    def is_sampled(self) -> bool: ...
    @property
    def replaces(self) -> int: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def weight_spans(self) -> Sequence[tuple[str, int, int]]: ...
    def __len__(self) -> int: ...


class _Branch(Protocol):
    """What is read of a rollout."""

    @property
    def segments(self) -> Sequence[_Segment]: ...


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
        true_from: Absolute position from which on the rows are those of the weights that sampled.
    """

    turn: int
    payload: str | None
    start: int
    prompt: int
    sampled: int
    kept: int
    true_from: int = 0

    @property
    def rows(self) -> int:
        """How many rows there have to be."""
        return self.prompt + self.sampled - 1 - self.start

    def numbers(self) -> int:
        """Return how many numbers the payload holds, without decoding it."""
        payload = self.payload or ""
        size, rest = divmod(len(payload) * 3 // 4 - payload[-2:].count("="), _BYTES)
        if rest or len(payload) % 4:
            raise RoutingError(f"turn {self.turn}: {len(payload)} characters are not base64 of int32 numbers")
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedExperts:
    """The routing rows of one branch.

    Attributes:
        length: Tokens of the branch.
        num_layers: Layers in each row, dense ones (all zero) included.
        top_k: Experts per token and layer.
        parts: What each turn brought, in order.
        segments: Lengths of the branch's segments within it; their sum is `length`.
        kind: Name of the fact that the rows are read from.
    """

    length: int
    num_layers: int
    top_k: int
    parts: tuple[RoutedPart, ...]
    segments: tuple[int, ...] = ()
    kind: str = "routed_experts"

    @property
    def available(self) -> list[bool]:
        """Whether each token has a row; length `length`, the last entry always false."""
        found = [False] * self.length
        for _, begin, end in self._placed():
            found[begin:end] = [True] * (end - begin)
        return found

    def fed_rows(self, *, missing: Missing = "raise") -> NDArray[Any]:
        """Return the rows of every token but the last: `[length - 1, layers, top_k]`, a fresh array.

        The dtype is the smallest of uint8, uint16 and int32 that holds the largest id (int16 or int32 with "mark").

        Args:
            missing: What becomes of a row that the server never gave.

        Raises:
            RoutingError: If a row is missing and `missing` is "raise", or a payload is damaged.
            ValueError: If `missing` is none of these.
        """
        rows, given = self._decoded(missing)
        return self._filled(rows, given, max(0, self.length - 1), missing)

    def padded_rows(self, *, missing: Missing = "raise") -> NDArray[Any]:
        """Return `[length, layers, top_k]`: `fed_rows`, and zeros (or -1 with "mark") for the last token."""
        rows, given = self._decoded(missing)
        return self._filled(rows, given, self.length, missing)

    def segment_rows(self, *, missing: Missing = "raise") -> list[NDArray[Any]]:
        """Return `padded_rows` cut into the branch's segments, one array of `[n, layers, top_k]` each."""
        padded = self.padded_rows(missing=missing)
        ends = [sum(self.segments[: number + 1]) for number in range(len(self.segments))]
        return [padded[end - length : end].copy() for end, length in zip(ends, self.segments, strict=True)]

    def _placed(self) -> Iterator[tuple[RoutedPart, int, int]]:
        """Yield each part with the stretches of positions for which it is the first to give rows."""
        uncovered = [(0, self.length)]
        for part in self.parts:
            if part.payload is None:
                continue
            last = min(part.start + part.rows, part.kept)
            left: list[tuple[int, int]] = []
            for begin, end in uncovered:
                low, high = max(begin, part.start, part.true_from), min(end, last)
                if low >= high:
                    left.append((begin, end))
                    continue
                yield part, low, high
                left += [piece for piece in ((begin, low), (high, end)) if piece[0] < piece[1]]
            uncovered = left

    def _decoded(self, missing: Missing) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return int32 rows of the whole branch, and which of them were given."""
        if missing not in ("raise", "zero", "mark"):
            raise ValueError(f"missing must be 'raise', 'zero' or 'mark', got {missing!r}")
        import numpy as np

        rows = np.zeros((self.length, self.num_layers, self.top_k), np.int32)
        given = np.zeros(self.length, np.bool_)
        decoded: tuple[RoutedPart, NDArray[np.int32]] | None = None
        for part, begin, end in self._placed():
            if decoded is None or decoded[0] is not part:
                decoded = part, self._rows_of(part)
            rows[begin:end] = decoded[1][begin - part.start : end - part.start]
            given[begin:end] = True
        self._check_values(rows, given)
        return rows, given

    def _rows_of(self, part: RoutedPart) -> NDArray[np.int32]:
        import numpy as np

        try:
            raw = base64.b64decode(part.payload or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise RoutingError(f"turn {part.turn}: {self.kind} is not base64: {error}") from error
        return np.frombuffer(raw, "<i4").reshape(part.rows, self.num_layers, self.top_k).astype(np.int32)

    def _check_values(self, rows: NDArray[np.int32], given: NDArray[np.bool_]) -> None:
        """Refuse numbers that cannot be experts: negative ones, and rows that nobody wrote."""
        if self.kind != "routed_experts":
            return
        if int(rows.min(initial=0)) < 0:
            at = int((rows < 0).any(axis=(1, 2)).argmax())
            raise RoutingError(f"position {at}: expert {int(rows[at].min())} is negative")
        if self.top_k > 1:
            empty = given & ~rows.any(axis=(1, 2))
            if empty.any():
                raise RoutingError(
                    f"position {int(empty.argmax())}: the same expert 0 in every place of every layer, in "
                    f"{int(empty.sum())} rows: the server sent rows that it never captured"
                )

    def _filled(self, rows: NDArray[np.int32], given: NDArray[np.bool_], length: int, missing: Missing) -> NDArray[Any]:
        import numpy as np

        inner = given[: max(0, self.length - 1)]
        if missing == "raise" and not inner.all():
            absent = np.flatnonzero(~inner)
            raise RoutingError(
                f"{self.kind}: {len(absent)} of {len(inner)} tokens have no row, the first at position "
                f"{int(absent[0])}; missing='zero' or 'mark' says what they become"
            )
        if missing == "mark":
            rows[~given] = -1
        kept = rows[:length]
        return kept.astype(_dtype(int(kept.max(initial=0)), int(kept.min(initial=0))))


def routed_experts(
    branch: _Branch, *, num_layers: int | None = None, top_k: int | None = None, kind: str = "routed_experts"
) -> RoutedExperts:
    """Stitch the routing rows of one branch.

    Args:
        branch: A `Rollout`, such as `Sample.rollout`.
        num_layers: Hidden layers of the model, dense ones included; None to derive it from `top_k`.
        top_k: Experts per token; None to derive it from `num_layers`. The replies do not tell the shape, so that at
            least one has to be given; `routing_shape` reads both from the model's configuration.
        kind: "routed_experts", or "indexer_topk" for the ids that a sparse-attention indexer chose.

    Raises:
        RoutingError: If no turn brought rows, or their counts do not fit the tokens or the shape.
    """
    if kind not in _KINDS:
        raise RoutingError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    segments = branch.segments
    after = [segment.replaces for segment in segments[1:]] + [0]
    lengths = tuple(len(segment) - replaced for segment, replaced in zip(segments, after, strict=True))
    parts: list[RoutedPart] = []
    position = 0
    for segment, length in zip(segments, lengths, strict=True):
        if segment.is_sampled:
            parts.append(_part(segment, kind, turn=len(parts), prompt=position, kept=position + length))
        position += length
    return stitch(parts, length=position, num_layers=num_layers, top_k=top_k, segments=lengths, kind=kind)


def stitch(
    parts: Iterable[RoutedPart],
    *,
    length: int,
    num_layers: int | None = None,
    top_k: int | None = None,
    segments: Sequence[int] = (),
    kind: str = "routed_experts",
) -> RoutedExperts:
    """Stitch parts that were gathered by hand; `routed_experts` does it for a rollout.

    Args:
        parts: What each turn brought, in order.
        length: Tokens of the branch.
        num_layers: See `routed_experts`.
        top_k: See `routed_experts`.
        segments: Lengths of the branch's segments.
        kind: Name of what is stitched.

    Raises:
        RoutingError: If no part has rows, or their counts do not fit the tokens or the shape.
    """
    known = tuple(parts)
    if not any(part.payload is not None for part in known):
        raise RoutingError(
            f"no turn of this branch brought {kind}",
            hint="ask for them with return_routed_experts=True, from a server started with "
            "--enable-return-routed-experts",
        )
    width = _width(known, kind, num_layers, top_k)
    layers, experts = _shape(width, num_layers, top_k)
    return RoutedExperts(
        length=length, num_layers=layers, top_k=experts, parts=known, segments=tuple(segments), kind=kind
    )


def routing_shape(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return (layers, top-k) from a model's `config.json`.

    Args:
        config: The configuration as a dict.

    Raises:
        RoutingError: If it does not say them, as for a dense model.
    """
    for part in (config, config.get("text_config") or {}):
        layers, top_k = part.get("num_hidden_layers"), next(filter(None, map(part.get, _TOP_K_KEYS)), None)
        if isinstance(layers, int) and isinstance(top_k, int):
            return layers, top_k
    raise RoutingError(
        f"the configuration of {config.get('model_type', 'this model')} names no num_hidden_layers with one of "
        f"{', '.join(_TOP_K_KEYS)}: is it a mixture of experts?"
    )


_TOP_K_KEYS = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k")


def _part(segment: _Segment, kind: str, *, turn: int, prompt: int, kept: int) -> RoutedPart:
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
    return RoutedPart(
        turn=turn,
        payload=payload,
        start=start or 0,
        prompt=prompt,
        sampled=len(segment),
        kept=kept,
        true_from=_true_from(segment, prompt),
    )


def _true_from(segment: _Segment, prompt: int) -> int:
    """Return the first position whose row is of the weights that sampled the token behind it.

    A retracted generation is prefilled again, and the rows that are sent are those of that prefill: after an update in
    between, of other weights than those that sampled. What the last weights sampled themselves, they were fed first.
    """
    spans = segment.weight_spans
    if not segment.facts.get("retractions") or len(spans) < 2:
        return 0
    return prompt + max(span[1] for span in spans) - 1


def _width(parts: Sequence[RoutedPart], kind: str, num_layers: int | None, top_k: int | None) -> int:
    """Return the numbers in a row, on which all parts have to agree."""
    expected = num_layers * top_k if num_layers and top_k else None
    for part in parts:
        if part.payload is None:
            continue
        numbers = part.numbers()
        if not part.rows and not numbers:
            continue
        width, rest = divmod(numbers, part.rows) if part.rows > 0 else (0, numbers)
        if rest or not width or width != (expected or width):
            shape = (
                f"{expected} numbers ({num_layers} layers, top {top_k})"
                if num_layers and top_k
                else (f"{expected} numbers, as in the turns before" if expected else "equal size")
            )
            raise RoutingError(
                f"turn {part.turn}: {kind} holds {numbers} numbers, which are not {part.rows} rows of {shape}, for "
                f"{part.prompt} prompt and {part.sampled} sampled tokens from position {part.start} on",
                hint="another model's layers or top-k, or a server older than 0.5.12, which sends all rows whatever "
                "routed_experts_start_len says",
            )
        expected = width
    if expected is None:
        raise RoutingError(f"the turns of this branch brought {kind} without a single row")
    return expected


def _shape(width: int, num_layers: int | None, top_k: int | None) -> tuple[int, int]:
    """Return layers and top-k of rows of `width` numbers."""
    if num_layers and top_k:
        return num_layers, top_k
    known = num_layers or top_k
    if not known or known < 1:
        raise RoutingError(
            f"rows of {width} numbers may be any layers times top-k: give num_layers, top_k, or both",
            hint="routing_shape(config) reads them from the model's config.json",
        )
    other, rest = divmod(width, known)
    if rest:
        raise RoutingError(f"rows of {width} numbers cannot be {known} {'layers' if num_layers else 'experts each'}")
    return (known, other) if num_layers else (other, known)


def _dtype(largest: int, smallest: int) -> str:
    if smallest < 0:
        return "int16" if largest < 1 << 15 and smallest >= -(1 << 15) else "int32"
    return "uint8" if largest < 1 << 8 else "uint16" if largest < 1 << 16 else "int32"

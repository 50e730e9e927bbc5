"""The routing rows of a branch, stitched from what its turns brought.

Owns the placing of routing rows by absolute position, and the three shapes in which trainers take them.
Invariant: the row at position p was computed when token p was first fed to the model, or by a later prefill of the very
weights that sampled, or p is marked as missing. The last token of a branch was never fed and has no row; the last token
of an earlier turn has the row of the next prefill. Payloads are counted when they are stitched and decoded when rows
are asked for. Never guesses a shape, a start or a row; never changes the record; NumPy is loaded only to decode.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from strands_sglang.errors import RoutingError

from .part import RoutedPart, SegmentRead, between, part_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Missing = Literal["raise", "zero", "mark"]
"""What becomes of a row that the server never gave: an error, zeros, or -1 in a signed dtype."""

_KINDS = ("routed_experts", "indexer_topk")


class _Branch(Protocol):
    """What is read of a rollout."""

    @property
    def segments(self) -> Sequence[SegmentRead]: ...


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
        """Yield each part with the stretches of positions that it gives rows for: once for each position."""
        fed = 0
        without: list[tuple[int, int, str | None]] = []  # fed and left without a row, and by which weights
        for part in self.parts:
            left = []
            for low, high, weights in [*without, (fed, part.fed, part.weights)]:
                # What was fed by an earlier turn is the same only under the same weights.
                if low < fed and (weights is None or weights != part.first_weights):
                    left.append((low, high, weights))
                    continue
                given = list(part.true_rows(low, high))
                for begin, end in given:
                    yield part, begin, end
                left += [(begin, end, weights) for begin, end in between(given, low, high)]
            without, fed = left, max(fed, part.fed)

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
            parts.append(part_of(segment, kind, turn=len(parts), prompt=position, kept=position + length))
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

"""The linear record of one branch: which ids were read, which were sampled, and what is known of each.

A `Rollout` is a sequence of `Segment`s, alternately prompt and sampled. For its three flat lists
`len(token_ids) == len(loss_mask) == len(logprobs)` (guarantee G5), `loss_mask[i] == 1` exactly where the engine
sampled `token_ids[i]` (G1, G4), and a value that was not measured is None, never 0.0. Appending is the only way
to change a rollout; segments are shared between branches and never change. Ids are kept as 32-bit and logprobs as
64-bit arrays: 12 bytes a sampled token, 4 bytes a prompt token.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from .errors import RecordError, RecordFormatError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

FORMAT = "strands-sglang/rollout"
VERSION = 1


class SegmentKind(StrEnum):
    """Who wrote the tokens of a segment."""

    PROMPT = "prompt"
    """Template, user, tools, system, and whatever closes a turn that was not sampled: loss mask 0."""
    SAMPLED = "sampled"
    """The engine, in one turn: loss mask 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of tokens with one origin.

    Attributes:
        kind: Who wrote the tokens.
        ids: Token ids. A sampled segment holds every id the engine returned, in order.
        logprobs: One natural-log probability per id, NaN where it was not measured; None where none was.
        replaces: How many ids at the end of the preceding context this segment takes the place of. It is 0 but for
            templates whose turn ends with the next role's header, when the model sampled another role's header.
        weight_spans: `(version, start, end)` over this segment's ids; empty where the server told none.
        message_index: Index of the assistant message that a sampled segment became, None for prompts.
        facts: What else is known of the turn: finish reason, temperature, cached tokens, retries ... (JSON values).
    """

    kind: SegmentKind
    ids: array[int]
    logprobs: array[float] | None = None
    replaces: int = 0
    weight_spans: tuple[tuple[str, int, int], ...] = ()
    message_index: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would break the lengths of the columns."""
        if self.replaces < 0:
            raise RecordError(f"a segment cannot replace {self.replaces} ids")
        for version, start, end in self.weight_spans:
            if not 0 <= start <= end <= len(self.ids):
                raise RecordError(f"weights {version!r}: the span {start} to {end} is not within {len(self.ids)} ids")

    @classmethod
    def of(
        cls,
        kind: SegmentKind,
        ids: Iterable[int],
        logprobs: Sequence[float | None] | None = None,
        **rest: Any,
    ) -> Segment:
        """Build a segment from plain lists.

        Args:
            kind: Who wrote the tokens.
            ids: Token ids.
            logprobs: One value or None per id, or None where nothing was measured.
            **rest: The other attributes.

        Raises:
            RecordError: If the lengths differ, or an id is negative or does not fit 32 bits.
        """
        try:
            packed = array("i", ids)
        except (OverflowError, TypeError) as error:
            raise RecordError(f"token ids must be integers below 2**31: {error}") from error
        if packed and min(packed) < 0:
            raise RecordError(f"token ids must not be negative, got {min(packed)}")
        values = None
        if logprobs is not None:
            values = array("d", (math.nan if value is None else value for value in logprobs))
            if len(values) != len(packed):
                raise RecordError(f"{len(packed)} token ids but {len(values)} logprobs in one segment")
        return cls(kind=kind, ids=packed, logprobs=values, **rest)

    @property
    def is_sampled(self) -> bool:
        """Whether the engine sampled these tokens."""
        return self.kind is SegmentKind.SAMPLED

    def __len__(self) -> int:
        return len(self.ids)

    def logprob_list(self) -> list[float | None]:
        """Return one value or None per id."""
        if self.logprobs is None:
            return [None] * len(self.ids)
        return [None if math.isnan(value) else value for value in self.logprobs]

    def version_list(self) -> list[str | None]:
        """Return the weight version under which each id was sampled, None where unknown or not sampled."""
        versions: list[str | None] = [None] * len(self.ids)
        for version, start, end in self.weight_spans:
            versions[start:end] = [version] * (min(end, len(versions)) - start)
        return versions


class Rollout:
    """One branch, flat: prompt and sampled tokens in the order in which the engine saw them.

    Example:
        >>> rollout = Rollout()
        >>> rollout.append(Segment.of(SegmentKind.PROMPT, [1, 2]))
        >>> rollout.append(Segment.of(SegmentKind.SAMPLED, [3], [-0.5]))
        >>> rollout.token_ids, rollout.loss_mask, rollout.logprobs
        ([1, 2, 3], [0, 0, 1], [None, None, -0.5])
    """

    def __init__(self, segments: Iterable[Segment] = (), *, image_data: Iterable[str] = ()) -> None:
        """Create a rollout.

        Args:
            segments: The segments it begins with.
            image_data: Images as data URLs, in the order of their placeholders.

        Raises:
            RecordError: If the first segment is not a prompt, or a segment replaces more than there is.
        """
        self._segments: list[Segment] = []
        self._length = 0
        self.image_data: list[str] = list(image_data)
        for segment in segments:
            self.append(segment)

    def append(self, segment: Segment) -> None:
        """Append one segment; the only way in which a rollout changes.

        Raises:
            RecordError: If the first segment is not a prompt, or a segment replaces more than there is.
        """
        if not self._segments and segment.is_sampled:
            raise RecordError("a rollout begins with a prompt segment, not with a sampled one")
        if segment.replaces and segment.replaces > (len(self._segments[-1]) if self._segments else 0):
            raise RecordError(f"a segment replaces {segment.replaces} ids, but fewer stand before it")
        self._segments.append(segment)
        self._length += len(segment) - segment.replaces

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in order. A segment keeps all its ids also where the next one replaces some of them."""
        return tuple(self._segments)

    def _parts(self) -> Iterator[tuple[Segment, int]]:
        """Yield each segment with the number of its ids that stand in the context."""
        for segment, after in zip_longest(self._segments, self._segments[1:]):
            yield segment, len(segment) - (after.replaces if after is not None else 0)

    @property
    def token_ids(self) -> list[int]:
        """All ids the engine read or sampled, in order, as a fresh list of length `len(self)`."""
        ids: list[int] = []
        for segment, length in self._parts():
            ids.extend(segment.ids[:length])
        return ids

    @property
    def loss_mask(self) -> list[int]:
        """1 where the engine sampled the token, else 0; length `len(self)`."""
        mask: list[int] = []
        for segment, length in self._parts():
            mask.extend([int(segment.is_sampled)] * length)
        return mask

    @property
    def logprobs(self) -> list[float | None]:
        """Natural-log probability of each token, None where it was not measured; length `len(self)`."""
        values: list[float | None] = []
        for segment, length in self._parts():
            values.extend(segment.logprob_list()[:length])
        return values

    @property
    def weight_versions(self) -> list[str | None]:
        """Weight version under which each token was sampled, None for prompt tokens; length `len(self)`."""
        versions: list[str | None] = []
        for segment, length in self._parts():
            versions.extend(segment.version_list()[:length])
        return versions

    @property
    def segment_info(self) -> list[tuple[bool, int]]:
        """`(is_sampled, length)` per segment; the lengths add up to `len(self)`."""
        return [(segment.is_sampled, length) for segment, length in self._parts()]

    @property
    def initial_prompt_length(self) -> int:
        """Number of tokens before the first sampled one; 0 for an empty rollout."""
        return self.segment_info[0][1] if self._segments else 0

    @property
    def routed_experts(self) -> list[str]:
        """Base64 of the expert rows of each turn, as the server gave them; empty where not asked for."""
        found = (segment.facts.get("routed_experts") for segment in self._segments)
        return [rows for rows in found if rows is not None]

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        """True, as for any object that is not a container: `len` counts tokens, an empty rollout is still one."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rollout):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # equal by value and growing

    def __repr__(self) -> str:
        sampled = sum(length for is_sampled, length in self.segment_info if is_sampled)
        return f"Rollout(tokens={len(self)}, sampled={sampled}, segments={len(self._segments)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the rollout as JSON values, with its format and version."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "segments": [_segment_to_dict(segment) for segment in self._segments],
            "image_data": list(self.image_data),
        }

    def to_json(self) -> str:
        """Return the rollout as one line of JSON; `from_json` gives an equal one back."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Rollout:
        """Read what `to_dict` wrote.

        Raises:
            RecordFormatError: If it is of another format or an unknown version, or damaged.
        """
        if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
            raise RecordFormatError(f"not a saved rollout: expected format {FORMAT!r}")
        if saved.get("version") != VERSION:
            raise RecordFormatError(
                f"rollout version {saved.get('version')!r} is unknown; this release reads {VERSION}"
            )
        try:
            return cls((_segment_from_dict(row) for row in saved["segments"]), image_data=saved["image_data"])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise RecordFormatError(f"damaged rollout: {error!r}") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Rollout:
        """Read what `to_json` wrote.

        Raises:
            RecordFormatError: If it is not JSON, of another format or an unknown version, or damaged.
        """
        try:
            saved = json.loads(text)
        except (RecursionError, ValueError) as error:
            raise RecordFormatError(f"not a saved rollout: {error}") from error
        return cls.from_dict(saved)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let a rollout be a field of a pydantic model: kept as it is, serialised by `to_dict`."""
        from pydantic_core import core_schema

        read = core_schema.no_info_plain_validator_function(cls.from_dict)
        return core_schema.json_or_python_schema(
            json_schema=read,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), read]),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )


def _segment_to_dict(segment: Segment) -> dict[str, Any]:
    """Return a segment as JSON values, leaving out what is at its default."""
    row: dict[str, Any] = {"kind": segment.kind.value, "ids": segment.ids.tolist()}
    if segment.logprobs is not None:
        row["logprobs"] = segment.logprob_list()
    if segment.replaces:
        row["replaces"] = segment.replaces
    if segment.weight_spans:
        row["weight_spans"] = [list(span) for span in segment.weight_spans]
    if segment.message_index is not None:
        row["message_index"] = segment.message_index
    if segment.facts:
        row["facts"] = dict(segment.facts)
    return row


def _segment_from_dict(row: Mapping[str, Any]) -> Segment:
    """Read what `_segment_to_dict` wrote."""
    unknown = row.keys() - {"kind", "ids", "logprobs", "replaces", "weight_spans", "message_index", "facts"}
    if unknown:
        raise ValueError(f"unknown segment fields {sorted(unknown)}")
    index, facts = row.get("message_index"), row.get("facts", {})
    if not isinstance(facts, Mapping) or not (index is None or type(index) is int):
        raise TypeError(f"facts must be an object and message_index an integer, got {facts!r} and {index!r}")
    return Segment.of(
        SegmentKind(row["kind"]),
        row["ids"],
        row.get("logprobs"),
        replaces=int(row.get("replaces", 0)),
        weight_spans=tuple((str(version), int(start), int(end)) for version, start, end in row.get("weight_spans", ())),
        message_index=index,
        facts=facts,
    )

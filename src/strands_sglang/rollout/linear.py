"""`Rollout`: one branch, flat.

A `Rollout` is a sequence of `Segment`s, alternately prompt and sampled. For its three flat lists
`len(token_ids) == len(loss_mask) == len(logprobs)` (guarantee G5), `loss_mask[i] == 1` exactly where the engine
sampled `token_ids[i]` (G1, G4), and a value that was not measured is None, never 0.0. Appending is the only way
to change a rollout; segments are shared between branches and never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import RecordError

from .saved import Fields, Format, pydantic_schema, segment_from_fields, segment_to_dict
from .segment import Segment
from .values import identities

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

FORMAT = Format(name="strands-sglang/rollout", version=1)


class Rollout:
    """One branch, flat: prompt and sampled tokens in the order in which the engine saw them.

    Example:
        >>> from strands_sglang.rollout import Segment, SegmentKind
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
        """Return the rollout as JSON values, with its format and version.

        Raises:
            RecordError: If a fact is not a JSON value.
        """
        rows = [segment_to_dict(segment, f"segments[{at}]") for at, segment in enumerate(self._segments)]
        return {**FORMAT.header(), "segments": rows, "image_data": identities(self.image_data, "image_data")}

    def to_json(self) -> str:
        """Return the rollout as one line of JSON; `from_json` gives an equal one back."""
        return FORMAT.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Rollout:
        """Read what `to_dict` wrote, in this release or an older one.

        Raises:
            RecordFormatError: If it is of another format or an unknown version, or damaged.
        """
        fields = FORMAT.open(saved)
        rows = fields.take_list("segments", dict)
        rollout = cls(image_data=fields.take_value("image_data", identities))
        for at, row in enumerate(rows):
            place = Fields(row, FORMAT.noun, f"segments[{at}]")
            segment = segment_from_fields(place)
            try:
                rollout.append(segment)
            except RecordError as error:
                place.fail(None, f"does not fit: {error}")
        fields.close()
        return rollout

    @classmethod
    def from_json(cls, text: str | bytes) -> Rollout:
        """Read what `to_json` wrote.

        Raises:
            RecordFormatError: If it is not JSON, of another format or an unknown version, or damaged.
        """
        return cls.from_dict(FORMAT.loads(text))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let a rollout be a field of a pydantic model."""
        return pydantic_schema(cls)

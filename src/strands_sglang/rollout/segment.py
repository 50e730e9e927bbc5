"""`Segment`: a run of tokens with one origin, and what is known of it.

Ids are kept as 32-bit and logprobs as 64-bit arrays: 12 bytes a sampled token, 4 bytes a prompt token. A segment never
changes, and its columns always agree in length (guarantee G5). A logprob that was not measured is NaN inside and None
outside, never 0.0.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from strands_sglang.errors import RecordError

from .support import SamplingSupport


class SegmentKind(StrEnum):
    """Who wrote the tokens of a segment."""

    PROMPT = "prompt"
    """Template, user, tools, system, and whatever closes a turn that was not sampled: loss mask 0."""
    SAMPLED = "sampled"
    """The engine, in one turn: loss mask 1."""


class LogprobKind(StrEnum):
    """Of which distribution the logprobs of a segment are; the fact "logprob_kind"."""

    TEMPERED = "tempered"
    """Of the logits after penalties, bias and grammar, divided by the fact "temperature", over the whole vocabulary:
    before top-k, top-p and min-p cut it."""
    UNTEMPERED = "untempered"
    """As SGLang gives them for prompts, of the bare logits; and for greedy sampling, of the logits not divided by any
    temperature."""


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
        """Refuse what would break the lengths of the columns, or give an id two weight versions."""
        if not isinstance(self.ids, array) or not isinstance(self.logprobs, array | None):
            raise RecordError("a segment holds arrays; Segment.of makes one from lists")
        if self.logprobs is not None and len(self.logprobs) != len(self.ids):
            raise RecordError(f"{len(self.ids)} token ids but {len(self.logprobs)} logprobs in one segment")
        if self.replaces < 0:
            raise RecordError(f"a segment cannot replace {self.replaces} ids")
        reached = 0
        for version, start, end in self.weight_spans:
            if not 0 <= start <= end <= len(self.ids):
                raise RecordError(f"weights {version!r}: the span {start} to {end} is not within {len(self.ids)} ids")
            if start < reached:
                raise RecordError(f"weights {version!r}: the span from {start} begins before the one before it ends")
            reached = end

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
            ids: Token ids. An array of the right kind is taken over as it is: do not change it afterwards.
            logprobs: One value or None per id, or None where nothing was measured.
            **rest: The other attributes.

        Raises:
            RecordError: If the lengths differ, an id is negative or does not fit 32 bits, or a logprob is infinite.
        """
        try:
            packed = ids if isinstance(ids, array) and ids.typecode == "i" else array("i", ids)
        except (OverflowError, TypeError) as error:
            raise RecordError(f"token ids must be integers below 2**31: {error}") from error
        if packed and min(packed) < 0:
            raise RecordError(f"token ids must not be negative, got {min(packed)}")
        values = None
        if logprobs is not None:
            values = _packed(logprobs)
            if math.inf in values or -math.inf in values:
                raise RecordError("a logprob is infinite; give None for one that is not known")
        return cls(kind=kind, ids=packed, logprobs=values, **rest)

    @property
    def is_sampled(self) -> bool:
        """Whether the engine sampled these tokens."""
        return self.kind is SegmentKind.SAMPLED

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def support(self) -> SamplingSupport | None:
        """What truncation left to choose from, for each id; None where the server was not asked for it.

        Raises:
            RecordError: If the fact is damaged.
        """
        fact = self.facts.get("sampling_mask")
        return None if fact is None else SamplingSupport.from_fact(fact, len(self.ids))

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


def _packed(logprobs: Sequence[float | None]) -> array[float]:
    """Return values as an array, None as NaN."""
    try:
        return array("d", logprobs)  # type: ignore[arg-type]  # where none is None, which is the rule
    except TypeError:
        pass
    except OverflowError as error:
        raise RecordError(f"logprobs must be numbers that a float can hold: {error}") from error
    try:
        return array("d", (math.nan if value is None else value for value in logprobs))
    except (OverflowError, TypeError) as error:
        raise RecordError(f"logprobs must be numbers that a float can hold, or None: {error}") from error

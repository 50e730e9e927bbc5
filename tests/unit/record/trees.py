"""Random episodes for the tests of the record: trees with everything that a record can hold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Trajectory, Turn, TurnFate

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def examples(count: int) -> settings:
    """Settings for this many examples, however slow the machine is."""
    return settings(max_examples=count, deadline=None, suppress_health_check=CHECKS)


IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5)
LOGPROBS = st.none() | st.floats(max_value=0, allow_nan=False, allow_infinity=False)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(TEXTS, VALUES, max_size=2)


@st.composite
def segments(draw: st.DrawFn, kind: SegmentKind, *, replaceable: int = 0, ids: list[int] | None = None) -> Segment:
    """A segment with every attribute, that replaces at most `replaceable` ids."""
    ids = draw(IDS) if ids is None else ids
    cuts = sorted(draw(st.lists(st.integers(0, len(ids)), max_size=3)))
    return Segment.of(
        kind,
        ids,
        draw(st.none() | st.lists(LOGPROBS, min_size=len(ids), max_size=len(ids))),
        replaces=draw(st.integers(0, replaceable)),
        weight_spans=tuple((draw(TEXTS), start, end) for start, end in pairwise(cuts)),
        message_index=draw(st.none() | st.integers(0, 9)),
        facts=draw(OBJECTS),
    )


@st.composite
def turns(draw: st.DrawFn, before: list[Turn]) -> Turn:
    """A turn after any of those before, or a root; its sampled ids occur in no other turn."""
    parent = draw(st.none() | st.sampled_from(before)) if before else None
    index = len(before)
    sampled = [1000 * (index + 1) + at for at in range(draw(st.integers(0, 4)))]
    return Turn(
        index=index,
        parent=parent,
        prompt=draw(segments(SegmentKind.PROMPT, replaceable=min(1, len(parent.sampled)) if parent else 0)),
        sampled=draw(segments(SegmentKind.SAMPLED, ids=sampled)),
        conversation=draw(st.integers(0, 3)),
        lineage=parent.lineage if parent else draw(st.sampled_from(Lineage)),
        fate=draw(st.sampled_from(TurnFate)),
        images=tuple(draw(st.lists(TEXTS, max_size=2))),
        credit=draw(st.dictionaries(TEXTS, NUMBERS, max_size=2)),
    )


@st.composite
def trajectories(draw: st.DrawFn, *, most: int = 6) -> Trajectory:
    """A random forest of turns, with everything that belongs to an episode."""
    trajectory = Trajectory(
        id=draw(TEXTS),
        termination=draw(
            st.none() | st.builds(Termination, reason=st.sampled_from(TerminationReason), detail=TEXTS),
        ),
        reward=draw(st.none() | NUMBERS),
        group_id=draw(st.none() | TEXTS),
        group_index=draw(st.none() | st.integers(0, 9)),
        metadata=draw(OBJECTS),
    )
    for _ in range(draw(st.integers(0, most))):
        trajectory.add(draw(turns(trajectory.turns)))
    return trajectory

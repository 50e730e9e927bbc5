"""Random episodes: branches, discards, side calls, replaced stop tokens, empty answers, unknown logprobs, updates.

Every sampled token of an export has an id of its own, from `FIRST_SAMPLED` on; its logprob and weight version follow
from it, so that a token can be told wherever it turns up. Prompt ids are below.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Trajectory, Turn, TurnFate

FIRST_SAMPLED = 1000


def logprob_of(token: int) -> float:
    """The logprob of a sampled token, where it has one."""
    return -token / 1024


def version_of(token: int) -> str:
    """The weight version of a sampled token, where it has one."""
    return str(token // 4)


def spans_of(ids: list[int]) -> tuple[tuple[str, int, int], ...]:
    """The weight spans of a turn."""
    spans = []
    for version, group in itertools.groupby(range(len(ids)), key=lambda position: version_of(ids[position])):
        positions = list(group)
        spans.append((version, positions[0], positions[-1] + 1))
    return tuple(spans)


@st.composite
def turns(draw: st.DrawFn, fresh: Iterator[int], index: int, parent: Turn | None) -> Turn:
    """One turn after a parent."""
    ids = [next(fresh) for _ in range(draw(st.sampled_from([1, 2, 3, 4, 0])))]
    with_logprobs = draw(st.sampled_from(["all", "all", "some", "none"]))
    has = [with_logprobs == "all" or (with_logprobs == "some" and draw(st.booleans())) for _ in ids]
    logprobs = (
        None if with_logprobs == "none" else [logprob_of(x) if y else None for x, y in zip(ids, has, strict=True)]
    )
    prompt = draw(st.lists(st.integers(0, 99), min_size=0 if parent else 1, max_size=3))
    facts: dict[str, Any] = {"finish_reason": draw(st.sampled_from(["stop", "length"])), "latency": 0.5}
    if draw(st.booleans()):
        facts["sampling_params"] = {"temperature": draw(st.sampled_from([0.5, 1.0]))}
    return Turn(
        index=index,
        parent=parent,
        prompt=Segment.of(
            SegmentKind.PROMPT,
            prompt,
            [-1.0] * len(prompt) if draw(st.booleans()) else None,
            replaces=draw(st.sampled_from([0, 0, 1])) if parent and len(parent.sampled) else 0,
        ),
        sampled=Segment.of(
            SegmentKind.SAMPLED,
            ids,
            logprobs,
            weight_spans=spans_of(ids) if draw(st.booleans()) else (),
            message_index=index,
            facts=facts,
        ),
        conversation=0,
        lineage=parent.lineage if parent else draw(st.sampled_from([Lineage.MAIN, *Lineage])),
        fate=draw(st.sampled_from([TurnFate.KEPT, *TurnFate])),
        images=("data:image/png;base64,AA==",) if draw(st.integers(0, 5)) == 5 else (),
        credit={"advantage": float(index)} if draw(st.booleans()) else {},
    )


@st.composite
def episodes(draw: st.DrawFn, *, fresh: Iterator[int] | None = None, number: int = 0) -> Trajectory:
    """One episode with a random forest of turns."""
    fresh = fresh if fresh is not None else itertools.count(FIRST_SAMPLED)
    reason = draw(st.none() | st.sampled_from(TerminationReason))
    episode = Trajectory(
        id=f"episode-{number}",
        reward=draw(st.floats(-1, 1)),
        group_id=draw(st.sampled_from([None, "group-a", "7"])),
        group_index=number,
        termination=Termination(reason=reason) if reason else None,
        metadata={"env_name": "toy", "label": "42"},
    )
    for index in range(draw(st.integers(0, 7))):
        parent = draw(st.none() | st.sampled_from(episode.turns)) if episode.turns else None
        episode.add(draw(turns(fresh, index, parent)))
    return episode


@st.composite
def batches(draw: st.DrawFn) -> list[Trajectory]:
    """Several episodes whose sampled tokens are all different."""
    fresh = itertools.count(FIRST_SAMPLED)
    return [draw(episodes(fresh=fresh, number=number)) for number in range(draw(st.integers(1, 3)))]


def linear(
    *parts: tuple[list[int], list[int]],
    logprobs: bool = True,
    facts: dict[str, Any] | None = None,
    versions: bool = True,
    **fields: Any,
) -> Trajectory:
    """An episode of one branch: a prompt and what was sampled, turn by turn."""
    episode = Trajectory(**{"id": "episode", "reward": 1.0, **fields})
    for index, (prompt, ids) in enumerate(parts):
        episode.add(
            Turn(
                index=index,
                parent=episode.turns[-1] if episode.turns else None,
                prompt=Segment.of(SegmentKind.PROMPT, prompt),
                sampled=Segment.of(
                    SegmentKind.SAMPLED,
                    ids,
                    [logprob_of(token) for token in ids] if logprobs else None,
                    weight_spans=spans_of(ids) if versions else (),
                    message_index=2 * index + 1,
                    facts=facts if facts is not None else {"sampling_params": {"temperature": 1.0}},
                ),
                conversation=0,
                lineage=Lineage.MAIN,
            )
        )
    return episode


def branching(**fields: Any) -> Trajectory:
    """An episode with two samples: its first turn is shared, its second was edited away and sampled anew."""
    episode = linear(([1, 2], [1000, 1001]), ([3], [1002]), **fields)
    first = episode.turns[0]
    episode.add(
        Turn(
            index=2,
            parent=first,
            prompt=Segment.of(SegmentKind.PROMPT, [4, 5]),
            sampled=Segment.of(
                SegmentKind.SAMPLED,
                [1003, 1004, 1005],
                [logprob_of(x) for x in (1003, 1004, 1005)],
                weight_spans=spans_of([1003, 1004, 1005]),
                facts={"sampling_params": {"temperature": 1.0}},
            ),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )
    return episode


def turn_of(episode: Trajectory, parent: Turn | None, prompt: Segment, sampled: Segment, **fields: Any) -> Turn:
    """Add a turn to an episode."""
    fields = {"conversation": 0, "lineage": Lineage.MAIN, **fields}
    turn = Turn(index=len(episode.turns), parent=parent, prompt=prompt, sampled=sampled, **fields)
    episode.add(turn)
    return turn


def prompt(ids: list[int], logprobs: list[float | None] | None = None, **fields: Any) -> Segment:
    """A prompt segment."""
    return Segment.of(SegmentKind.PROMPT, ids, logprobs, **fields)


def sampled(ids: list[int], **fields: Any) -> Segment:
    """A sampled segment, with logprobs and temperature 1 unless told otherwise."""
    fields = {"facts": {"sampling_params": {"temperature": 1.0}}, "logprobs": [-0.5] * len(ids), **fields}
    return Segment.of(SegmentKind.SAMPLED, ids, **fields)

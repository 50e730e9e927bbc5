"""Seeded episodes for the checks, made without any library but ours.

Every sampled token has a logprob and the weight version "7" or "8"; token ids are below 100, so that the smallest
vocabulary holds them.
"""

from __future__ import annotations

import random

from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Trajectory, Turn


def turn(seed: random.Random, index: int, parent: Turn | None) -> Turn:
    """A turn of the agent's own loop with random ids and logprobs."""
    ids = [seed.randrange(1, 100) for _ in range(seed.randrange(1, 6))]
    change = seed.randrange(len(ids) + 1)
    spans = tuple(span for span in (("7", 0, change), ("8", change, len(ids))) if span[1] < span[2])
    return Turn(
        index=index,
        parent=parent,
        prompt=Segment.of(SegmentKind.PROMPT, [seed.randrange(1, 100) for _ in range(seed.randrange(1, 6))]),
        sampled=Segment.of(
            SegmentKind.SAMPLED,
            ids,
            [-seed.random() for _ in ids],
            weight_spans=spans,
            message_index=2 * index + 1,
            facts={"finish_reason": "stop", "sampling_params": {"temperature": 1.0}},
        ),
        conversation=0,
        lineage=Lineage.MAIN,
        credit={"advantage": 0.25, "score": float(index)},
    )


def linear(seed: random.Random, number: int) -> Trajectory:
    """An episode of one branch."""
    episode = Trajectory(id=str(100 + number), reward=seed.random(), group_id=str(number // 2), group_index=number % 2)
    for index in range(seed.randrange(1, 5)):
        episode.add(turn(seed, index, episode.turns[-1] if episode.turns else None))
    return episode


def group(size: int = 4, *, seed: int = 0) -> list[Trajectory]:
    """Episodes of one branch each, two to a group."""
    numbers = random.Random(seed)
    return [linear(numbers, number) for number in range(size)]


def branched(*, seed: int = 0) -> Trajectory:
    """An episode of three samples that share turns."""
    numbers = random.Random(seed)
    episode = Trajectory(id="7", reward=1.0, group_id="77", group_index=0)
    for index, parent in enumerate((None, 0, 0, 1, 1)):
        episode.add(turn(numbers, index, None if parent is None else episode.turns[parent]))
    return episode

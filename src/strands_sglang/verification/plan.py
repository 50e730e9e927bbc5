"""What is scored: the branches of an episode, and which turns each of them judges.

Invariant: every turn is judged in exactly one pass, and there all its sampled ids stand in the context. A turn whose
stop token every follower replaces is scored in a pass of its own.
Never asks a server, and never looks at a log-probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from strands_sglang.rollout import Rollout, Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Trajectory, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A turn that a pass judges.

    Attributes:
        turn: The turn.
        begin: Position of its first sampled token within the pass's ids.
    """

    turn: Turn
    begin: int

    @property
    def end(self) -> int:
        """One past the position of its last sampled token."""
        return self.begin + len(self.turn.sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringPass:
    """One prefill.

    Attributes:
        leaf: The turn with which the branch ends.
        ids: The branch's tokens.
        judged: The turns that are judged here, in order.
        has_images: Whether images stand in the branch, which a server expands to positions of its own.
    """

    leaf: Turn
    ids: tuple[int, ...]
    judged: tuple[Judged, ...]
    has_images: bool


def passes(trajectory: Trajectory) -> list[ScoringPass]:
    """Return what has to be scored so that every sampled token is scored once."""
    seen: set[int] = set()
    planned = [_pass(leaf, seen) for leaf in trajectory.leaves]
    planned += [_pass(turn, seen) for turn in trajectory.turns if id(turn) not in seen]
    return [one for one in planned if one.judged]


def _pass(leaf: Turn, seen: set[int]) -> ScoringPass:
    """Return the pass over a branch, which judges the turns that no earlier one did."""
    path = leaf.path()
    judged: list[Judged] = []
    for turn, after, begin in _sampled_places(path):
        if id(turn) not in seen and not (after and after.prompt.replaces):
            seen.add(id(turn))
            judged.append(Judged(turn=turn, begin=begin))
    return ScoringPass(
        leaf=leaf,
        ids=tuple(leaf.rollout().token_ids),
        judged=tuple(judged),
        has_images=any(turn.images for turn in path),
    )


def _sampled_places(path: Sequence[Turn]) -> Iterator[tuple[Turn, Turn | None, int]]:
    """Yield each turn of a branch with the one after it and the position of its first sampled token."""
    position = 0
    for turn, after in zip_longest(path, path[1:]):
        position += len(turn.prompt) - turn.prompt.replaces
        yield turn, after, position
        position += len(turn.sampled)


def trajectory_of(rollout: Rollout) -> Trajectory:
    """Return a rollout as an episode of one branch; prompt tokens after the last turn are left out."""
    trajectory = Trajectory(id="rollout")
    parent: Turn | None = None
    prompt: list[Segment] = []
    for segment in rollout.segments:
        if not segment.is_sampled:
            prompt.append(segment)
            continue
        parent = Turn(
            index=len(trajectory.turns),
            parent=parent,
            prompt=_joined(prompt),
            sampled=segment,
            conversation=0,
            lineage=Lineage.MAIN,
            images=tuple(rollout.image_data) if parent is None else (),
        )
        trajectory.add(parent)
        prompt = []
    return trajectory


def _joined(prompt: Sequence[Segment]) -> Segment:
    """Return the prompt segments before a turn as one."""
    if len(prompt) == 1:
        return prompt[0]
    ids: list[int] = []
    replaces = prompt[0].replaces if prompt else 0
    for segment, after in zip_longest(prompt, prompt[1:]):
        ids += segment.ids[: len(segment) - (after.replaces if after else 0)]
    return Segment.of(SegmentKind.PROMPT, ids, replaces=replaces)

from __future__ import annotations

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Trajectory, Turn, TurnFate

from .trees import examples


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """A random forest of turns with distinct sampled ids, random lineages per root and random fates."""
    trajectory = Trajectory()
    for index in range(draw(st.integers(0, 10))):
        parent = draw(st.none() | st.sampled_from(trajectory.turns)) if trajectory.turns else None
        lineage = parent.lineage if parent else draw(st.sampled_from(Lineage))
        trajectory.add(
            Turn(
                index=index,
                parent=parent,
                prompt=Segment.of(
                    SegmentKind.PROMPT, [0] * draw(st.integers(1, 3)), replaces=draw(st.integers(0, 1)) if parent else 0
                ),
                sampled=Segment.of(
                    SegmentKind.SAMPLED, [100 * (index + 1) + k for k in range(draw(st.integers(1, 4)))]
                ),
                conversation=0,
                lineage=lineage,
                fate=draw(st.sampled_from(TurnFate)),
            )
        )
    return trajectory


def turn_after(trajectory: Trajectory, parent: Turn | None, *, prompt: list[int], sampled: list[int]) -> Turn:
    """Add a turn of the agent's own loop."""
    turn = Turn(
        index=len(trajectory.turns),
        parent=parent,
        prompt=Segment.of(SegmentKind.PROMPT, prompt),
        sampled=Segment.of(SegmentKind.SAMPLED, sampled),
        conversation=0,
        lineage=Lineage.MAIN,
    )
    trajectory.add(turn)
    return turn


@examples(60)
@given(trajectories(), st.booleans(), st.booleans())
def test_each_sampled_token_is_trainable_in_exactly_one_sample(
    trajectory: Trajectory, side_calls: bool, discarded: bool
) -> None:
    samples = trajectory.samples(include_side_calls=side_calls, include_discarded=discarded)

    trained = [
        token
        for sample in samples
        for token, mask in zip(sample.rollout.token_ids, sample.loss_mask, strict=True)
        if mask
    ]
    chosen = [
        turn
        for turn in trajectory.turns
        if (side_calls or turn.lineage is Lineage.MAIN) and (discarded or turn.fate is not TurnFate.DISCARDED)
    ]
    sampled = {token for turn in chosen for token in turn.sampled.ids}
    # A stop token that the template replaces is in no context; it is the one declared exception.
    replaced = {turn.sampled.ids[-1] for turn in chosen}

    assert len(trained) == len(set(trained))
    assert set(trained) <= sampled
    assert sampled - set(trained) <= replaced


@examples(60)
@given(trajectories())
def test_samples_share_the_rollout_id_and_their_weights_add_up_to_one(trajectory: Trajectory) -> None:
    samples = trajectory.samples(include_side_calls=True, include_discarded=True)

    assert {sample.rollout_id for sample in samples} <= {trajectory.id}
    assert not samples or abs(sum(sample.weight for sample in samples) - 1) < 1e-9


@examples(60)
@given(trajectories())
def test_a_branch_extends_the_branch_of_its_parent(trajectory: Trajectory) -> None:
    for turn in trajectory.turns:
        if turn.parent is not None and not turn.prompt.replaces:
            parent = turn.parent.rollout().token_ids
            assert turn.rollout().token_ids[: len(parent)] == parent


def test_a_discarded_answer_stays_and_is_not_exported() -> None:
    trajectory = Trajectory()
    prompt = Segment.of(SegmentKind.PROMPT, [1])
    for index, fate in enumerate([TurnFate.DISCARDED, TurnFate.KEPT]):
        trajectory.add(
            Turn(
                index=index,
                parent=None,
                prompt=prompt,
                sampled=Segment.of(SegmentKind.SAMPLED, [10 + index]),
                conversation=0,
                lineage=Lineage.MAIN,
                fate=fate,
            )
        )

    assert [branch.token_ids for branch in trajectory.branches] == [[1, 10], [1, 11]]
    assert [sample.rollout.token_ids for sample in trajectory.samples()] == [[1, 11]]
    assert len(trajectory.samples(include_discarded=True)) == 2


def test_a_turns_credit_is_spread_over_its_trainable_tokens() -> None:
    trajectory = Trajectory()
    first = turn_after(trajectory, None, prompt=[1, 2], sampled=[3, 4])
    second = turn_after(trajectory, first, prompt=[5], sampled=[6])
    second.credit["advantage"] = 0.5
    (sample,) = trajectory.samples()

    assert sample.turns == (first, second)
    assert sample.credit("advantage") == [None, None, None, None, None, 0.5]
    assert sample.credit("reward") == [None] * 6


def test_a_long_episode_is_shown_in_short_copied_and_pickled() -> None:
    trajectory = Trajectory(id="e1", reward=0.5)
    for _ in range(3000):
        turn_after(trajectory, trajectory.turns[-1] if trajectory.turns else None, prompt=[1, 2], sampled=[3])

    assert repr(trajectory) == "Trajectory(id='e1', turns=3000, branches=1, reward=0.5, termination=None)"
    assert repr(trajectory.turns[-1]) == (
        "Turn(index=2999, parent=2998, lineage=main, fate=kept, prompt=2 tokens, sampled=1 tokens)"
    )
    assert pickle.loads(pickle.dumps(trajectory)) == trajectory
    assert copy.deepcopy(trajectory) == trajectory


def test_a_token_that_one_branch_replaces_is_trained_in_the_branch_that_keeps_it() -> None:
    trajectory = Trajectory()
    first = turn_after(trajectory, None, prompt=[1], sampled=[3, 4])
    replacing = turn_after(trajectory, first, prompt=[5], sampled=[6])
    object.__setattr__(replacing.prompt, "replaces", 1)
    turn_after(trajectory, first, prompt=[7], sampled=[8])

    one, other = trajectory.samples()

    assert (one.rollout.token_ids, one.loss_mask) == ([1, 3, 5, 6], [0, 1, 0, 1])
    assert (other.rollout.token_ids, other.loss_mask) == ([1, 3, 4, 7, 8], [0, 0, 1, 0, 1])

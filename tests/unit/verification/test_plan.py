"""Every sampled token is scored once, in a context in which it stands."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from strands_sglang import Trajectory
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.verification.plan import passes
from strands_sglang.verification.tempered import bounds

from .conftest import add_turn


@st.composite
def trees(draw: st.DrawFn) -> Trajectory:
    """A random forest of turns, whose ids are all different."""
    trajectory = Trajectory()
    for index in range(draw(st.integers(0, 8))):
        parent = draw(st.none() | st.sampled_from(trajectory.turns)) if trajectory.turns else None
        replaces = draw(st.integers(0, 1)) if parent else 0
        prompt = Segment.of(SegmentKind.PROMPT, [0] * draw(st.integers(1, 3)), replaces=replaces)
        ids = [100 * (index + 1) + k for k in range(draw(st.integers(1, 4)))]
        add_turn(trajectory, parent, prompt, Segment.of(SegmentKind.SAMPLED, ids))
    return trajectory


@given(trees())
def test_each_turn_is_judged_once_where_all_its_tokens_stand(trajectory: Trajectory) -> None:
    judged = [(one, branch) for branch in passes(trajectory) for one in branch.judged]

    assert sorted(one.turn.index for one, _ in judged) == [turn.index for turn in trajectory.turns]
    for one, branch in judged:
        assert list(branch.ids[one.begin : one.end]) == list(one.turn.sampled.ids)
        path = one.turn.rollout().token_ids
        assert list(branch.ids[: one.end]) == path


@given(
    st.lists(st.floats(-8, 8), min_size=2, max_size=12),
    st.integers(1, 12),
    st.floats(0.2, 3.0),
    st.data(),
    st.booleans(),
)
def test_the_value_at_another_temperature_is_within_its_bounds(
    logits: list[float], named: int, temperature: float, data: st.DataObject, known_size: bool
) -> None:
    total = math.log(math.fsum(map(math.exp, logits)))
    logprobs = {token: logit - total for token, logit in enumerate(logits)}
    token = data.draw(st.sampled_from(range(len(logits))))
    likeliest = dict(sorted(logprobs.items(), key=lambda item: -item[1])[:named])
    expected = logits[token] / temperature - math.log(math.fsum(math.exp(logit / temperature) for logit in logits))

    least, most = bounds(
        token,
        logprobs[token],
        likeliest,
        temperature=temperature,
        vocab_size=len(logits) if known_size else None,
    )

    assert least - 1e-6 <= expected <= most + 1e-6
    if named >= len(logits) and known_size:
        assert most - least < 1e-9

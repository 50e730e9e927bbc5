"""Whatever the tree, each turn is played once, to its own prompt, in any order of asking."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang import Trajectory
from strands_sglang.replay import Replay
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Turn
from strands_sglang.wire import GenerateReply, GenerateRequest


@st.composite
def trees(draw: st.DrawFn) -> Trajectory:
    """A random forest of few different ids, so that turns share prompts and prompts are prefixes of each other."""
    trajectory = Trajectory()
    ids = st.lists(st.integers(5, 6), min_size=1, max_size=3)
    for index in range(draw(st.integers(1, 8))):
        parent = draw(st.none() | st.sampled_from(trajectory.turns)) if trajectory.turns else None
        sampled = draw(ids)
        values = draw(st.lists(st.none() | st.floats(-9, 0), min_size=len(sampled), max_size=len(sampled)))
        stopped = draw(st.booleans())
        facts = {"finish_reason": "stop", "matched": sampled[-1]} if stopped else {"finish_reason": "length"}
        cut = draw(st.integers(0, len(sampled)))
        spans = [("a", 0, cut), ("b", cut, len(sampled))]
        trajectory.add(
            Turn(
                index=index,
                parent=parent,
                prompt=Segment.of(SegmentKind.PROMPT, draw(ids), replaces=draw(st.integers(0, 1)) if parent else 0),
                sampled=Segment.of(
                    SegmentKind.SAMPLED,
                    sampled,
                    values,
                    weight_spans=tuple(span for span in spans if span[1] < span[2]),
                    facts=facts,
                ),
                conversation=0,
                lineage=Lineage.MAIN,
            )
        )
    return trajectory


def prompt_of(turn: Turn) -> tuple[int, ...]:
    ids = turn.rollout().token_ids
    return tuple(ids[: len(ids) - len(turn.sampled)])


@settings(deadline=None, max_examples=60)
@given(trees(), st.data())
def test_in_any_order_each_prompt_gets_its_own_answers(trajectory: Trajectory, data: st.DataObject) -> None:
    order = data.draw(st.permutations(trajectory.turns))
    replay = Replay(trajectory)

    async def play() -> list[GenerateReply]:
        client = replay.client()
        return [await client.send(GenerateRequest(input_ids=list(prompt_of(turn)))) for turn in order]

    answers: dict[tuple[int, ...], list[GenerateReply]] = defaultdict(list)
    for asked, reply in zip(order, asyncio.run(play()), strict=True):
        answers[prompt_of(asked)].append(reply)

    # Turns of one prompt are told apart by nothing but their order.
    for turn in trajectory.turns:
        reply = answers[prompt_of(turn)].pop(0)
        assert reply.output_ids == turn.sampled.ids.tolist()
        assert reply.output_logprobs == turn.sampled.logprob_list()
        assert reply.finish_reason.type.value == turn.sampled.facts["finish_reason"]
        assert reply.finish_reason.matched == turn.sampled.facts.get("matched")
        assert (
            tuple((span.version, span.start, span.end) for span in reply.weight_versions) == turn.sampled.weight_spans
        )
    assert replay.unplayed == []


@st.composite
def carried_on(draw: st.DrawFn) -> Trajectory:
    """One turn whose parts told of their weights in different ways: not at all, one version for all, each its own."""
    spans: list[tuple[str, int, int]] = []
    widened: list[list[int]] = []
    length = 0
    for _ in range(draw(st.integers(1, 6))):
        end = length + draw(st.integers(1, 3))
        kind, version = draw(st.sampled_from(["unknown", "widened", "exact"])), draw(st.sampled_from("ab"))
        after = bool(spans) and spans[-1][2] == length
        if spans and not after:
            version = "b" if spans[-1][0] == "a" else "a"
        if kind != "unknown":
            if after and spans[-1][0] == version and ([spans[-1][1], length] in widened) == (kind == "widened"):
                begin = spans.pop()[1]  # as the library joins them
                widened = [pair for pair in widened if pair[0] != begin]
            else:
                begin = length
            spans.append((version, begin, end))
            widened += [[begin, end]] if kind == "widened" else []
        length = end
    values = draw(st.lists(st.none() | st.floats(-9, 0), min_size=length, max_size=length))
    facts = {"finish_reason": "length", "prompt_tokens": 2, "cached_tokens": draw(st.integers(0, 2))}
    sampled = Segment.of(
        SegmentKind.SAMPLED,
        range(5, 5 + length),
        values,
        weight_spans=tuple(spans),
        facts={**facts, "weights_widened": widened},
    )
    turn = Turn(
        index=0,
        parent=None,
        prompt=Segment.of(SegmentKind.PROMPT, [1, 2]),
        sampled=sampled,
        conversation=0,
        lineage=Lineage.MAIN,
    )
    return Trajectory(turns=[turn])


@settings(deadline=None, max_examples=80)
@given(carried_on())
def test_whatever_was_told_of_the_weights_is_told_again(trajectory: Trajectory) -> None:
    replay = Replay(trajectory)
    (turn,) = trajectory.turns

    async def play() -> GenerateReply:
        return await replay.client().send(GenerateRequest(input_ids=[1, 2]))

    reply = asyncio.run(play())

    assert reply.output_ids == turn.sampled.ids.tolist()
    assert reply.output_logprobs == turn.sampled.logprob_list()
    spans = reply.weight_versions
    assert tuple((span.version, span.start, span.end) for span in spans) == turn.sampled.weight_spans
    assert [[span.start, span.end] for span in spans if span.widened] == turn.sampled.facts["weights_widened"]
    assert (reply.prompt_tokens, reply.cached_tokens) == (2, turn.sampled.facts["cached_tokens"])
    assert replay.unplayed == []

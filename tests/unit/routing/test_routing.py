"""Routing rows: each at the position of its token, first seen first kept, and nothing made up."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from strands_sglang.errors import RecordError, RoutingError
from strands_sglang.rollout import Rollout, Segment, SegmentKind
from strands_sglang.routing import routed_experts, routing_shape

LAYERS, TOP_K = 3, 2


def row(position: int, wave: int = 0) -> list[list[int]]:
    """The experts of one token: they tell its position, and in which prefill they were computed."""
    return [[(position * 7 + layer) % 64 + 64 * wave, 200 - layer] for layer in range(LAYERS)]


def payload(positions: Sequence[int], wave: int = 0) -> str:
    rows = np.array([row(position, wave) for position in positions], "<i4").reshape(-1, LAYERS, TOP_K)
    return base64.b64encode(rows.tobytes()).decode()


def facts(start: int, end: int, wave: int = 0) -> dict[str, Any]:
    """What a turn of `end` tokens in all records."""
    return {"routed_experts": payload(range(start, end - 1), wave), "routed_experts_start_len": start}


def branch(*lengths: int, full: bool = False, without: Sequence[int] = (), replaces: Sequence[int] = ()) -> Rollout:
    """A branch of alternating prompt and sampled segments; `without` names turns that brought no rows."""
    rollout = Rollout()
    known = 0
    for number, length in enumerate(lengths):
        turn, is_sampled = divmod(number, 2)
        if not is_sampled:
            trimmed = int(turn in replaces)
            rollout.append(Segment.of(SegmentKind.PROMPT, [1] * length, replaces=trimmed))
            start = 0 if full else max(0, known - trimmed - 1)
        else:
            told = {} if turn in without else facts(start, len(rollout) + length, turn)
            rollout.append(Segment.of(SegmentKind.SAMPLED, [2] * length, facts=told))
            known = len(rollout)
    return rollout


def first_wave(rollout: Rollout, position: int) -> int:
    """The turn in which the token at a position was first fed: its own last token was fed by the next one."""
    ends = [sum(length for _, length in rollout.segment_info[: 2 * turn + 2]) for turn in range(10)]
    return next(turn for turn, end in enumerate(ends) if position < end - 1)


def expected(rollout: Rollout) -> NDArray[np.int64]:
    return np.array([row(position, first_wave(rollout, position)) for position in range(len(rollout) - 1)])


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4), st.booleans())
def test_each_token_has_the_row_of_the_first_prefill_that_read_it(turns: list[tuple[int, int]], full: bool) -> None:
    rollout = branch(*(length for turn in turns for length in turn), full=full)

    routing = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K)

    assert (routing.fed_rows() == expected(rollout)).all()
    assert routing.available == [True] * (len(rollout) - 1) + [False]


def test_the_last_token_of_a_turn_has_the_row_of_the_next_prefill() -> None:
    rollout = branch(3, 2, 2, 2)

    rows = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K).fed_rows()

    assert rows[3].tolist() == row(3, wave=0)
    assert rows[4].tolist() == row(4, wave=1)


def test_the_three_shapes_hold_the_same_rows() -> None:
    rollout = branch(3, 2, 2, 2)
    routing = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K)

    fed, padded, cut = routing.fed_rows(), routing.padded_rows(), routing.segment_rows()

    assert fed.shape == (8, LAYERS, TOP_K)
    assert padded.shape == (9, LAYERS, TOP_K)
    assert (padded[:-1] == fed).all()
    assert not padded[-1].any()
    assert [len(rows) for rows in cut] == [3, 2, 2, 2]
    assert (np.concatenate(cut) == padded).all()


def test_arrays_belong_to_the_caller() -> None:
    routing = routed_experts(branch(3, 2), num_layers=LAYERS, top_k=TOP_K)

    routing.fed_rows()[:] = 0
    for rows in routing.segment_rows():
        rows[:] = 0

    assert routing.fed_rows()[0].tolist() == row(0)


def test_forks_share_the_rows_of_what_they_share() -> None:
    stem, left, right = branch(3, 2), branch(3, 2, 2, 2), branch(3, 2, 4, 1)
    stem_rows = routed_experts(stem, num_layers=LAYERS, top_k=TOP_K).fed_rows()

    for fork in (left, right):
        assert (routed_experts(fork, num_layers=LAYERS, top_k=TOP_K).fed_rows()[: len(stem_rows)] == stem_rows).all()


def test_a_replaced_stop_token_gives_its_place_to_what_replaces_it() -> None:
    rollout = branch(3, 2, 2, 2, replaces=[1])

    rows = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K).fed_rows()

    assert len(rollout) == 8
    assert rows[3].tolist() == row(3, wave=0)
    assert rows[4].tolist() == row(4, wave=1)


def test_rows_that_never_came_are_missing_and_never_zeros_by_default() -> None:
    routing = routed_experts(branch(3, 2, 2, 2, 1, 2, without=[1]), num_layers=LAYERS, top_k=TOP_K)

    assert [position for position, there in enumerate(routing.available) if not there] == [4, 5, 6, 7, 11]
    with pytest.raises(RoutingError, match="4 of 11 tokens have no row, the first at position 4"):
        routing.fed_rows()
    assert not routing.fed_rows(missing="zero")[4:8].any()
    marked = routing.padded_rows(missing="mark")
    assert (marked[4:8] == -1).all()
    assert (marked[11] == -1).all()
    assert marked[3].tolist() == row(3)


@pytest.mark.parametrize(
    ("first", "second", "widened", "filled"),
    [("a", "a", False, True), ("a", "b", False, False), (None, None, False, False), ("a", "a", True, False)],
)
@pytest.mark.parametrize("kind", ["routed_experts", "indexer_topk"])
def test_a_later_prefill_fills_a_gap_only_under_the_same_weights(
    first: str | None, second: str | None, widened: bool, filled: bool, kind: str
) -> None:
    rollout = Rollout()
    rollout.append(Segment.of(SegmentKind.PROMPT, [1, 1, 1]))
    told = {"weights_widened": [[0, 2]]} if widened else {}
    rollout.append(Segment.of(SegmentKind.SAMPLED, [2, 2], weight_spans=((first, 0, 2),) if first else (), facts=told))
    rollout.append(Segment.of(SegmentKind.PROMPT, [1]))
    rows = {kind: payload(range(7), 1), **({"routed_experts_start_len": 0} if kind == "routed_experts" else {})}
    spans = ((second, 0, 2),) if second else ()
    rollout.append(Segment.of(SegmentKind.SAMPLED, [2, 2], weight_spans=spans, facts=rows))

    routing = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K, kind=kind)

    assert routing.available == [filled] * 4 + [True] * 3 + [False]
    assert routing.fed_rows(missing="mark")[4:].tolist() == [row(position, wave=1) for position in range(4, 7)]


@pytest.mark.parametrize(
    ("refed", "there"),
    [([[0, 4]], [4, 5, 6]), ([[1, 3], [5, 6]], [0, 3, 4, 6]), ([[0, 7]], []), ([], [0, 1, 2, 3, 4, 5, 6])],
)
def test_rows_that_other_weights_computed_again_are_missing(refed: list[list[int]], there: list[int]) -> None:
    rollout = Rollout()
    rollout.append(Segment.of(SegmentKind.PROMPT, [1, 1, 1]))
    told = facts(0, 8) | ({"routed_experts_refed": refed} if refed else {})
    rollout.append(Segment.of(SegmentKind.SAMPLED, [2] * 5, facts=told))

    routing = routed_experts(rollout, num_layers=LAYERS, top_k=TOP_K)

    assert [position for position, given in enumerate(routing.available) if given] == there
    marked = routing.fed_rows(missing="mark")
    assert [marked[position].tolist() for position in there] == [row(position) for position in there]


@pytest.mark.parametrize("refed", [7, [3], [[1]], [[4, 2]], [[-1, 2]], [[0, "2"]], [[0, True]]])
def test_positions_that_are_none_are_refused(refed: Any) -> None:
    with pytest.raises(RoutingError, match="routed_experts_refed"):
        routed_experts(with_facts(routed_experts_refed=refed), num_layers=LAYERS, top_k=TOP_K)


@pytest.mark.parametrize(("largest", "dtype"), [(255, "uint8"), (256, "uint16"), (65_535, "uint16"), (65_536, "int32")])
def test_the_dtype_holds_the_largest_expert(largest: int, dtype: str) -> None:
    rows = base64.b64encode(np.array([largest, 1], "<i4").tobytes()).decode()
    told = {"routed_experts": rows, "routed_experts_start_len": 0}
    rollout = Rollout([Segment.of(SegmentKind.PROMPT, [1]), Segment.of(SegmentKind.SAMPLED, [2], facts=told)])

    decoded = routed_experts(rollout, num_layers=1, top_k=2).fed_rows()

    assert decoded.dtype == dtype
    assert decoded.max() == largest


def test_the_shape_is_derived_from_either_number() -> None:
    assert routed_experts(branch(3, 2), top_k=TOP_K).num_layers == LAYERS
    assert routed_experts(branch(3, 2), num_layers=LAYERS).top_k == TOP_K
    with pytest.raises(RoutingError, match="rows of 6 numbers may be any layers times top-k"):
        routed_experts(branch(3, 2))
    with pytest.raises(RoutingError, match="cannot be 4 layers"):
        routed_experts(branch(3, 2), num_layers=4)


def test_layers_and_top_k_are_read_from_a_models_configuration() -> None:
    assert routing_shape({"num_hidden_layers": 48, "num_experts_per_tok": 8}) == (48, 8)
    assert routing_shape({"text_config": {"num_hidden_layers": 4, "top_k_experts": 2}}) == (4, 2)
    with pytest.raises(RoutingError, match="is it a mixture of experts"):
        routing_shape({"model_type": "qwen3", "num_hidden_layers": 48})


def with_facts(**told: Any) -> Rollout:
    """A turn of 3 prompt and 2 sampled tokens with these facts."""
    given = {**facts(0, 5), **told}
    return Rollout([Segment.of(SegmentKind.PROMPT, [1] * 3), Segment.of(SegmentKind.SAMPLED, [2] * 2, facts=given)])


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"routed_experts_start_len": 2}, "24 numbers, which are not 2 rows of 6 numbers (3 layers, top 2)"),
        ({"routed_experts": payload(range(3))}, "18 numbers, which are not 4 rows"),
        ({"routed_experts": payload(range(5))}, "30 numbers, which are not 4 rows"),
        ({"routed_experts_start_len": 4}, "routed_experts_start_len is 4, no position of its 3 prompt tokens"),
        ({"routed_experts_start_len": None}, "routed_experts_start_len is None"),
        ({"routed_experts": "abc"}, "3 characters are not base64"),
        ({"prompt_tokens": 90}, "the server read 90 prompt tokens where 3 are recorded"),
    ],
)
def test_counts_that_do_not_fit_are_refused_before_anything_is_decoded(told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RecordError, match="turn 0: .*" + re.escape(complaint)):
        routed_experts(with_facts(**told), num_layers=LAYERS, top_k=TOP_K)


def test_turns_of_different_models_are_refused() -> None:
    rollout = branch(3, 2)
    wide = base64.b64encode(np.ones((4, LAYERS, 4), "<i4").tobytes()).decode()
    rollout.append(Segment.of(SegmentKind.PROMPT, [1] * 2))
    told = {"routed_experts": wide, "routed_experts_start_len": 4}
    rollout.append(Segment.of(SegmentKind.SAMPLED, [2] * 2, facts=told))

    with pytest.raises(RoutingError, match=r"turn 1: .* 4 rows of 6 numbers, as in the turns before"):
        routed_experts(rollout, num_layers=LAYERS)


def test_rows_that_no_router_wrote_are_refused() -> None:
    blank = np.array([row(position) for position in range(4)], "<i4")
    blank[2] = 0
    zeros = {"routed_experts": base64.b64encode(blank.tobytes()).decode()}
    blank[2] = -1
    negative = {"routed_experts": base64.b64encode(blank.tobytes()).decode()}
    garbled = {"routed_experts": "!" + payload(range(4))[1:]}

    for told, complaint in ((zeros, "position 2: the same expert 0"), (negative, "negative"), (garbled, "not base64")):
        routing = routed_experts(with_facts(**told), num_layers=LAYERS, top_k=TOP_K)
        with pytest.raises(RoutingError, match=complaint):
            routing.fed_rows()


def test_a_branch_without_rows_says_how_to_get_them() -> None:
    with pytest.raises(RoutingError, match="no turn of this branch brought routed_experts") as caught:
        routed_experts(branch(3, 2, without=[0]), num_layers=LAYERS, top_k=TOP_K)

    assert "return_routed_experts=True" in str(caught.value.hint)


def test_indexer_rows_cover_the_whole_sequence_in_every_turn() -> None:
    chosen = np.array([[[p, -1], [0, p]] for p in range(8)], "<i4")
    rollout = Rollout()
    for length, end in ((3, 5), (2, 9)):
        rollout.append(Segment.of(SegmentKind.PROMPT, [1] * length))
        told = {"indexer_topk": base64.b64encode(chosen[: end - 1].tobytes()).decode()}
        rollout.append(Segment.of(SegmentKind.SAMPLED, [2] * (end - len(rollout)), facts=told))

    rows = routed_experts(rollout, num_layers=2, kind="indexer_topk").fed_rows()

    assert (rows == chosen).all()


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ValueError, match="missing must be"):
        routed_experts(branch(3, 2), top_k=2).fed_rows(missing="skip")  # type: ignore[arg-type]
    with pytest.raises(RoutingError, match="kind must be one of"):
        routed_experts(branch(3, 2), top_k=2, kind="experts")


def test_importing_it_loads_no_numpy() -> None:
    code = "import sys, strands_sglang.routing; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

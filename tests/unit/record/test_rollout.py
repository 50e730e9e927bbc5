from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from strands_sglang import Rollout
from strands_sglang.errors import RecordError, RecordFormatError
from strands_sglang.rollout import Segment, SegmentKind

from .trees import examples

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=6)
LOGPROB = st.none() | st.floats(max_value=0, allow_nan=False, allow_infinity=False)


@st.composite
def segments(draw: st.DrawFn) -> list[Segment]:
    """A prompt segment, then any mixture, each replacing at most what the one before holds."""
    drawn: list[Segment] = []
    for index in range(draw(st.integers(1, 6))):
        kind = SegmentKind.PROMPT if not index else draw(st.sampled_from(SegmentKind))
        ids = draw(IDS)
        logprobs = draw(st.none() | st.lists(LOGPROB, min_size=len(ids), max_size=len(ids)))
        replaces = draw(st.integers(0, len(drawn[-1]) if drawn else 0))
        drawn.append(Segment.of(kind, ids, logprobs, replaces=replaces))
    return drawn


@examples(60)
@given(segments())
def test_all_columns_have_the_length_of_the_rollout(drawn: list[Segment]) -> None:
    rollout = Rollout(drawn)

    lengths = {len(rollout.token_ids), len(rollout.loss_mask), len(rollout.logprobs), len(rollout.weight_versions)}
    assert lengths == {len(rollout)}
    assert sum(length for _, length in rollout.segment_info) == len(rollout)


@examples(60)
@given(segments())
def test_saving_and_loading_gives_an_equal_rollout(drawn: list[Segment]) -> None:
    rollout = Rollout(drawn, image_data=["data:image/png;base64,AA=="])

    loaded = Rollout.from_json(rollout.to_json())

    assert loaded == rollout
    assert (loaded.token_ids, loaded.loss_mask, loaded.logprobs) == (
        rollout.token_ids,
        rollout.loss_mask,
        rollout.logprobs,
    )


def test_the_mask_is_one_exactly_on_sampled_tokens() -> None:
    rollout = Rollout([Segment.of(SegmentKind.PROMPT, [1, 2]), Segment.of(SegmentKind.SAMPLED, [3], [-0.5])])

    assert rollout.token_ids == [1, 2, 3]
    assert rollout.loss_mask == [0, 0, 1]
    assert rollout.logprobs == [None, None, -0.5]
    assert rollout.segment_info == [(False, 2), (True, 1)]
    assert rollout.initial_prompt_length == 2


def test_a_missing_logprob_is_none_and_zero_stays_zero() -> None:
    rollout = Rollout([Segment.of(SegmentKind.PROMPT, [1]), Segment.of(SegmentKind.SAMPLED, [3, 4], [None, 0.0])])

    assert rollout.logprobs == [None, None, 0.0]


def test_a_replaced_stop_token_leaves_the_context_but_not_its_segment() -> None:
    rollout = Rollout(
        [
            Segment.of(SegmentKind.PROMPT, [1]),
            Segment.of(SegmentKind.SAMPLED, [5, 9], [-0.1, -0.2]),
            Segment.of(SegmentKind.PROMPT, [8, 7], replaces=1),
        ]
    )

    assert rollout.token_ids == [1, 5, 8, 7]
    assert rollout.loss_mask == [0, 1, 0, 0]
    assert rollout.segments[1].ids.tolist() == [5, 9]


def test_versions_follow_the_spans() -> None:
    sampled = Segment.of(SegmentKind.SAMPLED, [4, 5, 6], weight_spans=(("v1", 0, 2), ("v2", 2, 3)))

    assert Rollout([Segment.of(SegmentKind.PROMPT, [1]), sampled]).weight_versions == [None, "v1", "v1", "v2"]


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(RecordError, match="2 token ids but 1 logprobs"):
        Segment.of(SegmentKind.SAMPLED, [1, 2], [-0.1])


@pytest.mark.parametrize("ids", [[-1], [2**31], ["a"], [1.5]])
def test_ids_that_are_none_are_refused(ids: list[int]) -> None:
    with pytest.raises(RecordError):
        Segment.of(SegmentKind.PROMPT, ids)


def test_a_rollout_begins_with_a_prompt() -> None:
    with pytest.raises(RecordError, match="begins with a prompt"):
        Rollout([Segment.of(SegmentKind.SAMPLED, [1])])


def test_handed_out_lists_are_copies() -> None:
    rollout = Rollout([Segment.of(SegmentKind.PROMPT, [1])])

    rollout.token_ids.append(2)

    assert rollout.token_ids == [1]


def test_an_empty_rollout_is_true() -> None:
    """Strands and other hosts test objects for truth; an empty record is still a record."""
    assert Rollout()
    assert len(Rollout()) == 0
    assert Rollout().initial_prompt_length == 0
    assert Rollout().token_ids == []
    assert Rollout().segment_info == []
    assert Rollout().weight_versions == []
    assert repr(Rollout()) == "Rollout(tokens=0, sampled=0, segments=0)"
    assert Rollout.from_json(Rollout().to_json()) == Rollout()


def test_it_is_a_field_of_a_pydantic_model() -> None:
    class Row(BaseModel):
        rollout: Rollout | None = None

    rollout = Rollout([Segment.of(SegmentKind.PROMPT, [1]), Segment.of(SegmentKind.SAMPLED, [2], [-1.0])])

    assert Row(rollout=rollout).rollout is rollout
    assert Row.model_validate_json(Row(rollout=rollout).model_dump_json()).rollout == rollout


SAVED = '{"format": "strands-sglang/rollout", "version": 1, "image_data": [], "segments": [%s]}'
DAMAGED = [
    "{}",
    "3",
    '{"kind": "prompt", "ids": [1], "replaces": -3}',
    '{"kind": "prompt", "ids": [1], "facts": 3}',
    '{"kind": "prompt", "ids": [1], "message_index": "x"}',
    '{"kind": "prompt", "ids": [1], "weight_spans": [["v", -1, 1]]}',
    '{"kind": "prompt", "ids": [1], "weight_spans": [["v", 0, 99]]}',
    '{"kind": "prompt", "ids": [1], "logprobs": []}',
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a saved rollout"),
        ("[]", "not a saved rollout"),
        ('{"format": "other"}', "expected format"),
        ('{"format": "strands-sglang/rollout", "version": 99}', "version 99 is unknown"),
        ('{"format": "strands-sglang/rollout", "version": 1}', "damaged"),
        *((SAVED % row, "damaged") for row in DAMAGED),
        ("[" * 100_000, "not a saved rollout"),
        (SAVED % '{"kind": "prompt", "ids": [1], "replaces": Infinity}', "Infinity is not JSON"),
        (
            '{"format": "strands-sglang/rollout", "version": 1, "image_data": [], "segments": [{"kind": "x"}]}',
            "damaged",
        ),
    ],
)
def test_what_is_no_saved_rollout_is_refused(text: str, words: str) -> None:
    with pytest.raises(RecordFormatError, match=words):
        Rollout.from_json(text)


def test_a_cut_file_is_refused() -> None:
    text = Rollout([Segment.of(SegmentKind.PROMPT, [1, 2, 3])]).to_json()

    with pytest.raises(RecordFormatError):
        Rollout.from_json(text[: len(text) // 2])


def test_saved_rollouts_are_plain_json() -> None:
    saved = json.loads(Rollout([Segment.of(SegmentKind.PROMPT, [1])]).to_json())

    assert saved["format"] == "strands-sglang/rollout"
    assert saved["version"] == 1

"""What truncation left to choose from, from the server's answer to the record and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang import SGLangClient, Trajectory
from strands_sglang.engine import EngineTransport, ScriptedEngine, Turn
from strands_sglang.errors import RecordError, SGLangDecodingError
from strands_sglang.rollout import SamplingSupport, Segment, SegmentKind
from strands_sglang.wire import GenerateRequest
from tests.unit.provider.test_episode import Build

from .trees import examples

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4), max_size=4)
REQUEST = GenerateRequest(input_ids=[1], sampling_params={"top_k": 5}, return_sampling_mask=True)


def masked(*ids: int, **changes: Any) -> Turn:
    """A turn that tells for each id a support of three, and a logprob."""
    meta: Mapping[str, Any] = {
        "output_token_sampling_mask": [[token, token + 1, token + 2] for token in ids],
        "output_token_sampling_logprobs": [-0.25 * (at + 1) for at in range(len(ids))],
        "output_token_sampling_mask_length": len(ids),
    }
    finish = changes.pop("finish", "stop")
    return Turn(ids=ids, finish=finish, meta={**meta, **changes})


@examples(50)
@given(ROWS, st.data())
def test_it_comes_back_from_a_record_as_it_was(rows: list[list[int]], data: st.DataObject) -> None:
    logprobs = data.draw(st.lists(st.none() | st.floats(-9, 0), min_size=len(rows), max_size=len(rows)))
    support = SamplingSupport.of(rows, logprobs)
    segment = Segment.of(SegmentKind.SAMPLED, range(len(rows)), facts={"sampling_mask": support.to_fact()})
    read = segment.support

    assert read is not None
    assert (list(read), read.logprob_list(), len(read)) == (rows, logprobs, len(rows))
    assert read.offsets[0] == 0
    assert read.offsets[-1] == len(read.ids)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_provider_asks_for_it_and_keeps_it(stage: Build, stream: bool) -> None:
    on = stage(masked(70, 71), return_sampling_mask=True, sampling_params={"top_k": 3}, stream=stream)
    await on.agent().invoke_async("Go")
    (turn,) = Trajectory.from_json(on.model.trajectory.to_json()).turns
    support = turn.sampled.support

    assert on.engine.requests[0]["return_sampling_mask"] is True
    assert support is not None
    assert list(support) == [[70, 71, 72], [71, 72, 73]]
    assert support.logprob_list() == [-0.25, -0.5]


async def test_it_is_not_asked_for_unless_it_is_wanted(stage: Build) -> None:
    on = stage(Turn(ids=[70, 71]))
    await on.agent().invoke_async("Go")

    assert "return_sampling_mask" not in on.engine.requests[0]
    assert on.model.trajectory.turns[0].sampled.support is None


async def test_a_resumed_turn_has_the_rows_of_its_parts(stage: Build) -> None:
    on = stage(masked(70, finish="abort"), masked(80, 81), return_sampling_mask=True)
    await on.agent().invoke_async("Go")
    (turn,) = on.model.trajectory.turns

    assert turn.sampled.support is not None
    assert list(turn.sampled.support) == [[70, 71, 72], [80, 81, 82], [81, 82, 83]]
    assert turn.sampled.support.logprob_list() == [-0.25, -0.25, -0.5]


async def test_where_all_logprobs_were_asked_for_the_sampled_tokens_are_taken() -> None:
    values = [[-3.0, -1.0, -2.0], [-4.0, -5.0, None]]
    turn = masked(70, 71, output_token_sampling_logprobs=values, output_token_sampling_mask=[[5, 70, 6], [1, 2, 71]])

    reply = await answered(turn)

    assert reply.sampling_logprobs == [-1.0, None]


async def answered(turn: Turn) -> Any:
    async with SGLangClient("http://engine", transport=EngineTransport(ScriptedEngine([turn]))) as client:
        return await client.send(REQUEST)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_token_sampling_mask": [[70]]}, "2 output_ids but 1 rows"),
        ({"output_token_sampling_mask": [[70], [70]]}, r"output_ids\[1\] is 71, which is not among"),
        ({"output_token_sampling_mask": [[70], "x"]}, r"sampling_mask\[1\] is not a list of ids"),
        ({"output_token_sampling_mask": [[70], [71.0]]}, r"sampling_mask\[1\] is not a list of ids"),
        ({"output_token_sampling_mask": 3}, "not a JSON"),
        ({"output_token_sampling_logprobs": [-1.0]}, "2 output_ids but 1 output_token_sampling_logprobs"),
        ({"output_token_sampling_logprobs": [-1.0, True]}, r"sampling_logprobs\[1\] is not a number"),
        ({"output_token_sampling_logprobs": [-1.0, [-1.0]]}, r"sampling_logprobs\[1\] has 1 values for 3 ids"),
        ({"output_token_sampling_logprobs": None}, "sampling_logprobs is None"),
    ],
)
async def test_rows_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SGLangDecodingError, match=words):
        await answered(masked(70, 71, **changes))


async def test_a_server_that_leaves_it_out_is_refused() -> None:
    with pytest.raises(SGLangDecodingError, match="asked for, but meta_info has no output_token_sampling_mask"):
        await answered(Turn(ids=[70, 71]))


@pytest.mark.parametrize(
    "fact",
    [
        3,
        {},
        {"lengths": "AQAAAA==", "ids": "!", "logprobs": ""},
        {"lengths": "AQAAAA==", "ids": "AQAA", "logprobs": ""},
        {"lengths": "AQAAAA==", "ids": 3, "logprobs": ""},
        SamplingSupport.of([[1], [2]]).to_fact(),
        {**SamplingSupport.of([[1]]).to_fact(), "ids": ""},
        {**SamplingSupport.of([[1]]).to_fact(), "lengths": "AAAAAA==", "ids": ""},
    ],
)
def test_a_damaged_fact_is_refused(fact: Any) -> None:
    segment = Segment.of(SegmentKind.SAMPLED, [1], facts={"sampling_mask": fact})

    with pytest.raises(RecordError, match="sampling mask"):
        segment.support  # noqa: B018


def test_ids_that_are_none_are_refused() -> None:
    with pytest.raises(RecordError, match="integers below"):
        SamplingSupport.of([[2**31]])
    with pytest.raises(RecordError, match="one is empty"):
        SamplingSupport.of([[]])

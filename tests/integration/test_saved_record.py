"""What the real server tells of a turn is in the record, and comes back from a file of records."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from strands import Agent

from strands_sglang import LoopLimiter, RecordWriter, SGLangClient, SGLangModel, Trajectory, read_records

from .episodes import CUT_SHORT, MAX_TOOL_ITERATIONS, Served, calculator

QUESTION = "What is 12 * 7 and what is 30 - 4?"
TRUNCATED: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "max_new_tokens": 200}


async def recorded(served: Served, **config: Any) -> Trajectory:
    """Play an episode that asks for the support of each token."""
    async with SGLangClient(served.url) as client:
        model = SGLangModel(client=client, tokenizer=served.tokenizer, return_sampling_mask=True, **config)
        limiter = LoopLimiter(max_tool_iters=MAX_TOOL_ITERATIONS, on_limit="stop")
        agent = Agent(model=model, tools=[calculator], hooks=[limiter], callback_handler=None)
        with contextlib.suppress(*CUT_SHORT):  # sampled answers may go on and on
            await agent.invoke_async(QUESTION)
        return model.trajectory


@pytest.mark.parametrize("stream", [False, True])
async def test_the_support_of_each_sampled_token_is_recorded(served: Served, tmp_path: Path, stream: bool) -> None:
    trajectory = await recorded(served, sampling_params=TRUNCATED, stream=stream)
    with RecordWriter(tmp_path / "episodes.jsonl") as writer:
        await writer.awrite(trajectory)

    (read,) = read_records(tmp_path / "episodes.jsonl")

    assert read == trajectory
    assert read.turns
    for turn in read.turns:
        support = turn.sampled.support
        assert support is not None
        columns = (turn.sampled.ids, support, support.logprob_list(), turn.sampled.logprob_list())
        for token, row, among, whole in zip(*columns, strict=True):
            assert token in row
            assert 1 <= len(row) <= TRUNCATED["top_k"]
            assert among is not None
            assert whole is not None
            # The tokens that are left share what the others had.
            assert whole - 1e-3 <= among <= 1e-6


async def test_the_support_of_a_greedy_token_is_itself(served: Served) -> None:
    trajectory = await recorded(served, sampling_params={"temperature": 0.0, "max_new_tokens": 30, "top_k": 1})
    sampled = trajectory.turns[0].sampled

    assert sampled.support is not None
    assert list(sampled.support) == [[token] for token in sampled.ids]
    assert sampled.facts["logprob_kind"] == "untempered"

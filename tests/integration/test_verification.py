"""Fifty episodes over a weight update: every exported log-probability is that of the weights that sampled it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from strands import Agent

from strands_sglang import LoopLimiter, SGLangClient, Trajectory
from strands_sglang.replay import Replay
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Turn
from strands_sglang.verification import Verdict, VerificationReport, verify
from strands_sglang.wire import GenerateRequest

from .conftest import StartServer
from .episodes import CUT_SHORT
from .exported import assert_exports_are_of_the_right_weights
from .sglang_cpu.checkpoints import perturbed
from .weight_update import (
    EPISODES,
    NEW,
    OLD,
    SAMPLED,
    THIRD,
    Stage,
    ask,
    assert_all_of_it_happened,
    saved_and_read,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VOCABULARY = 1024


@pytest.fixture(scope="module")
def stage(start_server: StartServer, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(tiny_model))
    other = perturbed(tiny_model, tmp_path_factory.mktemp("weights") / "new", scale=0.1)
    with start_server("--weight-version", OLD) as url:
        yield Stage(url=url, tokenizer=tokenizer, weights={OLD: tiny_model, NEW: other})


async def test_every_exported_logprob_is_that_of_the_weights_that_sampled_it(
    stage: Stage, tmp_path: Path, measure: Callable[[str, str], None]
) -> None:
    async with stage.client() as client:
        before = await stage.play_many(client, THIRD)
        reports_before = await verified(stage, client, before)
        during = await stage.play_over_update(client, THIRD)
        after = await stage.play_many(client, EPISODES - 2 * THIRD)
        saved = saved_and_read([*before, *during, *after], tmp_path / "episodes.jsonl")
        reports = await verified(stage, client, saved)

    happened = assert_all_of_it_happened(saved)
    # By the server: the weights in place explain what they did not sample, and nothing else differs.
    assert all(report.complete for report in reports_before), "\n".join(map(str, reports_before))
    assert all(report.ok for report in reports), "\n".join(str(report) for report in reports if not report.ok)
    assert all(report.complete for report in reports[2 * THIRD :])
    for report in reports:
        for turn in report.with_verdict(Verdict.OTHER_WEIGHTS):
            assert OLD in turn.weight_versions
    # By another implementation: each exported token under the weights that are recorded for it.
    found = await assert_exports_are_of_the_right_weights(saved, stage.weights)
    await assert_all_replay(stage, saved)
    measure(f"dense, {EPISODES} episodes under two weights", happened)
    measure(f"  largest logprob difference to transformers, {found.tokens} tokens", f"{found.largest:.1e}")
    scored = max(report.totals["largest"] for report in [*reports_before, *reports[2 * THIRD :]])
    measure("  largest logprob difference that verify found in them", f"{scored:.1e}")


async def verified(stage: Stage, client: SGLangClient, trajectories: Sequence[Trajectory]) -> list[VerificationReport]:
    """Verify episodes against the weights in place."""
    return [await verify(trajectory, client, tokenizer=stage.tokenizer) for trajectory in trajectories]


async def assert_all_replay(stage: Stage, trajectories: Sequence[Trajectory]) -> None:
    """Run the agent's code again on the recorded answers, without the server."""
    for trajectory in trajectories:
        replay = Replay(trajectory, tokenizer=stage.tokenizer)
        model = stage.model(replay.client())
        await ask(model)
        assert replay.unplayed == []
        assert [branch.token_ids for branch in model.trajectory.branches] == [
            branch.token_ids for branch in trajectory.branches
        ]
        assert [branch.logprobs for branch in model.trajectory.branches] == [
            branch.logprobs for branch in trajectory.branches
        ]


@pytest.mark.parametrize("temperature", [0.6, 1.4])
async def test_turns_of_another_temperature_are_compared_through_the_likeliest_tokens(
    stage: Stage, temperature: float, measure: Callable[[str, str], None]
) -> None:
    async with stage.client() as client:
        model = stage.model(client, temperature=temperature)
        await ask(model)
        # With all tokens told nothing is left to bound; with a few the rest is bounded, and never a failure.
        exactly = await verify(model.trajectory, client, top_logprobs=VOCABULARY, vocab_size=VOCABULARY)
        roughly = await verify(model.trajectory, client)

    assert exactly.complete, str(exactly)
    assert roughly.ok, str(roughly)
    measure(f"largest logprob difference at temperature {temperature}", f"{exactly.totals['largest']:.1e}")
    share = roughly.totals["compared"] / roughly.totals["tokens"]
    measure(f"tokens compared at temperature {temperature} by the 20 likeliest tokens", f"{share:.0%}")


async def test_an_answer_under_a_grammar_is_not_comparable_and_the_rest_is_compared(stage: Stage) -> None:
    async with stage.client() as client:
        model = stage.model(client, regex="[0-9]{4}")
        await Agent(model=model, callback_handler=None).invoke_async("Which year?")
        model.update_config(sampling_params=SAMPLED)
        # What is sampled freely may be cut by its budget, or call a tool that is not there and be told so.
        limiter = LoopLimiter(max_tool_iters=3, on_limit="stop")
        with suppress(*CUT_SHORT):
            await Agent(model=model, hooks=[limiter], callback_handler=None).invoke_async("What is 81 / 9?")
        report = await verify(model.trajectory, client)

    under_grammar, *free = [turn.verdict for turn in report.turns]
    assert under_grammar is Verdict.NOT_COMPARABLE, str(report)
    assert set(free) == {Verdict.AGREES}, str(report)


async def test_the_last_id_of_the_vocabulary_is_scored_too(stage: Stage) -> None:
    trajectory = Trajectory()
    async with stage.client() as client:
        prompt = [10, VOCABULARY - 1, 20]
        reply = await client.send(GenerateRequest(input_ids=prompt, sampling_params={"max_new_tokens": 4}))
        sampled = Segment.of(SegmentKind.SAMPLED, reply.output_ids, reply.output_logprobs)
        asked = Segment.of(SegmentKind.PROMPT, prompt)
        trajectory.add(Turn(index=0, parent=None, prompt=asked, sampled=sampled, conversation=0, lineage=Lineage.MAIN))
        forced = {"max_new_tokens": 2, "ignore_eos": True, "logit_bias": {str(VOCABULARY - 1): 100.0}}
        last = await client.send(GenerateRequest(input_ids=prompt, sampling_params=forced, logprob_start_len=0))
        report = await verify(trajectory, client)

    assert last.output_ids == [VOCABULARY - 1] * 2
    assert last.input_logprobs is not None
    assert report.complete, str(report)

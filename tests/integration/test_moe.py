"""The routing rows of a mixture of experts on the real server are those of the model's own router."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from strands_sglang import Rollout, SGLangClient
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.routing import RoutedExperts, routed_experts, routing_shape
from strands_sglang.verification import verify
from strands_sglang.wire import GenerateReply, GenerateRequest

from .conftest import StartServer
from .episodes import ATTEMPTS, CUT_SHORT, Served, episode
from .exported import DECIDED, ROUTING, ROUTING_OPTIONS, assert_exports_are_of_the_right_weights
from .forward_pass import Opinion, forward
from .sglang_cpu.checkpoints import mixture, perturbed
from .sglang_cpu.install import default_environment
from .watching import PATIENCE, load_of, until_load
from .weight_update import EPISODES, NEW, OLD, THIRD, Stage, assert_all_of_it_happened, saved_and_read

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTIONS = ("What is 25 * 17?", "What is 12 * 7 and what is 30 - 4?")
SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 200}


@pytest.fixture(scope="module")
def checkpoint(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unlike_mixture(tiny_model, tmp_path_factory.mktemp("checkpoints"), seed=0)


def unlike_mixture(tiny_model: Path, folder: Path, seed: int) -> Path:
    """A mixture whose experts differ, so that a token's log-probability is that of its experts."""
    return perturbed(
        mixture(tiny_model, folder / f"alike{seed}", seed=seed), folder / f"moe{seed}", seed=seed, scale=0.1
    )


@pytest.fixture(scope="module")
def moe(start_server: StartServer, checkpoint: Path, tiny_model: Path) -> Iterator[Served]:
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(tiny_model))
    with start_server("--enable-return-routed-experts", "--weight-version", OLD, model=checkpoint) as url:
        yield Served(url=url, tokenizer=tokenizer, tool_parser="hermes")


@pytest.fixture
def stage(moe: Served, checkpoint: Path, tiny_model: Path, tmp_path: Path) -> Iterator[Stage]:
    weights = {OLD: checkpoint, NEW: unlike_mixture(tiny_model, tmp_path, seed=1)}
    yield Stage(url=moe.url, tokenizer=moe.tokenizer, weights=weights, config={"return_routed_experts": True})
    back = {"model_path": str(checkpoint), "weight_version": OLD, "flush_cache": True}
    httpx.post(f"{moe.url}/update_weights_from_disk", json=back, timeout=300.0).raise_for_status()


def stitched(rollout: Rollout, checkpoint: Path) -> RoutedExperts:
    layers, top_k = routing_shape(json.loads((checkpoint / "config.json").read_text()))
    return routed_experts(rollout, num_layers=layers, top_k=top_k)


def assert_rows_are_the_routers(rollout: Rollout, routing: RoutedExperts, opinion: Opinion) -> int:
    """Compare every row that is decided by more than float32's noise; return how many were."""
    rows = routing.fed_rows()
    assert rows.dtype == np.uint8
    assert len(rows) == len(rollout) - 1 == len(opinion.experts) - 1
    decided = [at for at in range(len(rows)) if opinion.margins[at] > DECIDED]
    for at in decided:
        assert rows[at].tolist() == opinion.experts[at], f"position {at} of {len(rollout)}"
    assert len(decided) > 0.9 * len(rows)
    return len(decided)


async def test_the_rows_of_an_episode_are_those_of_the_models_router(
    moe: Served, checkpoint: Path, measure: Callable[[str, str], None]
) -> None:
    for _ in range(ATTEMPTS):
        async with episode(moe, sampling_params=SAMPLED, return_routed_experts=True) as run:
            with suppress(*CUT_SHORT):
                for question in QUESTIONS:
                    await run.agent.invoke_async(question)
            rollout = run.model.rollout
        if len(run.exchanges) >= 4:
            break
    else:
        pytest.fail("no episode of several turns")

    # Each turn but the first asks only for what is new.
    assert [exchange.sent.get("routed_experts_start_len", 0) > 0 for exchange in run.exchanges] == [False] + [True] * (
        len(run.exchanges) - 1
    )
    routing = stitched(rollout, checkpoint)
    (opinion,) = forward(default_environment(), checkpoint, [rollout.token_ids])
    compared = assert_rows_are_the_routers(rollout, routing, opinion)
    assert len(np.unique(routing.fed_rows())) == 8, "not every expert was used"
    measure(f"routing rows equal to those of transformers, of {len(rollout) - 1}", str(compared))


async def test_a_generation_that_was_aborted_and_carried_on_has_every_row(moe: Served, checkpoint: Path) -> None:
    prompt = moe.tokenizer.encode("<|im_start|>user\nTell a long story.<|im_end|>\n<|im_start|>assistant\n")
    sampling = {"temperature": 1.0, "max_new_tokens": 600, "ignore_eos": True}
    request = GenerateRequest(input_ids=prompt, sampling_params=sampling, return_routed_experts=True)
    async with SGLangClient(moe.url) as client, httpx.AsyncClient(base_url=moe.url, timeout=PATIENCE) as watcher:
        task = asyncio.create_task(client.send(request))
        await until_load(lambda: load_of(watcher), lambda load: load.running > 0)
        await client.pause_generation("abort")
        await client.continue_generation()
        reply = await task
        # The server refuses to flush until it has taken the answered request out of its batch.
        await until_load(lambda: load_of(watcher), lambda load: load.is_none)
        await client.flush_cache()
        once = replace(request, input_ids=[*prompt, *reply.output_ids[:-1]], sampling_params={"max_new_tokens": 1})
        whole = await client.send(once)

    assert reply.resumptions == 1
    rows = stitched(one_turn(prompt, reply), checkpoint).fed_rows()
    again = stitched(one_turn(once.input_ids, whole), checkpoint).fed_rows()
    # Two experts within float32 noise of each other may be told either way; rows in a wrong place nearly all differ.
    assert (rows == again).all(axis=(1, 2)).mean() > 0.99
    assert (rows[1:] == again[:-1]).all(axis=(1, 2)).mean() < 0.5


def one_turn(prompt: Sequence[int], reply: GenerateReply) -> Rollout:
    """A reply as the library records it."""
    refed = [list(stretch) for stretch in reply.routed_experts_refed]
    facts = {"routed_experts": reply.routed_experts, "routed_experts_start_len": 0, "routed_experts_refed": refed}
    spans = tuple((span.version, span.start, span.end) for span in reply.weight_versions)
    sampled = Segment.of(SegmentKind.SAMPLED, reply.output_ids, reply.output_logprobs, weight_spans=spans, facts=facts)
    return Rollout([Segment.of(SegmentKind.PROMPT, prompt), sampled])


async def test_a_generation_that_was_retracted_over_an_update_has_the_rows_of_the_weights_that_sampled(
    stage: Stage, checkpoint: Path
) -> None:
    prompt = stage.tokenizer.encode("<|im_start|>user\nTell a long story.<|im_end|>\n<|im_start|>assistant\n")
    sampling = {"temperature": 1.0, "max_new_tokens": 600, "ignore_eos": True}
    request = GenerateRequest(input_ids=prompt, sampling_params=sampling, return_routed_experts=True)
    async with SGLangClient(stage.url) as client, httpx.AsyncClient(base_url=stage.url, timeout=PATIENCE) as watcher:
        task = asyncio.create_task(client.send(request))
        await until_load(lambda: load_of(watcher), lambda load: load.running > 0)
        await client.pause_generation("retract")
        await stage.update(client, NEW)
        await client.continue_generation()
        reply = await task

    assert (reply.resumptions, reply.retractions) == (0, 1)
    assert [span.version for span in reply.weight_versions] == [OLD, NEW]
    rollout = one_turn(prompt, reply)
    routing = stitched(rollout, checkpoint)
    before = len(prompt) + reply.weight_versions[1].start - 1
    assert routing.available == [before <= at < len(rollout) - 1 for at in range(len(rollout))]
    rows = routing.fed_rows(missing="mark")
    (opinion,) = forward(default_environment(), stage.weights[NEW], [rollout.token_ids])
    decided = [at for at in range(before, len(rows)) if opinion.margins[at] > DECIDED]
    assert len(decided) > 0.9 * (len(rows) - before)
    assert [rows[at].tolist() for at in decided] == [opinion.experts[at] for at in decided]


async def test_an_episode_of_a_mixture_of_experts_is_verified(moe: Served) -> None:
    async with episode(moe, sampling_params=SAMPLED) as run:
        with suppress(*CUT_SHORT):
            await run.agent.invoke_async(QUESTIONS[0])
    async with SGLangClient(moe.url) as client:
        report = await verify(run.model.trajectory, client, tokenizer=moe.tokenizer)

    assert report.complete, str(report)


def test_every_exporter_that_takes_routing_rows_is_read() -> None:
    assert set(ROUTING) == ROUTING_OPTIONS | {"jsonl", "parquet"}


async def test_everything_exported_of_a_mixture_of_experts_is_of_the_weights_that_sampled_it(
    stage: Stage, checkpoint: Path, tmp_path: Path, measure: Callable[[str, str], None]
) -> None:
    async with stage.client() as client:
        before = await stage.play_many(client, THIRD)
        during = await stage.play_over_update(client, THIRD)
        after = await stage.play_many(client, EPISODES - 2 * THIRD)
    saved = saved_and_read([*before, *during, *after], tmp_path / "episodes.jsonl")

    happened = assert_all_of_it_happened(saved)
    layers, top_k = routing_shape(json.loads((checkpoint / "config.json").read_text()))
    assert layers is not None
    assert top_k is not None
    found = await assert_exports_are_of_the_right_weights(saved, stage.weights, (layers, top_k))
    assert found.rows > 0.9 * found.all_rows
    measure(f"mixture of experts, {EPISODES} episodes under two weights", happened)
    measure(f"  largest logprob difference to transformers, {found.tokens} tokens", f"{found.largest:.1e}")
    measure(f"  routing rows equal to those of transformers, of {found.all_rows}", str(found.rows))

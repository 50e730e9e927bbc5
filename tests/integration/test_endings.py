"""How a turn can end on the real server, and what the record then holds (guarantees G8 and G9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

import httpx
import pytest
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang import SGLangAbortedError

from .episodes import (
    TOLERANCE,
    Served,
    assert_record_is_what_went_over_the_wire,
    episode,
    largest_difference,
)
from .watching import PATIENCE, load_of, until_load

QUESTION = "What is 25 * 17?"
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 300}
LONG: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 800, "ignore_eos": True}


@pytest.fixture
async def idle(served: Served) -> Served:
    """The server, once it is done with what earlier tests left behind."""
    async with httpx.AsyncClient(base_url=served.url, timeout=PATIENCE) as client:
        await until_load(partial(load_of, client), lambda load: load.is_none)
    return served


async def test_a_turn_that_stopped_ends_with_the_sampled_stop_token(served: Served) -> None:
    async with episode(served, sampling_params=GREEDY) as run:
        result = await run.agent.invoke_async(QUESTION)

    assert result.stop_reason == "end_turn"
    finish = run.exchanges[-1].finish_reason
    assert finish["type"] == "stop"
    assert run.model.rollout.token_ids[-1] == finish["matched"]
    assert run.model.rollout.loss_mask[-1] == 1


async def test_a_turn_ended_by_a_stop_string_keeps_every_sampled_id(served: Served) -> None:
    async with episode(served, sampling_params={**GREEDY, "stop": ["425"]}) as run:
        result = await run.agent.invoke_async(QUESTION)
        stopped = run.exchanges[-1]
        run.model.update_config(sampling_params=GREEDY)
        await run.agent.invoke_async("What is 81 / 9?")

    assert result.stop_reason == "stop_sequence"
    assert stopped.finish_reason == {"type": "stop", "matched": "425"}
    assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)
    assert largest_difference(served.url, run.model.rollout) < TOLERANCE


async def test_a_turn_cut_by_length_is_recorded_and_closed_by_unsampled_tokens(served: Served) -> None:
    async with episode(served, sampling_params={**GREEDY, "max_new_tokens": 6}) as run:
        with pytest.raises(MaxTokensReachedException):
            await run.agent.invoke_async(QUESTION)
        cut = run.model.rollout
        assert sum(cut.loss_mask) == 6
        run.model.update_config(sampling_params=GREEDY)
        await run.agent.invoke_async(QUESTION)

    assert run.exchanges[0].finish_reason["type"] == "length"
    assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)
    end_of_turn = served.tokenizer.eos_token_id
    assert run.model.rollout.token_ids[len(cut)] == end_of_turn
    assert run.model.rollout.loss_mask[len(cut)] == 0


async def test_an_aborted_generation_goes_on_from_its_own_tokens(idle: Served) -> None:
    async with episode(idle, sampling_params=LONG) as run, asyncio.TaskGroup() as tasks:
        tasks.create_task(abort_in_mid_generation(run.transport.next_rid(), idle.url))
        with pytest.raises(MaxTokensReachedException):
            await run.agent.invoke_async(QUESTION)

    kinds = [exchange.finish_reason["type"] for exchange in run.exchanges]
    assert kinds == ["abort", "length"]
    assert len(run.exchanges[0].output_ids) > 0
    assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)
    assert sum(run.model.rollout.loss_mask) == LONG["max_new_tokens"]
    assert largest_difference(idle.url, run.model.rollout) < TOLERANCE


async def test_an_abort_that_is_not_resumed_is_an_error_and_leaves_no_turn(idle: Served) -> None:
    async with episode(idle, client_options={"on_abort": "raise"}, sampling_params=LONG) as run:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(abort_in_mid_generation(run.transport.next_rid(), idle.url))
            with pytest.raises(SGLangAbortedError) as caught:
                await run.agent.invoke_async(QUESTION)

        assert list(caught.value.reply.output_ids) == run.exchanges[0].output_ids
        assert len(run.model.rollout) == 0


async def test_a_cancelled_turn_leaves_the_record_as_it_was(idle: Served) -> None:
    async with episode(idle, sampling_params=GREEDY) as run:
        await run.agent.invoke_async(QUESTION)
        before = run.model.rollout.to_json()
        run.model.update_config(sampling_params=LONG)
        started = run.transport.next_rid()
        task = asyncio.create_task(run.agent.invoke_async("What is 81 / 9?"))
        await mid_generation(started, idle.url)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert run.model.rollout.to_json() == before

        run.model.update_config(sampling_params=GREEDY)
        await run.agent.invoke_async("What is 81 / 9?")

    assert_record_is_what_went_over_the_wire(run.model.rollout, run.exchanges)


async def mid_generation(rid: Awaitable[str], url: str) -> str:
    """Wait until a generation, sent next and the only one of the server, has sampled its first token."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        sent = await rid
        await until_load(partial(load_of, client), lambda load: load.running == 1)
    return sent


async def abort_in_mid_generation(rid: Awaitable[str], url: str) -> None:
    """Abort a generation from outside."""
    sent = await mid_generation(rid, url)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        (await client.post("/abort_request", json={"rid": sent})).raise_for_status()

"""Aborts, pauses, weight versions, the prefix cache, and what the engine says about itself."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import orjson
import pytest

from strands_sglang.engine import EngineTransport, TinyEngine
from strands_sglang.engine.tiny.checkpoint import Array
from strands_sglang.engine.tiny.runner import Part
from strands_sglang.errors import SGLangConfigError

PROMPT = [1016, 295, 198, 5, 77, 300, 4, 4]
ENDLESS = {"temperature": 0, "ignore_eos": True, "max_new_tokens": 1900}


def begin(client: httpx.AsyncClient, rid: str, **body: Any) -> asyncio.Task[httpx.Response]:
    request = {"input_ids": PROMPT, "sampling_params": ENDLESS, "return_logprob": True, "rid": rid, **body}
    return asyncio.create_task(client.post("/generate", json=request))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def generating(engine: TinyEngine, count: int = 1) -> None:
    """Wait until `count` requests run and the first has sampled something."""
    scheduler = engine._core.scheduler
    await until(lambda: len(scheduler.running) == count and len(scheduler.running[0].output) > 3)


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    return await client.post(path, json=body)


async def begin_and_pause(
    engine: TinyEngine, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, mode: str, **body: Any
) -> asyncio.Task[httpx.Response]:
    """Begin a request, and pause within its sixth step: the model waits there until the pause is asked for."""
    runner = engine._core.scheduler._runner
    forward, reached, go_on, steps = runner.forward, threading.Event(), threading.Event(), list[None]()

    def held(parts: Sequence[Part]) -> Array:
        steps.append(None)
        if len(steps) == 6:
            reached.set()
            assert go_on.wait(60), "no pause was asked for"
        return forward(parts)

    monkeypatch.setattr(runner, "forward", held)
    asked = begin(client, "held", **body)
    await until(reached.is_set)
    pausing = asyncio.create_task(post(client, "/pause_generation", mode=mode))
    await until(lambda: bool(engine._core.worker._inbox))
    go_on.set()
    await pausing
    return asked


async def test_an_abort_of_a_running_request_keeps_its_tokens(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    asked = begin(fresh_client, "a")
    await generating(fresh)

    aborted = await post(fresh_client, "/abort_request", rid="a")
    answer = (await asked).json()

    meta = answer["meta_info"]
    assert (aborted.status_code, aborted.content) == (200, b"")
    assert meta["finish_reason"] == {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    assert len(answer["output_ids"]) == len(meta["output_token_logprobs"]) == meta["completion_tokens"] > 3
    assert meta["prompt_tokens"] == len(PROMPT)


async def test_an_abort_in_the_queue_has_the_reduced_shape() -> None:
    engine = TinyEngine(max_running_requests=1)
    async with httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine", timeout=60) as client:
        first = begin(client, "first")
        await generating(engine)
        queued = begin(client, "queued")
        await until(lambda: len(engine._core.scheduler.waiting) == 1)

        await post(client, "/abort_request", rid="queued")
        answer = (await queued).json()
        await post(client, "/abort_request", abort_all=True)
        await first

    assert answer["meta_info"]["finish_reason"] == {"type": "abort", "message": "Abort in waiting queue"}
    assert answer["output_ids"] == answer["meta_info"]["output_token_logprobs"] == []
    assert not {"prompt_tokens", "cached_tokens", "num_retractions"} & set(answer["meta_info"])


async def test_an_abort_of_nothing_or_of_a_prefix_does_nothing(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    asked = begin(fresh_client, "run10")
    await generating(fresh)

    replies = [await post(fresh_client, "/abort_request", rid=rid) for rid in ("run1", "other", "")]

    assert [reply.status_code for reply in replies] == [200, 200, 200]
    assert not asked.done()
    await post(fresh_client, "/abort_request", rid="run10")
    await asked


async def test_a_running_id_cannot_be_used_again(fresh: TinyEngine, fresh_client: httpx.AsyncClient) -> None:
    asked = begin(fresh_client, "twice")
    await generating(fresh)

    second = await begin(fresh_client, "twice")

    assert second.status_code == 400
    assert second.json() == {"error": {"message": "Duplicate request ID detected: twice"}}
    await post(fresh_client, "/abort_request", rid="twice")
    await asked


async def test_a_client_that_leaves_has_its_request_aborted(fresh: TinyEngine, fresh_client: httpx.AsyncClient) -> None:
    asked = begin(fresh_client, "left")
    await generating(fresh)

    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked

    await until(lambda: not fresh._core.scheduler.sequences)


@pytest.mark.parametrize("chunks", [0, 1])
async def test_a_stream_that_is_closed_early_has_its_request_aborted(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient, chunks: int
) -> None:
    request = {"input_ids": PROMPT, "sampling_params": ENDLESS, "stream": True}
    async with fresh_client.stream("POST", "/generate", json=request) as reply:
        lines = reply.aiter_lines()
        for _ in range(chunks):
            await anext(lines)

    await until(lambda: not fresh._core.scheduler.sequences)


async def test_an_aborted_stream_ends_with_an_abort_and_done(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    asked = begin(fresh_client, "s", stream=True, sampling_params={**ENDLESS, "stream_interval": 200})
    await generating(fresh)

    await post(fresh_client, "/abort_request", rid="s")
    text = (await asked).text

    *_, last, done, end = text.split("\n\n")
    assert orjson.loads(last.removeprefix("data: "))["meta_info"]["finish_reason"]["message"] == "Aborted"
    assert (done, end) == ("data: [DONE]", "")


async def test_pausing_by_default_aborts_and_holds_new_requests(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    running = begin(fresh_client, "running")
    await generating(fresh)

    paused = await post(fresh_client, "/pause_generation")
    held = begin(fresh_client, "held", sampling_params={"max_new_tokens": 2})
    await until(lambda: len(fresh._core.scheduler.waiting) == 1)

    assert paused.json() == {"message": "Generation paused successfully.", "status": "ok"}
    assert (await running).json()["meta_info"]["finish_reason"]["type"] == "abort"
    assert (await fresh_client.get("/health")).status_code == 503
    assert not held.done()
    await post(fresh_client, "/continue_generation")
    assert (await held).json()["meta_info"]["completion_tokens"] > 0
    assert (await fresh_client.get("/health")).status_code == 200


@pytest.mark.parametrize(("mode", "retractions"), [("in_place", 0), ("retract", 1)])
async def test_a_held_request_spans_two_weight_versions_and_goes_on_exactly(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, mode: str, retractions: int
) -> None:
    sampling = {**ENDLESS, "max_new_tokens": 200}
    alone = (await begin(fresh_client, "alone", sampling_params=sampling)).json()

    asked = await begin_and_pause(fresh, fresh_client, monkeypatch, mode, sampling_params=sampling)
    so_far = len(fresh._core.scheduler.sequences[0].output)
    await post(fresh_client, "/update_weight_version", new_version="v1", abort_all_requests=False)
    await post(fresh_client, "/continue_generation")
    answer = (await asked).json()

    meta = answer["meta_info"]
    assert answer["output_ids"] == alone["output_ids"]
    assert meta["weight_versions"] == [
        {"version": "v0", "start": 0, "end": so_far},
        {"version": "v1", "start": so_far, "end": 200},
    ]
    assert (meta["weight_version"], meta["num_retractions"]) == ("v1", retractions)
    assert (await fresh_client.get("/model_info")).json()["weight_version"] == "v1"


async def test_prompt_logprobs_survive_a_retraction(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body: dict[str, Any] = {"sampling_params": {**ENDLESS, "max_new_tokens": 200}, "logprob_start_len": 2}
    alone = (await begin(fresh_client, "alone", **body)).json()

    asked = await begin_and_pause(fresh, fresh_client, monkeypatch, "retract", **body)
    await post(fresh_client, "/continue_generation")

    meta = (await asked).json()["meta_info"]
    assert meta["num_retractions"] == 1
    logprobs = meta["input_token_logprobs"]
    expected = alone["meta_info"]["input_token_logprobs"]
    assert [triple[1] for triple in logprobs] == PROMPT[2:]
    assert [triple[0] for triple in logprobs[1:]] == pytest.approx([triple[0] for triple in expected[1:]], abs=1e-3)


async def test_changing_the_weight_version_aborts_unless_told_not_to(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    asked = begin(fresh_client, "a")
    await generating(fresh)

    reply = await post(fresh_client, "/update_weight_version", new_version="v9")

    assert reply.json() == {"success": True, "message": "Weight version updated to v9", "new_version": "v9"}
    assert (await asked).json()["meta_info"]["finish_reason"]["type"] == "abort"


async def short(client: httpx.AsyncClient, ids: list[int], **body: Any) -> dict[str, Any]:
    request = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}, **body}
    answer: dict[str, Any] = (await client.post("/generate", json=request)).json()
    return answer


async def test_the_next_turn_finds_prompt_and_answer_in_the_cache(fresh_client: httpx.AsyncClient) -> None:
    first = await short(fresh_client, PROMPT)
    again = await short(fresh_client, PROMPT)
    turn = await short(fresh_client, [*PROMPT, *first["output_ids"], 5, 6])

    # The last prompt token is always read again, and the last sampled one never was.
    assert [answer["meta_info"]["cached_tokens"] for answer in (first, again, turn)] == [0, 7, 11]
    assert first["output_ids"] == again["output_ids"]
    assert turn["meta_info"]["cached_tokens_details"] == {"device": 11, "host": 0}


async def test_namespaces_do_not_share_the_cache(fresh_client: httpx.AsyncClient) -> None:
    await short(fresh_client, PROMPT)
    other = await short(fresh_client, PROMPT, cache_salt="mine")
    again = await short(fresh_client, PROMPT, cache_salt="mine")

    assert [answer["meta_info"]["cached_tokens"] for answer in (other, again)] == [0, 7]


async def test_flushing_forgets_prefixes_and_is_refused_while_something_runs(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient
) -> None:
    await short(fresh_client, PROMPT)
    flushed = await fresh_client.post("/flush_cache")
    asked = begin(fresh_client, "a")
    await generating(fresh)
    refused = await fresh_client.get("/flush_cache")
    await post(fresh_client, "/abort_request", rid="a")

    assert (await asked).json()["meta_info"]["cached_tokens"] == 0
    assert (flushed.status_code, flushed.text.splitlines()[0]) == (200, "Cache flushed.")
    assert (refused.status_code, refused.text) == (400, "Flush cache failed.\n")


async def test_the_cache_keeps_to_its_size(fresh: TinyEngine, fresh_client: httpx.AsyncClient) -> None:
    fresh._core.scheduler._prefixes._capacity = 20
    for first in range(5, 10):
        await short(fresh_client, [first, *PROMPT])

    assert 0 < fresh._core.scheduler.used_tokens <= 20


async def test_more_requests_than_may_run_wait_for_their_turn() -> None:
    engine = TinyEngine(max_running_requests=2)
    async with httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine", timeout=60) as client:
        answers = await asyncio.gather(*(short(client, [each, *PROMPT]) for each in range(5, 12)))

    assert [len(answer["output_ids"]) for answer in answers] == [4] * 7


async def test_loads_count_running_and_waiting() -> None:
    engine = TinyEngine(max_running_requests=1)
    async with httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine", timeout=60) as client:
        asked = [begin(client, rid) for rid in ("a", "b")]
        await generating(engine)
        await until(lambda: len(engine._core.scheduler.waiting) == 1)
        load = (await client.get("/v1/loads")).json()["loads"][0]
        await post(client, "/abort_request", abort_all=True)
        await asyncio.gather(*asked)

    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["max_running_requests"]) == (1, 1, 1)


async def test_the_engine_says_what_it_serves(engine: TinyEngine, client: httpx.AsyncClient) -> None:
    model, server, models = [(await client.get(path)).json() for path in ("/model_info", "/server_info", "/v1/models")]

    assert (await client.get("/get_model_info")).json() == model
    assert (await client.get("/get_server_info")).json() == server
    assert model["model_path"] == str(engine.model_dir)
    assert (model["model_type"], model["has_image_understanding"]) == ("qwen3", False)
    assert (server["context_length"], server["max_req_input_len"], server["version"]) == (2048, 2042, "0.5.23")
    assert models["data"][0]["max_model_len"] == 2048


def test_an_engine_outlives_the_event_loop_it_was_first_used_in(fresh: TinyEngine) -> None:
    async def once() -> int:
        async with httpx.AsyncClient(transport=EngineTransport(fresh), base_url="http://engine") as client:
            return len((await short(client, PROMPT))["output_ids"])

    assert [asyncio.run(once()) for _ in range(2)] == [4, 4]


async def test_an_error_inside_a_step_reaches_everyone_who_waits(
    fresh: TinyEngine, fresh_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise MemoryError("no room for the scores")

    monkeypatch.setattr(fresh._core.scheduler._runner, "forward", broken)
    with pytest.raises(MemoryError, match="no room"):
        await short(fresh_client, PROMPT)
    monkeypatch.undo()

    assert len((await short(fresh_client, PROMPT))["output_ids"]) == 4


def test_fewer_than_one_running_request_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="at least 1, got 0"):
        TinyEngine(max_running_requests=0)

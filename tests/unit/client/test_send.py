"""`SGLangClient.send` against engines in this process: retries, aborts, deadlines, streams."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from strands_sglang.client import SGLangClient, StreamDelta
from strands_sglang.engine import Drop, EngineTransport, Refusal, ScriptedEngine, Step, Turn
from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangBadRequestError,
    SGLangConfigError,
    SGLangConnectionError,
    SGLangContextLengthError,
    SGLangDecodingError,
    SGLangGenerationError,
    SGLangIncompleteAnswerError,
    SGLangServerError,
    SGLangThrottledError,
    SGLangTimeoutError,
)
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import FinishType, GenerateReply, PromptIds, WeightSpan

from .bodies import PROMPT, asked, reply_body
from .fleet import Fleet, endless, until

QUICK = RetryPolicy(base_delay=0.0)
ANSWER = Turn(ids=[7, 8, 9], finish="length")
BUDGET = asked(sampling_params={"max_new_tokens": 3})


def client_of(engine: ScriptedEngine, **options: Any) -> SGLangClient:
    return SGLangClient("http://engine", **{"retry": QUICK, "transport": EngineTransport(engine), **options})


def scripted(*steps: Step, **options: Any) -> tuple[ScriptedEngine, SGLangClient]:
    engine = ScriptedEngine(steps)
    return engine, client_of(engine, **options)


async def test_a_reply_is_returned_validated_with_what_it_cost() -> None:
    engine, client = scripted(ANSWER)

    reply = await client.send(BUDGET)
    assert reply.output_ids == [7, 8, 9]
    assert (reply.retries, reply.resumptions) == (0, 0)
    assert reply.latency > 0
    assert engine.requests[0]["rid"] == reply.rid
    assert reply.url == "http://engine/generate"


async def test_generate_returns_the_body_as_the_server_wrote_it() -> None:
    engine, client = scripted(ANSWER)

    body = await client.generate(PROMPT, sampling_params={"max_new_tokens": 3}, return_logprob=True, priority=2)
    assert body["output_ids"] == [7, 8, 9]
    assert len(body["meta_info"]["output_token_logprobs"]) == 3
    assert (engine.requests[0]["input_ids"], engine.requests[0]["priority"]) == (PROMPT, 2)


async def test_generate_asks_for_logprobs_only_when_told_and_does_not_stream() -> None:
    engine, client = scripted(ANSWER)

    await client.generate(PROMPT, stream=False, return_logprob=None)
    assert engine.requests[0]["return_logprob"] is False
    with pytest.raises(SGLangConfigError, match="stream"):
        await client.generate(PROMPT, stream=True)


# --- retries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        Drop(),
        Refusal(status=503),
        Refusal(status=429, message="slow down", headers={"retry-after": "0"}),
        Refusal(status=502, body="<html></html>"),
        Refusal(status=504, body=""),
        Refusal(status=408, body={"code": "queue_timeout"}),
        Refusal(status=500, body="Internal Server Error"),
        Refusal(status=400, body={"error": {"message": "Duplicate request ID detected: x"}}),
    ],
)
async def test_a_failure_that_may_pass_is_tried_again_under_another_id(failure: Step) -> None:
    engine, client = scripted(failure, failure, ANSWER)

    reply = await client.send(BUDGET)
    assert reply.output_ids == [7, 8, 9]
    assert reply.retries == 2
    assert len({body["rid"] for body in engine.requests}) == 3
    assert engine.prompts == 3 * [PROMPT]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Refusal(status=400, body={"error": {"message": "temperature must be"}}), SGLangBadRequestError),
        (Refusal(status=400, body={"error": {"message": "rate limit exceeded"}}), SGLangBadRequestError),
        (Refusal(status=413, body=""), SGLangBadRequestError),
        (
            Refusal(
                status=400,
                message="The input (9 tokens) is longer than the model's context length (8 tokens).",
            ),
            SGLangContextLengthError,
        ),
        (Refusal(status=200, body="<html><title>hello</title></html>"), SGLangDecodingError),
        (Refusal(status=200, body={"choices": []}), SGLangDecodingError),
        (Refusal(status=200, body=[]), SGLangDecodingError),
        (Turn(ids=[7], without=["output_token_logprobs"]), SGLangDecodingError),
        (Turn(ids=[7], matched="NaN happened"), SGLangGenerationError),
    ],
)
async def test_a_failure_that_cannot_pass_is_raised_at_once(failure: Step, kind: type[Exception]) -> None:
    engine, client = scripted(failure)

    with pytest.raises(kind) as raised:
        await client.send(BUDGET)
    assert len(engine.requests) == 1
    assert engine.requests[0]["rid"] == raised.value.rid  # type: ignore[attr-defined]


async def test_what_cannot_be_written_is_never_sent() -> None:
    engine, client = scripted()

    with pytest.raises(SGLangConfigError):
        await client.generate(PROMPT, sampling_params={"stop": object()})
    assert engine.requests == []


async def test_ids_beyond_a_known_vocabulary_are_never_sent() -> None:
    engine, client = scripted(ANSWER, vocab_size=61)

    await client.send(BUDGET)
    with pytest.raises(SGLangConfigError, match="61"):
        await client.send(asked([61]))
    assert len(engine.requests) == 1


async def test_the_last_error_tells_of_all_attempts() -> None:
    _, client = scripted(*[Refusal(status=503)] * 3, retry=RetryPolicy(max_retries=2, base_delay=0.0))

    with pytest.raises(SGLangThrottledError, match="queue is full") as raised:
        await client.send(BUDGET)
    assert raised.value.attempts == 3
    assert "attempt 3" in "".join(raised.value.__notes__)


async def test_a_server_that_crashes_on_a_request_is_not_fed_it_for_ever() -> None:
    engine, client = scripted(*[Refusal(status=500, body="Internal Server Error")] * 9)

    with pytest.raises(SGLangServerError):
        await client.send(BUDGET)
    assert 1 + QUICK.max_costly == len(engine.requests)


async def test_retries_are_logged_once_per_call(caplog: pytest.LogCaptureFixture) -> None:
    _, client = scripted(*[Refusal(status=503)] * 5, ANSWER)

    with caplog.at_level(logging.INFO, "strands_sglang"):
        await client.send(BUDGET)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("strands_sglang")]
    assert ["retries=<5>" in message for message in said] == [True]


async def test_an_outage_is_logged_when_it_begins_and_not_per_attempt(caplog: pytest.LogCaptureFixture) -> None:
    _, client = scripted(ANSWER, *[Drop()] * 3, ANSWER)

    with caplog.at_level(logging.WARNING, "strands_sglang"):
        await client.send(BUDGET)
        await client.send(BUDGET)
    assert sum("gives no answer" in record.getMessage() for record in caplog.records) == 1


async def test_a_lost_attempt_is_aborted() -> None:
    engine, client = scripted(Drop(), ANSWER)

    await client.send(BUDGET)
    await until(lambda: bool(engine.aborts))
    assert [engine.requests[0]["rid"]] == engine.aborts


# --- the deadline -------------------------------------------------------------------------------------------


async def test_the_deadline_holds_for_one_long_attempt_and_ends_it_on_the_server() -> None:
    engine, client = scripted(Turn(ids=[7], delay=30), timeout=0.05)

    with pytest.raises(SGLangTimeoutError, match="within the deadline"):
        await client.send(BUDGET)
    await until(lambda: bool(engine.aborts))
    assert [engine.requests[0]["rid"]] == engine.aborts


async def test_the_deadline_holds_over_all_attempts() -> None:
    engine, client = scripted(*[Refusal(status=503)] * 99, timeout=1.0, retry=RetryPolicy(base_delay=0.25, jitter=0.0))

    with pytest.raises(SGLangThrottledError):
        await client.send(BUDGET)
    assert 1 < len(engine.requests) < 6


async def test_time_at_the_pause_gate_does_not_count() -> None:
    _, client = scripted(ANSWER, timeout=0.5)
    await client.pause()
    task = asyncio.create_task(client.send(BUDGET))
    await asyncio.sleep(0.6)
    client.resume()

    assert (await task).output_ids == [7, 8, 9]


# --- cancelling and pausing ---------------------------------------------------------------------------------


async def test_cancelling_the_task_ends_the_request_on_the_server() -> None:
    engine, client = scripted(Turn(ids=[7], delay=30))
    task = asyncio.create_task(client.send(BUDGET))
    await until(lambda: bool(engine.requests))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [engine.requests[0]["rid"]] == engine.aborts


async def test_a_paused_client_sends_nothing_until_it_is_resumed() -> None:
    engine, client = scripted(ANSWER)
    client.pause()
    task = asyncio.create_task(client.send(BUDGET))
    await asyncio.sleep(0.01)
    assert engine.requests == []

    await client.resume()
    await task
    assert len(engine.requests) == 1


async def test_a_retry_waits_at_the_gate_too() -> None:
    def step(body: dict[str, Any]) -> Step:
        if len(engine.requests) == 1:
            client.pause()
            return Refusal(status=503)
        return ANSWER

    engine = ScriptedEngine(step)
    client = client_of(engine)
    task = asyncio.create_task(client.send(BUDGET))
    await until(lambda: len(engine.requests) == 1)
    await asyncio.sleep(0.01)
    assert len(engine.requests) == 1
    client.resume()
    await task


# --- aborts -------------------------------------------------------------------------------------------------

LONG = asked(sampling_params={"max_new_tokens": 6})


async def test_a_running_abort_is_carried_on_from_its_own_tokens() -> None:
    engine, client = scripted(
        Turn(ids=[7, 8], finish="abort", weight_version="v0"),
        Turn(ids=[9], finish="abort", weight_version="v0"),
        Turn(ids=[10, 11, 12], finish="length", weight_version="v1"),
    )

    reply = await client.send(LONG)
    assert reply.output_ids == [7, 8, 9, 10, 11, 12]
    assert [PROMPT, [*PROMPT, 7, 8], [*PROMPT, 7, 8, 9]] == engine.prompts
    assert [body["sampling_params"]["max_new_tokens"] for body in engine.requests] == [6, 4, 3]
    assert len({body["rid"] for body in engine.requests}) == 3
    assert reply.resumptions == 2
    assert FinishType.LENGTH is reply.finish_reason.type
    assert (
        WeightSpan(version="v0", start=0, end=3),
        WeightSpan(version="v1", start=3, end=6),
    ) == reply.weight_versions
    assert reply.output_logprobs is not None
    assert len(reply.output_logprobs) == 6


async def test_an_abort_in_the_queue_is_sent_again() -> None:
    engine, client = scripted(
        Turn(ids=[], finish={"type": "abort", "message": "Abort in waiting queue"}),
        Refusal(status=400, body={"error": {"message": "Aborted by AbortReq."}}),
        ANSWER,
    )

    reply = await client.send(BUDGET)
    assert reply.output_ids == [7, 8, 9]
    assert engine.prompts == 3 * [PROMPT]
    assert (reply.resumptions, reply.retries) == (2, 0)


async def test_an_abort_at_the_last_token_of_the_budget_is_a_finished_reply() -> None:
    _, client = scripted(Turn(ids=[7, 8, 9], finish="abort"))

    reply = await client.send(BUDGET)
    assert FinishType.LENGTH is reply.finish_reason.type
    assert reply.output_ids == [7, 8, 9]


async def test_aborts_can_be_raised_with_what_was_sampled() -> None:
    _, client = scripted(Turn(ids=[7, 8], finish="abort"), on_abort="raise")

    with pytest.raises(SGLangAbortedError, match="with 2 tokens sampled: Aborted") as raised:
        await client.send(LONG)
    assert isinstance(raised.value.reply, GenerateReply)
    assert raised.value.reply.output_ids == [7, 8]


async def test_carrying_on_has_an_end() -> None:
    _, client = scripted(*(Turn(ids=[n], finish="abort") for n in (7, 8, 9)), max_resumptions=2)

    with pytest.raises(SGLangAbortedError, match="carried on 2 times with 3 tokens") as raised:
        await client.send(LONG)
    assert raised.value.reply.output_ids == [7, 8, 9]
    assert raised.value.reply.resumptions == 2


async def test_what_was_sampled_survives_a_failed_attempt() -> None:
    engine, client = scripted(
        Turn(ids=[7, 8], finish="abort"), Refusal(status=503), Drop(), Turn(ids=[9, 10, 11, 12], finish="length")
    )

    reply = await client.send(LONG)
    assert reply.output_ids == [7, 8, 9, 10, 11, 12]
    assert [*PROMPT, 7, 8] == engine.prompts[-1]
    assert (reply.retries, reply.resumptions) == (2, 1)


async def test_an_abort_with_a_status_is_the_error_of_that_status() -> None:
    full = {"type": "abort", "message": "The request queue is full.", "status_code": 503}
    _, client = scripted(Turn(ids=[], finish=full), ANSWER)

    assert (await client.send(BUDGET)).retries == 1


async def test_what_the_caller_aborts_is_not_carried_on() -> None:
    engine, client = scripted(Turn(ids=[7, 8, 9], token_delay=30))
    task = asyncio.create_task(client.send(asked(conversation_id="c", sampling_params={"max_new_tokens": 3})))
    await until(lambda: bool(engine.requests))

    await client.abort(conversation_id="another")
    assert engine.aborts == []
    await client.abort(conversation_id="c")
    with pytest.raises(SGLangAbortedError):
        await task
    assert len(engine.requests) == 1


async def test_one_request_or_all_can_be_aborted_and_strange_ids_are_passed_on() -> None:
    engine, client = scripted(*[Turn(ids=[7, 8, 9], token_delay=30)] * 3)
    tasks = [asyncio.create_task(client.send(BUDGET)) for _ in range(3)]
    await until(lambda: len(engine.requests) == 3)

    await client.abort(engine.requests[1]["rid"])
    await client.abort("not mine")
    assert [engine.requests[1]["rid"], "not mine"] == engine.aborts
    await client.abort()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [SGLangAbortedError] * 3 == [type(outcome) for outcome in outcomes]


# --- streaming ----------------------------------------------------------------------------------------------


async def test_a_streamed_reply_equals_the_whole_one_and_its_deltas_add_up() -> None:
    turn = Turn(ids=[7, 8, 9], text="a b c", finish="length")
    engine, client = scripted(turn, turn)
    deltas: list[StreamDelta] = []

    whole, streamed = await client.send(BUDGET), await client.send(BUDGET, on_delta=deltas.append)
    for name in ("output_ids", "output_logprobs", "text", "finish_reason", "weight_versions", "prompt_tokens"):
        assert getattr(whole, name) == getattr(streamed, name)
    assert whole.output_ids == [token for delta in deltas for token in delta.output_ids]
    assert "".join(delta.text for delta in deltas) == "a b c"
    assert ["stream" in body for body in engine.requests] == [False, True]


async def test_streaming_as_an_iterator_ends_with_the_reply() -> None:
    _, client = scripted(ANSWER)

    *deltas, reply = [item async for item in client.stream(BUDGET)]
    assert isinstance(reply, GenerateReply)
    assert all(isinstance(delta, StreamDelta) for delta in deltas)
    assert reply.output_ids == [7, 8, 9]


async def test_leaving_a_stream_early_ends_the_request_on_the_server() -> None:
    engine, client = scripted(Turn(ids=list(range(100)), token_delay=0.05, finish="length"))

    stream = client.stream(asked(sampling_params={"max_new_tokens": 100}))
    assert isinstance(await anext(stream), StreamDelta)
    await stream.aclose()
    assert engine.requests[0]["rid"] in engine.aborts


async def test_errors_of_a_stream_reach_the_iterator() -> None:
    _, client = scripted(Refusal(status=400, body={"error": {"message": "bad grammar"}}))

    with pytest.raises(SGLangBadRequestError, match="bad grammar"):
        [item async for item in client.stream(BUDGET)]


async def test_a_stream_that_breaks_is_carried_on_from_what_was_shown() -> None:
    engine, client = scripted(
        Turn(ids=[7, 8, 9, 10], drop_after=2, finish="length"), Turn(ids=[9, 10, 11, 12], finish="length")
    )
    deltas: list[StreamDelta] = []

    reply = await client.send(LONG, on_delta=deltas.append)
    assert reply.output_ids == [7, 8, 9, 10, 11, 12]
    assert reply.output_ids == [token for delta in deltas for token in delta.output_ids]
    assert [*PROMPT, 7, 8] == engine.prompts[1]
    assert (reply.retries, reply.resumptions) == (1, 0)


async def test_a_finished_generation_whose_stream_broke_is_neither_carried_on_nor_repeated() -> None:
    sent: list[httpx.Request] = []
    last = json.dumps(reply_body([7, 8, 9]))

    def without_done(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=f"data: {last}\n\n")

    client = SGLangClient("http://a", transport=httpx.MockTransport(without_done), retry=QUICK)
    with pytest.raises(SGLangIncompleteAnswerError, match=r"without \[DONE\] after 3 tokens"):
        await client.send(BUDGET, on_delta=lambda delta: None)
    assert [request.url.path for request in sent].count("/generate") == 1


async def test_an_abort_in_a_stream_is_carried_on() -> None:
    engine, client = scripted(Turn(ids=[7, 8], finish="abort"), Turn(ids=[9, 10, 11, 12], finish="length"))

    *_, reply = [item async for item in client.stream(LONG)]
    assert isinstance(reply, GenerateReply)
    assert reply.output_ids == [7, 8, 9, 10, 11, 12]
    assert [*PROMPT, 7, 8] == engine.prompts[1]


ABORTS_WITH_STATUS: list[dict[str, Any]] = [
    {"error": {"message": "request cancelled", "code": 499}},
    {"error": {"message": "request cancelled", "code": "499"}},
    {"error": {"message": "Aborted by AbortReq.", "code": 400}},
    reply_body([7, 8], finish={"type": "abort", "message": "cancelled", "status_code": 499}),
    reply_body([7, 8, 9], finish={"type": "abort", "message": "Aborted by AbortReq.", "status_code": 400}),
    reply_body([7], finish={"type": "abort", "message": "cancelled", "status_code": 499}),
]


def events(*bodies: dict[str, Any]) -> httpx.Response:
    text = "".join(f"data: {json.dumps(body)}\n\n" for body in bodies)
    return httpx.Response(200, headers={"content-type": "Text/Event-Stream"}, text=f"{text}data: [DONE]\n\n")


def running(ids: list[int]) -> dict[str, Any]:
    body = reply_body(ids)
    body["meta_info"]["finish_reason"] = None
    return body


@pytest.mark.parametrize("abort", ABORTS_WITH_STATUS)
async def test_an_abort_with_a_status_in_a_stream_is_carried_on_from_what_was_shown(abort: dict[str, Any]) -> None:
    prompts: list[list[int]] = []
    shown: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        prompts.append(json.loads(request.content)["input_ids"])
        if len(prompts) == 1:
            return events(running([7, 8]), abort)
        return events(reply_body([10, 11], prompt=prompts[-1]))

    client = SGLangClient("http://a", transport=httpx.MockTransport(answer), retry=QUICK)
    reply = await client.send(LONG, on_delta=lambda delta: shown.extend(delta.output_ids))
    assert reply.output_ids == shown == [*prompts[1][len(PROMPT) :], 10, 11]
    assert prompts[1][: len(PROMPT) + 2] == [*PROMPT, 7, 8]
    assert (reply.retries, reply.resumptions) == (0, 1)


@pytest.mark.parametrize("abort", ABORTS_WITH_STATUS)
async def test_an_abort_with_a_status_in_a_stream_is_raised_with_what_was_sampled(abort: dict[str, Any]) -> None:
    shown: list[int] = []
    transport = httpx.MockTransport(lambda request: events(running([7, 8]), abort))

    client = SGLangClient("http://a", transport=transport, on_abort="raise")
    with pytest.raises(SGLangAbortedError, match=r"with [23] tokens sampled: .*(cancelled|AbortReq)") as raised:
        await client.send(LONG, on_delta=lambda delta: shown.extend(delta.output_ids))
    assert raised.value.reply.output_ids == shown
    assert shown[:2] == [7, 8]


@pytest.mark.parametrize(("ids", "kept"), [([7, 8], [7, 8]), ([], [])])
async def test_an_abort_with_a_status_in_a_whole_reply_keeps_what_was_sampled(ids: list[int], kept: list[int]) -> None:
    prompts: list[list[int]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        prompts.append(json.loads(request.content)["input_ids"])
        finish = {"type": "abort", "message": "cancelled", "status_code": 499} if len(prompts) == 1 else None
        return httpx.Response(200, json=reply_body(ids if finish else [9, 10], prompt=prompts[-1], finish=finish))

    client = SGLangClient("http://a", transport=httpx.MockTransport(answer), retry=QUICK)
    reply = await client.send(LONG)
    assert reply.output_ids == [*kept, 9, 10]
    assert prompts[1] == [*PROMPT, *kept]


async def test_an_abort_after_the_end_of_a_stream_is_neither_carried_on_nor_repeated() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return events(reply_body([7, 8, 9]), ABORTS_WITH_STATUS[0])

    client = SGLangClient("http://a", transport=httpx.MockTransport(answer), retry=QUICK)
    with pytest.raises(SGLangDecodingError, match="after the end"):
        await client.send(BUDGET, on_delta=lambda delta: None)
    assert len(sent) == 1


async def test_a_broken_stream_is_carried_on_although_only_its_end_tells_the_prompt() -> None:
    prompts: list[list[int]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":  # what stands here: an engine
            return httpx.Response(404)
        prompts.append(json.loads(request.content)["input_ids"])
        if len(prompts) == 1:
            return events(running([7, 8]), {"error": {"message": "full", "code": 503}})
        return events({**reply_body([9, 10], prompt=prompts[-1]), "prompt_token_ids": prompts[-1]})

    client = SGLangClient("http://a", transport=httpx.MockTransport(answer), retry=QUICK)
    request = asked(sampling_params={"max_new_tokens": 9}, return_prompt_token_ids=True)
    reply = await client.send(request, on_delta=lambda delta: None)
    assert (reply.output_ids, reply.prompt_token_ids) == ([7, 8, 9, 10], PROMPT)


async def test_a_receiver_that_fails_ends_the_request() -> None:
    engine, client = scripted(Turn(ids=list(range(50)), token_delay=0.05, finish="length"))

    def fail(delta: StreamDelta) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError):
        await client.send(asked(sampling_params={"max_new_tokens": 50}), on_delta=fail)
    assert engine.requests[0]["rid"] in engine.aborts


async def test_a_server_that_does_not_stream_is_read_as_it_answers() -> None:
    _, client = scripted(Refusal(status=200, body=b"not json"))

    with pytest.raises(SGLangDecodingError, match="not JSON"):
        await client.send(BUDGET, on_delta=print)


# --- several servers ----------------------------------------------------------------------------------------


async def test_a_conversation_stays_on_its_server_and_carries_its_key() -> None:
    fleet = Fleet(a=ScriptedEngine(endless), b=ScriptedEngine(endless))
    client = SGLangClient(["http://a", "http://b"], transport=fleet)

    for _ in range(5):
        await client.send(asked(conversation_id="c", sampling_params={"max_new_tokens": 3}))
    assert len(set(fleet.asked)) == 1


async def test_a_server_that_is_gone_costs_no_request() -> None:
    fleet = Fleet(a=ScriptedEngine(endless), b=ScriptedEngine(endless))
    client = SGLangClient(["http://a", "http://b"], transport=fleet)
    requests = [asked(conversation_id=str(n), sampling_params={"max_new_tokens": 3}) for n in range(8)]
    await asyncio.gather(*map(client.send, requests))
    assert {"a", "b"} == set(fleet.asked)

    del fleet.engines["a"]
    fleet.asked.clear()
    replies = [await client.send(request) for request in requests]
    assert len(replies) == 8
    assert fleet.asked.count("a") == 1


async def test_nobody_anywhere_is_a_connection_error_after_few_attempts() -> None:
    fleet = Fleet()
    client = SGLangClient("http://a", transport=fleet, retry=QUICK)

    with pytest.raises(SGLangConnectionError, match="nobody answers at http://a/generate") as raised:
        await client.send(BUDGET)
    assert 1 + QUICK.max_first_contacts == len(fleet.asked) == raised.value.attempts
    assert "is the server running" in "".join(raised.value.__notes__)


async def test_the_routing_key_is_one_per_conversation_and_begins_the_request_id() -> None:
    seen: list[tuple[str, str]] = []
    engine = EngineTransport(ScriptedEngine(endless))

    async def look(request: httpx.Request) -> httpx.Response:
        response = await engine.handle_async_request(request)
        seen.append((request.headers.get("x-smg-routing-key", ""), request.content.decode()))
        return response

    client = SGLangClient("http://a", transport=httpx.MockTransport(look))
    for conversation in ("one", "one", "two", None):
        await client.send(asked(conversation_id=conversation))
    keys = [key for key, _ in seen]
    assert keys[0] == keys[1] != keys[2]
    assert keys[3] == ""
    assert all(f'"rid":"{key}_r' in body for key, body in seen[:3])


async def test_the_encoding_of_a_prompt_is_shared_by_all_attempts() -> None:
    prompt = PromptIds(PROMPT)
    engine, client = scripted(Refusal(status=503), ANSWER)

    await client.send(asked(prompt))
    assert engine.prompts == 2 * [PROMPT]

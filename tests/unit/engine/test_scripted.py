"""The scripted engine: what it plays, what it records, and how it says that its script has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from strands_sglang.engine import Drop, EngineTransport, Refusal, ScriptedEngine, Turn, made_up_logprob
from strands_sglang.engine.tiny.checkpoint import SHIPPED
from strands_sglang.errors import SGLangConfigError

GREETING = {"input_ids": [1, 2], "return_logprob": True}


def client_of(engine: ScriptedEngine) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine")


async def ask(engine: ScriptedEngine, body: dict[str, Any]) -> httpx.Response:
    async with client_of(engine) as client:
        return await client.post("/generate", json=body)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_a_turn_is_answered_with_its_ids_and_made_up_logprobs() -> None:
    reply = (await ask(ScriptedEngine([Turn(ids=[5, 6, 2])]), GREETING)).json()

    meta = reply["meta_info"]
    assert reply["output_ids"] == [5, 6, 2]
    assert meta["finish_reason"] == {"type": "stop", "matched": 2}
    assert meta["output_token_logprobs"] == [[made_up_logprob(at, i), i, None] for at, i in enumerate([5, 6, 2])]
    assert meta["output_token_logprobs_length"] == meta["completion_tokens"] == 3
    assert meta["prompt_tokens"] == 2
    assert meta["weight_versions"] == [{"version": "default", "start": 0, "end": 3}]


async def test_logprob_keys_are_absent_unless_asked_for() -> None:
    reply = (await ask(ScriptedEngine([Turn(ids=[5])]), {"input_ids": [1]})).json()

    assert not [key for key in reply["meta_info"] if "logprob" in key]


async def test_prompt_logprobs_begin_with_null_at_the_start_that_was_asked_for() -> None:
    reply = (
        await ask(ScriptedEngine([Turn(ids=[5])]), {**GREETING, "input_ids": [7, 8, 9], "logprob_start_len": 1})
    ).json()

    assert reply["meta_info"]["input_token_logprobs"] == [[None, 8, None], [made_up_logprob(2, 9), 9, None]]


async def test_length_and_abort_endings_have_the_shapes_of_the_server() -> None:
    engine = ScriptedEngine([Turn(ids=[5, 6], finish="length"), Turn(ids=[5], finish="abort")])

    finishes = [(await ask(engine, GREETING)).json()["meta_info"]["finish_reason"] for _ in range(2)]

    assert finishes[0] == {"type": "length", "length": 2}
    assert finishes[1] == {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


async def test_faulty_answers_can_be_scripted() -> None:
    engine = ScriptedEngine(
        [Turn(ids=[5, 6], logprobs=[-0.5], without=["finish_reason", "text"], meta={"cached_tokens": 1}, finish=None)]
    )

    reply = (await ask(engine, GREETING)).json()

    assert reply["meta_info"]["output_token_logprobs"] == [[-0.5, 5, None]]
    assert "finish_reason" not in reply["meta_info"]
    assert "text" not in reply
    assert reply["meta_info"]["cached_tokens"] == 1


async def test_versions_routed_experts_and_the_prompt_read_are_the_turns_own() -> None:
    spans = [{"version": "a", "start": 0, "end": 1}, {"version": "b", "start": 1, "end": 2}]
    turn = Turn(ids=[5, 6], weight_version="b", weight_versions=spans, routed_experts="AAAA", prompt_token_ids=[9])

    reply = (await ask(ScriptedEngine([turn]), {**GREETING, "return_prompt_token_ids": True})).json()

    assert reply["meta_info"]["weight_versions"] == spans
    assert reply["meta_info"]["weight_version"] == "b"
    assert reply["meta_info"]["routed_experts"] == "AAAA"
    assert reply["prompt_token_ids"] == [9]


async def test_a_refusal_has_any_status_body_and_headers() -> None:
    engine = ScriptedEngine([Refusal(), Refusal(status=429, body={"a": 1}, headers={"Retry-After": "3"})])

    busy, throttled = await ask(engine, GREETING), await ask(engine, GREETING)

    assert (busy.status_code, busy.json()["message"]) == (503, "The request queue is full.")
    assert (throttled.status_code, throttled.json(), throttled.headers["retry-after"]) == (429, {"a": 1}, "3")


async def test_a_drop_breaks_the_connection() -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(ScriptedEngine([Drop()]), GREETING)


async def test_the_read_timeout_counts_for_a_slow_turn() -> None:
    engine = ScriptedEngine([Turn(ids=[5], delay=30)])
    async with client_of(engine) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/generate", json=GREETING, timeout=0.01)

    assert len(engine.disconnects) == 1


async def test_requests_and_calls_are_recorded() -> None:
    engine = ScriptedEngine([Turn(ids=[5])])
    async with client_of(engine) as client:
        await client.post("/generate", json=GREETING)
        await client.get("/health")

    assert engine.requests == [GREETING]
    assert engine.prompts == [[1, 2]]
    assert [call[:2] for call in engine.calls] == [("POST", "/generate"), ("GET", "/health")]


async def test_an_exhausted_script_says_so_and_names_the_prompt() -> None:
    engine = ScriptedEngine([Turn(ids=[5])])
    await ask(engine, GREETING)

    with pytest.raises(SGLangConfigError, match=r"2 ids ending in \[1, 2\]: all 1 steps were played"):
        await ask(engine, GREETING)


async def test_a_function_of_the_request_can_be_the_script() -> None:
    async def script(body: dict[str, Any]) -> Turn:
        return Turn(ids=[len(body["input_ids"])])

    engine = ScriptedEngine(script)

    assert (await ask(engine, GREETING)).json()["output_ids"] == [2]


async def test_conversations_with_the_same_first_prompt_keep_to_their_own_scripts() -> None:
    engine = ScriptedEngine(conversations=[[Turn(ids=[10, 2]), Turn(ids=[11])], [Turn(ids=[20, 2]), Turn(ids=[21])]])

    first = [(await ask(engine, {"input_ids": [1, 2, 3]})).json()["output_ids"] for _ in range(2)]
    again = [(await ask(engine, {"input_ids": [1, 2, 3, *ids, 4]})).json()["output_ids"] for ids in reversed(first)]

    assert first == [[10, 2], [20, 2]]
    assert again == [[21], [11]]


async def test_a_retry_goes_on_with_the_same_conversation() -> None:
    engine = ScriptedEngine(conversations=[[Refusal(), Turn(ids=[10])], [Turn(ids=[20])]])

    answers = [await ask(engine, {"input_ids": [1]}) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [503, 200, 200]
    assert [answer.json()["output_ids"] for answer in answers[1:]] == [[10], [20]]


async def test_an_abort_ends_a_turn_with_the_ids_so_far() -> None:
    engine = ScriptedEngine([Turn(ids=[5, 6, 7], token_delay=30), Turn(ids=[5], delay=30)])
    async with client_of(engine) as client:
        for expected in ({"message": "Aborted"}, {"message": "Abort in waiting queue"}):
            asked = asyncio.create_task(client.post("/generate", json={**GREETING, "rid": "r"}))
            await until(lambda: bool(engine._playing))
            await client.post("/abort_request", json={"rid": "r"})
            meta = (await asked).json()["meta_info"]
            assert meta["finish_reason"]["type"] == "abort"
            assert meta["finish_reason"].items() >= expected.items()
            assert meta["completion_tokens"] == 0

    assert engine.aborts == ["r", "r"]


async def test_a_client_that_leaves_is_recorded() -> None:
    engine = ScriptedEngine([Turn(ids=[5], delay=30)])
    asked = asyncio.create_task(ask(engine, {**GREETING, "rid": "left"}))
    await until(lambda: bool(engine._playing))

    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked

    assert engine.disconnects == ["left"]


async def test_streamed_chunks_are_cumulative_and_end_with_done() -> None:
    reply = await ask(ScriptedEngine([Turn(ids=[5, 6])]), {**GREETING, "stream": True})

    events = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    chunks = [orjson.loads(each) for each in events[:-1]]
    assert events[-1] == "[DONE]"
    assert [chunk["output_ids"] for chunk in chunks] == [[5], [5, 6]]
    assert [chunk["meta_info"]["finish_reason"] for chunk in chunks] == [None, {"type": "stop", "matched": 6}]
    assert "weight_versions" not in chunks[0]["meta_info"]


async def test_a_stream_can_break_in_the_middle() -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(ScriptedEngine([Turn(ids=[5, 6, 7], drop_after=2)]), {**GREETING, "stream": True})


async def test_a_paused_engine_holds_requests_until_it_goes_on() -> None:
    engine = ScriptedEngine([Turn(ids=[5])])
    async with client_of(engine) as client:
        await client.post("/pause_generation", json={})
        asked = asyncio.create_task(client.post("/generate", json=GREETING))
        await until(lambda: bool(engine.requests))
        unhealthy = await client.get("/health")
        await client.post("/continue_generation", json={})

        assert unhealthy.status_code == 503
        assert (await asked).json()["output_ids"] == [5]


@pytest.fixture(params=["tokenizers", "transformers"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "tokenizers":
        return Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    return AutoTokenizer.from_pretrained(SHIPPED)


async def test_text_is_encoded_by_a_tokenizer_of_either_library(tokenizer: Any) -> None:
    engine = ScriptedEngine([Turn(text="425<|im_end|>")] * 2, tokenizer=tokenizer)

    trimmed = (await ask(engine, {"input_ids": [1]})).json()
    whole = (await ask(engine, {"input_ids": [1], "sampling_params": {"skip_special_tokens": False}})).json()

    assert trimmed["output_ids"] == whole["output_ids"]
    assert trimmed["meta_info"]["finish_reason"] == {"type": "stop", "matched": trimmed["output_ids"][-1]}
    assert (trimmed["text"], whole["text"]) == ("425", "425<|im_end|>")


async def test_streamed_text_grows_with_the_ids(tokenizer: Any) -> None:
    engine = ScriptedEngine([Turn(text="425<|im_end|>")], tokenizer=tokenizer)

    reply = await ask(engine, {"input_ids": [1], "stream": True})

    chunks = [orjson.loads(line.removeprefix("data: ")) for line in reply.text.split("\n\n")[:-2]]
    assert [chunk["text"] for chunk in chunks] == ["4", "42", "425", "425"]


async def test_ids_and_text_together_are_taken_as_they_are() -> None:
    reply = (await ask(ScriptedEngine([Turn(ids=[5], text="odd")]), GREETING)).json()

    assert (reply["output_ids"], reply["text"]) == ([5], "odd")


async def test_a_turn_without_ids_and_text_samples_nothing() -> None:
    reply = (await ask(ScriptedEngine([Turn(finish="abort")]), GREETING)).json()

    assert (reply["output_ids"], reply["meta_info"]["completion_tokens"]) == ([], 0)


@pytest.mark.parametrize("body", [b"plain", "plain"])
async def test_a_refusal_can_be_plain_text(body: str | bytes) -> None:
    assert (await ask(ScriptedEngine([Refusal(status=500, body=body)]), GREETING)).text == "plain"


async def test_another_finish_reason_can_be_given_whole() -> None:
    finish = {"type": "stop", "matched": "NaN happened"}

    reply = (await ask(ScriptedEngine([Turn(ids=[5], finish=finish)]), GREETING)).json()

    assert reply["meta_info"]["finish_reason"] == finish


async def test_a_running_id_cannot_be_used_again() -> None:
    engine = ScriptedEngine([Turn(ids=[5], delay=30), Turn(ids=[6])])
    async with client_of(engine) as client:
        first = asyncio.create_task(client.post("/generate", json={**GREETING, "rid": "r"}))
        await until(lambda: bool(engine._playing))
        second = await client.post("/generate", json={**GREETING, "rid": "r"})
        await client.post("/abort_request", json={"abort_all": True})
        await first

    assert second.json() == {"error": {"message": "Duplicate request ID detected: r"}}


async def test_pausing_aborts_what_is_being_played() -> None:
    engine = ScriptedEngine([Turn(ids=[5, 6], token_delay=30)])
    async with client_of(engine) as client:
        asked = asyncio.create_task(client.post("/generate", json=GREETING))
        await until(lambda: bool(engine._playing))
        flushed = await client.post("/flush_cache")
        await client.post("/pause_generation", json={})

        assert flushed.status_code == 400
        assert (await asked).json()["meta_info"]["finish_reason"]["message"] == "Aborted"


async def test_the_weight_version_is_the_engines_unless_the_turn_has_one() -> None:
    engine = ScriptedEngine([Turn(ids=[5]), Turn(ids=[5], weight_version="own")], weight_version="v0")
    async with client_of(engine) as client:
        await client.post("/update_weight_version", json={"new_version": "v1"})
        answers = [(await client.post("/generate", json=GREETING)).json() for _ in range(2)]

    assert [answer["meta_info"]["weight_version"] for answer in answers] == ["v1", "own"]


async def test_the_engine_says_about_itself_what_it_is_told_to_say() -> None:
    engine = ScriptedEngine(model_info={"model_type": "qwen3_moe"}, server_info={"enable_return_routed_experts": True})
    async with client_of(engine) as client:
        model, server, loads = [
            (await client.get(path)).json() for path in ("/model_info", "/server_info", "/v1/loads")
        ]

    assert (model["model_type"], model["is_generation"]) == ("qwen3_moe", True)
    assert (server["enable_return_routed_experts"], server["version"]) == (True, "0.5.23")
    assert loads["loads"][0]["num_running_reqs"] == 0


async def test_a_conversation_that_goes_on_too_long_is_named() -> None:
    engine = ScriptedEngine(conversations=[[Turn(ids=[10])]])
    await ask(engine, {"input_ids": [1]})

    with pytest.raises(SGLangConfigError, match="all 1 steps were played") as caught:
        await ask(engine, {"input_ids": [1, 10, 3]})
    with pytest.raises(SGLangConfigError, match="continues none of the 1 conversations"):
        await ask(engine, {"input_ids": [2]})

    assert "it continues conversation 0 (counted from 0)" in caught.value.__notes__


async def test_text_without_a_tokenizer_is_refused_with_the_way_out() -> None:
    with pytest.raises(SGLangConfigError, match="give the ScriptedEngine a tokenizer"):
        await ask(ScriptedEngine([Turn(text="hello")]), GREETING)


def test_script_and_conversations_exclude_each_other() -> None:
    with pytest.raises(SGLangConfigError, match="not both"):
        ScriptedEngine([Turn(ids=[1])], conversations=[[Turn(ids=[1])]])

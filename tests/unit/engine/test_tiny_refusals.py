"""What `TinyEngine` refuses, in the statuses, shapes and words that were measured on SGLang 0.5.23."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

PROMPT = [1016, 198, 5, 6]

VALUES: list[tuple[dict[str, Any], str]] = [
    ({}, "Either text, input_ids or input_embeds should be provided."),
    ({"input_ids": []}, "input_ids cannot be empty."),
    (
        {"input_ids": [5] * 3000},
        "The input (3000 tokens) is longer than the model's context length (2048 tokens).",
    ),
    (
        {"input_ids": [5] * 1990, "sampling_params": {"max_new_tokens": 200}},
        "Requested token count exceeds the model's maximum context length of 2048 tokens. You requested a total of "
        "2190 tokens: 1990 tokens from the input messages and 200 tokens for the completion. Please reduce the number "
        "of tokens in the input messages or the completion to fit within the limit.",
    ),
    (
        {"input_ids": [5] * 2044, "sampling_params": {"max_new_tokens": 3}},
        "Input length (2044 tokens) exceeds the maximum allowed length (2042 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
    ),
    (
        {"input_ids": PROMPT, "return_logprob": True, "logprob_start_len": 5},
        "req.logprob_start_len=5 is higher than the number of input tokens len(req.origin_input_ids)=4. Please use a "
        "smaller logprob_start_len.",
    ),
    (
        {"input_ids": PROMPT, "token_ids_logprob": [5000]},
        "token_ids_logprob contains out-of-vocabulary token id 5000; valid range is [0, 1024).",
    ),
]

SAMPLING_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1}, "temperature must be a non-negative finite number, got -1."),
    ({"top_p": 0}, "top_p must be in (0, 1], got 0."),
    ({"min_p": 2}, "min_p must be in [0, 1], got 2."),
    ({"top_k": 0}, "top_k must be -1 (disable) or at least 1, got 0."),
    ({"frequency_penalty": 3}, "frequency_penalty must be in [-2, 2], got 3."),
    ({"presence_penalty": -2.5}, "presence_penalty must be in [-2, 2], got -2.5."),
    ({"repetition_penalty": 0}, "repetition_penalty must be in (0, 2] (1.0 = no penalty), got 0."),
    ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, got -1."),
    ({"min_new_tokens": -5}, "min_new_tokens must be in [0, max_new_tokens], got -5."),
    ({"min_new_tokens": 5, "max_new_tokens": 3}, "min_new_tokens must be in [0, max_new_tokens(3)], got 5."),
    ({"stop": ["x"] * 33}, "at most 32 stop strings are allowed, got 33"),
    ({"stop_regex": ["x"] * 33}, "at most 32 stop_regex patterns are allowed, got 33"),
    ({"logit_bias": {"5000": 1}}, "logit_bias must has keys in [0, 1023], got 5000."),
    ({"logit_bias": {"x": 1}}, "invalid literal for int() with base 10: 'x'"),
]

SCHEMA: list[tuple[dict[str, Any], str]] = [
    ({"max_new_tokens": "abc"}, 'invalid type: string "abc", expected i64'),
    ({"max_new_tokens": 1.5}, "invalid type: floating point `1.5`, expected i64"),
    ({"temperature": True}, "invalid type: boolean `true`, expected f64"),
    ({"ignore_eos": 1}, "invalid type: integer `1`, expected a boolean"),
    ({"json_schema": {}}, "invalid type: map, expected a string"),
    ({"stop": 3}, "invalid type: integer `3`, expected a value or an array of values for StringOrList"),
    ({"stop": [3]}, "invalid type: integer `3`, expected a string"),
    ({"stop": [None]}, "invalid type: null, expected a string"),
    ({"stop_token_ids": 5}, "invalid type: integer `5`, expected a sequence"),
    ({"logit_bias": []}, "invalid type: sequence, expected a map"),
]

UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"sampling_params": {"json_schema": "{}"}}, "json_schema"),
    ({"sampling_params": {"n": 2}}, "n=2 is not supported"),
    ({"sampling_params": {"watermark": {"enabled": True}}}, "watermark is not supported"),
    ({"sampling_params": {"stop_regex": "("}}, "invalid stop_regex"),
    ({"input_ids": [PROMPT, PROMPT]}, "Batches are not supported"),
    ({"input_ids": None, "text": ["a", "b"]}, "Batches are not supported"),
    ({"token_ids_logprob": [[1]]}, "token_ids_logprob must be a flat list of integers."),
    ({"sampling_params": {"beam_width": 3}}, "beam_width=3 is not supported"),
    ({"rid": ["a"]}, "A list for rid is not supported"),
    ({"lora_path": "x"}, "lora_path is not supported"),
    ({"return_hidden_states": True}, "return_hidden_states is not supported"),
    ({"input_ids": [5, 1024]}, "out-of-vocabulary token id 1024"),
    ({"input_ids": [5, -1]}, "out-of-vocabulary token id -1"),
    ({"return_logprob": True, "logprob_start_len": -2}, "logprob_start_len must be -1 or at least 0, got -2"),
]

BODIES: list[dict[str, Any]] = [
    {"input_ids": [5, "a"]},
    {"input_ids": [5.5]},
    {"input_ids": "abc"},
    {"input_ids": PROMPT, "stream": None},
    {"input_ids": PROMPT, "return_prompt_token_ids": None},
    {"input_ids": PROMPT, "rid": 5},
    {"input_ids": PROMPT, "token_ids_logprob": ["a"]},
    {"input_ids": PROMPT, "sampling_params": "x"},
]


async def refused(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    reply = await client.post("/generate", json=body)
    assert reply.status_code == 400
    return reply.json()


@pytest.mark.parametrize(("body", "message"), VALUES)
async def test_a_request_that_cannot_be_is_refused_as_by_the_server(
    client: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    assert await refused(client, body) == {"error": {"message": message}}


@pytest.mark.parametrize(("sampling", "message"), SAMPLING_VALUES)
async def test_a_sampling_value_out_of_range_is_refused_as_by_the_server(
    client: httpx.AsyncClient, sampling: dict[str, Any], message: str
) -> None:
    answer = await refused(client, {"input_ids": PROMPT, "sampling_params": sampling})

    assert answer == {"error": {"message": message}}


@pytest.mark.parametrize(("sampling", "message"), SCHEMA)
async def test_a_sampling_field_of_another_type_is_refused_as_by_the_server(
    client: httpx.AsyncClient, sampling: dict[str, Any], message: str
) -> None:
    assert await refused(client, {"input_ids": PROMPT, "sampling_params": sampling}) == {"error": message}


async def test_an_unknown_sampling_field_is_refused_with_the_list_of_those_there_are(client: httpx.AsyncClient) -> None:
    answer = await refused(client, {"input_ids": PROMPT, "sampling_params": {"seed": 1}})

    assert answer["error"].startswith(
        "unknown field `seed`, expected one of `max_new_tokens`, `stop`, `stop_token_ids`,"
    )
    assert answer["error"].endswith("`sampling_seed`, `custom_params`, `beam_width`, `watermark`, `choice`")


@pytest.mark.parametrize(("body", "part"), UNSUPPORTED)
async def test_what_the_engine_cannot_do_is_refused_and_named(
    client: httpx.AsyncClient, body: dict[str, Any], part: str
) -> None:
    answer = await refused(client, {"input_ids": PROMPT, **body})

    assert part in answer["error"]["message"]


@pytest.mark.parametrize("body", BODIES)
async def test_a_body_of_wrong_types_is_refused_in_the_third_shape(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await refused(client, body)

    assert (answer["object"], answer["type"], answer["code"]) == ("error", "Bad Request", 400)
    assert answer["message"].startswith("1 validation error")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"NaN"])
async def test_a_body_that_is_no_json_object_is_refused_in_the_third_shape(
    client: httpx.AsyncClient, content: bytes
) -> None:
    reply = await client.post("/generate", content=content, headers={"content-type": "application/json"})

    assert (reply.status_code, reply.json()["object"]) == (400, "error")


async def test_another_media_type_is_refused_in_the_third_shape(client: httpx.AsyncClient) -> None:
    reply = await client.post("/generate", content=b'{"input_ids":[5]}', headers={"content-type": "text/plain"})

    assert (reply.status_code, reply.json()["object"]) == (400, "error")


@pytest.mark.parametrize(
    "body",
    [
        {"foo": 1},
        {"image_data": "x"},
        {"return_routed_experts": True},
        {"sampling_params": {"max_new_tokens": 1, "n": 0, "temperature": None}},
        {"sampling_params": {"max_new_tokens": 1, "custom_params": {"a": 1}, "spaces_between_special_tokens": False}},
    ],
)
async def test_what_the_server_ignores_is_ignored(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    request = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}, **body}

    assert (await client.post("/generate", json=request)).status_code == 200


async def events(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Any]:
    reply = await client.post("/generate", json={**body, "stream": True})
    assert reply.status_code == 200
    *chunks, done, end = reply.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [orjson.loads(chunk.removeprefix("data: ")) for chunk in chunks]


async def test_a_stream_reports_a_bad_value_as_one_event(client: httpx.AsyncClient) -> None:
    (only,) = await events(client, {"input_ids": [5] * 3000})

    assert only["error"].pop("message").startswith("The input (3000 tokens) is longer")
    assert only["error"] == {"type": "invalid_request_error", "code": 400, "retryable": False}


async def test_a_stream_reports_what_the_scheduler_refuses_as_an_abort(client: httpx.AsyncClient) -> None:
    (only,) = await events(client, {"input_ids": [5] * 2044, "sampling_params": {"max_new_tokens": 3}})

    finish = only["meta_info"]["finish_reason"]
    assert finish.pop("message").startswith("Input length (2044 tokens)")
    assert finish == {"type": "abort", "status_code": 400, "err_type": "BadRequestError"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pause_generation", None),
        ("/pause_generation", {"mode": "x"}),
        ("/continue_generation", None),
        ("/abort_request", {"rid": 5}),
        ("/update_weight_version", {}),
    ],
)
async def test_control_endpoints_refuse_a_wrong_body_in_the_third_shape(
    client: httpx.AsyncClient, path: str, body: dict[str, Any] | None
) -> None:
    reply = await client.post(path) if body is None else await client.post(path, json=body)

    assert (reply.status_code, reply.json()["object"]) == (400, "error")

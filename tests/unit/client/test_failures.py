"""Bodies of real servers and routers, and the errors they become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strands_sglang.client.failures import error_from_answer, error_words
from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangAuthError,
    SGLangBadRequestError,
    SGLangClientError,
    SGLangContextLengthError,
    SGLangDuplicateRequestError,
    SGLangHTTPError,
    SGLangNotFoundError,
    SGLangServerError,
    SGLangThrottledError,
)


def error(status: int, body: Any, **headers: str) -> SGLangClientError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_from_answer(status, names, raw, url="http://s/generate", rid="r")


def said(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


TOO_LONG = [
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 5000, 4096),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "4200 tokens: 4000 tokens from the input messages and 200 tokens for the completion. Please reduce the number "
        "of tokens in the input messages or the completion to fit within the limit.",
        4000,
        4096,
    ),
    (
        "Input length (4090 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        4090,
        4090,
    ),
    ("Request prompt exceeds the KV memory budget of this server.", None, None),
    ("Multimodal prompt is too long after expanding multimodal tokens: 5000 > 4096", None, None),
]


@pytest.mark.parametrize(("message", "prompt", "limit"), TOO_LONG)
def test_every_wording_of_too_long_gives_its_numbers(message: str, prompt: int | None, limit: int | None) -> None:
    found = error(400, said(message))

    assert isinstance(found, SGLangContextLengthError)
    assert (prompt, limit) == (found.prompt_tokens, found.limit)
    assert message in str(found)


@pytest.mark.parametrize(
    "message",
    [
        "rate limit exceeded",
        "You exceeded your current quota",
        "the maximum length of the queue was exceeded",
        "Input is too long for a file name",
        "req.logprob_start_len=7 is higher than the number of input tokens len(req.origin_input_ids)=6. Please use a "
        "smaller logprob_start_len.",
    ],
)
def test_single_words_never_make_a_context_error(message: str) -> None:
    assert type(error(400, said(message))) is SGLangBadRequestError


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (400, said("input_ids cannot be empty."), SGLangBadRequestError, "input_ids cannot be empty."),
        (400, {"error": "unknown field `bogus`, expected one of `stop`"}, SGLangBadRequestError, "unknown field"),
        (
            400,
            {"object": "error", "message": "1 validation error", "type": "Bad Request", "param": None, "code": 400},
            SGLangBadRequestError,
            "1 validation error",
        ),
        (400, said("Failed to compile json grammar: Expecting property name"), SGLangBadRequestError, "grammar"),
        (400, said("Duplicate request ID detected: dup"), SGLangDuplicateRequestError, "dup"),
        (400, said("Aborted by AbortReq."), SGLangAbortedError, "AbortReq"),
        (401, {"error": "Unauthorized"}, SGLangAuthError, "Unauthorized"),
        (403, {"error": "Forbidden"}, SGLangAuthError, "Forbidden"),
        (404, {"detail": "Not Found"}, SGLangNotFoundError, "Not Found"),
        (405, {"detail": "Method Not Allowed"}, SGLangNotFoundError, "Method Not Allowed"),
        (404, "", SGLangNotFoundError, "an empty body"),
        (408, {"code": "queue_timeout", "message": "timed out in queue"}, SGLangThrottledError, "queue"),
        (409, "conflict", SGLangThrottledError, "conflict"),
        (413, "payload too large", SGLangBadRequestError, "payload"),
        (422, "Failed to deserialize the JSON body into the target type: rid", SGLangBadRequestError, "deserialize"),
        (429, {"error": {"type": "busy", "code": "admission_queue_full", "message": ""}}, SGLangThrottledError, "full"),
        (499, {"error": {"message": "cancelled", "code": 499}}, SGLangAbortedError, "cancelled"),
        (500, "Internal Server Error", SGLangServerError, "Internal Server Error"),
        (
            500,
            {"object": "error", "message": "Grammar accept_token failed", "type": "500", "code": 500},
            SGLangServerError,
            "accept_token",
        ),
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", SGLangServerError, "'502 Bad Gateway'"),
        (
            503,
            {"object": "error", "message": "The request queue is full.", "type": "503", "param": None, "code": 503},
            SGLangThrottledError,
            "The request queue is full.",
        ),
        (504, {"error": {"message": "deadline", "code": 504}}, SGLangServerError, "deadline"),
        (307, "", SGLangHTTPError, "an empty body"),
    ],
)
def test_every_shape_of_body_becomes_its_error(
    status: int, body: Any, kind: type[SGLangClientError], words: str
) -> None:
    found = error(status, body)

    assert type(found) is kind
    assert words in str(found)
    assert str(status) in str(found)
    assert (found.url, found.rid) == ("http://s/generate", "r")
    if isinstance(found, SGLangHTTPError):
        assert status == found.status


def test_the_body_is_kept_and_a_long_one_is_cut_in_the_message_only_so_far() -> None:
    found = error(500, "x" * 100_000)

    assert isinstance(found, SGLangHTTPError)
    assert len(str(found)) < 1000
    assert 1000 < len(found.body) < 10_000


def test_a_router_s_error_code_is_named() -> None:
    found = error(503, {"error": {"message": "nobody there"}}, x_smg_error_code="no_available_workers")

    assert "nobody there (no_available_workers)" in str(found)


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", None), ("nan", None), ("Wed, 21 Oct 2015 07:28:00", None)]
)
def test_retry_after_is_read_when_it_is_a_number_of_seconds(header: str, seconds: float | None) -> None:
    found = error(429, "busy", retry_after=header)

    assert isinstance(found, SGLangHTTPError)
    assert seconds == found.retry_after


def test_a_wrong_address_says_what_to_do() -> None:
    assert "must be the root" in "".join(error(404, {"detail": "Not Found"}).__notes__)
    assert "https://there" in "".join(error(307, "", location="https://there").__notes__)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('"plain"', "plain"),
        ("[1, 2]", "[1, 2]"),
        ("{}", "{}"),
        ('{"error": null, "message": "m"}', "m"),
        ('{"detail": [{"loc": ["body"], "msg": "bad"}]}', '[{"loc":["body"],"msg":"bad"}]'),
        ("<!DOCTYPE html><body>hi</body>", "an HTML page"),
        ("  spaced  ", "spaced"),
    ],
)
def test_odd_bodies_are_quoted_rather_than_understood(body: str, words: str) -> None:
    assert words == error_words(body)

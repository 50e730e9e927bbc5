"""`GenerateRequest`: what is sent, and what is refused before it is sent."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from strands_sglang.errors import SGLangConfigError
from strands_sglang.wire import GenerateRequest, PromptIds

from .bodies import PROMPT, asked


def sent(request: GenerateRequest, **attempt: Any) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(request.body(**{"rid": "r", **attempt}))
    return body


def test_the_body_is_the_payload_with_the_request_id() -> None:
    request = asked(logprob_start_len=2, return_routed_experts=True, routed_experts_start_len=3)

    assert {**request.payload(), "rid": "r"} == sent(request)


def test_a_minimal_request_sends_no_field_that_was_not_asked_for() -> None:
    assert {"rid", "input_ids", "sampling_params", "return_logprob"} == sent(GenerateRequest(input_ids=[1])).keys()


def test_none_is_left_out_everywhere_but_for_an_open_budget() -> None:
    request = asked(sampling_params={"stop": None, "max_new_tokens": None}, extra={"lora_path": None, "priority": 3})

    body = sent(request)
    assert body["sampling_params"] == {"max_new_tokens": None}
    assert "lora_path" not in body
    assert body["priority"] == 3


def test_streaming_is_a_property_of_the_attempt() -> None:
    assert sent(asked(), stream=True)["stream"] is True
    assert "stream" not in sent(asked())


def test_no_start_of_logprobs_is_sent_when_none_are_asked_for() -> None:
    assert "logprob_start_len" not in sent(asked(return_logprob=False, logprob_start_len=0))


def test_images_are_sent_in_order() -> None:
    assert sent(asked(image_data=("a", "b")))["image_data"] == ["a", "b"]


def test_the_conversation_is_not_part_of_the_body() -> None:
    assert "conversation_id" not in sent(asked(conversation_id="c"))


@pytest.mark.parametrize("start", [-2, len(PROMPT) + 1])
def test_a_start_that_kills_the_server_or_is_beyond_the_prompt_is_refused(start: int) -> None:
    with pytest.raises(SGLangConfigError, match="logprob_start_len"):
        asked(logprob_start_len=start)


@pytest.mark.parametrize("start", [-1, 0, len(PROMPT)])
def test_every_meaningful_start_is_accepted(start: int) -> None:
    assert start == sent(asked(logprob_start_len=start))["logprob_start_len"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"input_ids": []}, "empty"),
        ({"routed_experts_start_len": 99}, "routed_experts_start_len"),
        ({"sampling_params": {"n": 2}}, "one request per sample"),
        ({"extra": {"rid": "mine"}}, "rid"),
        ({"extra": {"stream": True}}, "stream"),
        ({"extra": {"text": "hello"}}, "ids only"),
        ({"extra": {"return_logprob": True}}, "of its own"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(SGLangConfigError, match=word):
        GenerateRequest(**{"input_ids": PROMPT, **fields})


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="cannot be written as JSON"):
        asked(sampling_params={"stop": {1, 2}}).body(rid="r")


def test_the_budget_is_as_given_or_the_servers_default_or_open() -> None:
    assert asked().max_new_tokens == 3
    assert asked(sampling_params={}).max_new_tokens == 128
    assert asked(sampling_params={"max_new_tokens": None}).max_new_tokens is None


def test_an_encoded_request_is_encoded_once() -> None:
    request = asked().encoded()

    assert request is request.encoded()
    assert isinstance(request.input_ids, PromptIds)
    assert request.prompt is request.input_ids

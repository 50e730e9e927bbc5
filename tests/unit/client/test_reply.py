"""`GenerateReply`: validated whole, or a typed error that says what was wrong."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from strands_sglang.errors import SGLangDecodingError, SGLangGenerationError
from strands_sglang.wire import FinishReason, FinishType, GenerateReply, WeightSpan

from .bodies import PROMPT, RECORDED_QUEUED_ABORT, asked, recorded, reply_body


def read(body: Any, **fields: Any) -> GenerateReply:
    return GenerateReply.from_body(body, asked(**fields), rid="the-rid", url="http://s/generate")


def test_a_recorded_reply_is_read_as_it_is() -> None:
    body = recorded()

    reply = read(body, logprob_start_len=0)
    assert reply.output_ids == [294, 4, 277]
    assert reply.output_logprobs == [-0.3830675482749939, -2.8783907890319824, -2.1933841705322266]
    assert FinishReason(type=FinishType.LENGTH) == reply.finish_reason
    assert reply.input_logprobs is not None
    assert reply.input_logprobs[0] is None
    assert len(PROMPT) == len(reply.input_logprobs)
    assert (WeightSpan(version="v0", start=0, end=3),) == reply.weight_versions
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (6, 3, 0)
    assert reply.text == 'string" t'
    assert (reply.rid, reply.url) == ("the-rid", "http://s/generate")
    assert body is reply.raw


def test_values_that_were_not_asked_for_are_none() -> None:
    reply = read(recorded(), return_logprob=False)

    assert reply.output_logprobs is None
    assert reply.input_logprobs is None
    assert reply.routed_experts is None
    assert reply.prompt_token_ids is None


def test_the_one_entry_that_old_releases_send_unasked_is_ignored() -> None:
    body = recorded()
    body["meta_info"]["input_token_logprobs"] = [[None, 60, None]]

    assert read(body).input_logprobs is None


def test_a_null_logprob_stays_none() -> None:
    reply = read(reply_body([1, 2, 3], logprobs=[-0.5, None, -0.25]))

    assert reply.output_logprobs == [-0.5, None, -0.25]


def test_a_whole_number_is_a_logprob_too() -> None:
    reply = read(reply_body([1, 2], logprobs=[-1, 0]))

    assert reply.output_logprobs == [-1.0, 0.0]
    assert [float, float] == [type(value) for value in reply.output_logprobs or ()]


@pytest.mark.parametrize(
    ("reason", "matched"),
    [({"type": "stop", "matched": 277}, 277), ({"type": "stop", "matched": "ov"}, "ov"), ({"type": "stop"}, None)],
)
def test_what_a_stop_matched_is_kept(reason: dict[str, Any], matched: int | str | None) -> None:
    finish = read(reply_body([1], finish=reason)).finish_reason

    assert FinishReason(type=FinishType.STOP, matched=matched) == finish


def test_nan_is_a_failure_and_not_a_stop() -> None:
    with pytest.raises(SGLangGenerationError, match="NaN"):
        read(reply_body([1], finish={"type": "stop", "matched": "NaN happened"}))


def test_a_running_abort_is_a_reply_with_its_tokens() -> None:
    reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}

    reply = read(reply_body([1, 2], finish=reason))
    assert FinishReason(type=FinishType.ABORT, message="Aborted") == reply.finish_reason
    assert reply.output_ids == [1, 2]


def test_a_queued_abort_lacks_most_fields_and_is_a_reply() -> None:
    reply = read(RECORDED_QUEUED_ABORT, logprob_start_len=0)

    assert FinishType.ABORT is reply.finish_reason.type
    assert [] == reply.output_ids == reply.output_logprobs
    assert reply.prompt_tokens is None
    assert reply.input_logprobs is None
    assert reply.weight_versions == ()


def test_scoring_a_prompt_gives_no_logprob_of_a_token_that_was_not_sampled() -> None:
    body = reply_body([], finish={"type": "length", "length": 0})
    body["meta_info"]["output_token_logprobs"] = [[-0.5, 294, None]]

    assert read(body, sampling_params={"max_new_tokens": 0}).output_logprobs == []


def test_prompt_values_begin_where_they_were_asked_for() -> None:
    body = recorded()
    body["meta_info"]["input_token_logprobs"] = body["meta_info"]["input_token_logprobs"][3:]
    body["meta_info"]["input_token_logprobs"][0][0] = None

    assert read(body, logprob_start_len=3).input_logprobs == [None, -11.256616592407227, -10.317892074584961]


def test_the_last_id_of_the_vocabulary_which_a_server_tells_as_0_is_taken_for_itself() -> None:
    body = recorded()
    body["meta_info"]["input_token_logprobs"][5][1] = 0

    assert read(body, logprob_start_len=0).input_logprobs == read(recorded(), logprob_start_len=0).input_logprobs
    body["meta_info"]["input_token_logprobs"][4][1] = 0
    with pytest.raises(SGLangDecodingError, match="not those of the prompt"):
        read(body, logprob_start_len=0)


def test_a_reply_without_text_is_one_of_a_server_without_tokenizer() -> None:
    body = recorded()
    del body["text"]

    assert read(body).text is None


# --- weights ------------------------------------------------------------------------------------------------


def test_spans_are_kept() -> None:
    spans = [{"version": "v0", "start": 0, "end": 2}, {"version": "v1", "start": 2, "end": 3}]

    assert (
        WeightSpan(version="v0", start=0, end=2),
        WeightSpan(version="v1", start=2, end=3),
    ) == read(reply_body([1, 2, 3], weight_versions=spans)).weight_versions


def test_a_single_version_is_widened_and_marked_so() -> None:
    assert (WeightSpan(version="v0", start=0, end=2, widened=True),) == read(reply_body([1, 2])).weight_versions


def test_a_server_that_names_no_version_gives_no_span() -> None:
    assert read(reply_body([1, 2], weight_version=None)).weight_versions == ()


def test_a_span_beyond_the_stop_ends_at_the_stop() -> None:
    spans = [{"version": "v0", "start": 0, "end": 2}, {"version": "v1", "start": 2, "end": 5}]

    assert (WeightSpan(version="v0", start=0, end=2),) == read(
        reply_body([1, 2], weight_versions=spans)
    ).weight_versions


@pytest.mark.parametrize(
    ("spans", "word"),
    [
        ([{"version": "v", "start": 1, "end": 3}], "gap"),
        ([{"version": "v", "start": 0, "end": 2}], "covers 2 of 3"),
        ([{"version": "v", "start": 0, "end": 2}, {"version": "w", "start": 1, "end": 3}], "overlap"),
        (["v0"], "not a span"),
        ([{"version": "v"}], "not a span"),
    ],
)
def test_spans_that_do_not_cover_the_ids_are_an_error(spans: list[Any], word: str) -> None:
    with pytest.raises(SGLangDecodingError, match=word):
        read(reply_body([1, 2, 3], weight_versions=spans))


# --- what is not a reply ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ([], "a JSON array"),
        (None, "a JSON null"),
        ("hello", "a JSON string"),
        (7, "a JSON integer"),
        ({"choices": []}, "no meta_info"),
        ({"error": {"message": "no"}}, "no meta_info"),
        ({"meta_info": []}, "not a JSON object"),
        ({"meta_info": {}}, "has not ended"),
    ],
)
def test_another_shape_is_an_error_that_names_it(body: Any, word: str) -> None:
    with pytest.raises(SGLangDecodingError, match=word) as raised:
        read(body)

    assert "http://s/generate" in str(raised.value)
    assert raised.value.rid == "the-rid"


def spoil(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value at `a.b`, or take the key away when it is the class `KeyError`."""

    def change(body: dict[str, Any]) -> None:
        *outer, key = path.split(".")
        for name in outer:
            body = body[name]
        if value is KeyError:
            del body[key]
        else:
            body[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (spoil("output_ids", KeyError), "output_ids is missing"),
        (spoil("output_ids", [294, 4]), "2 output_ids, but meta_info.completion_tokens is 3"),
        (spoil("output_ids", [294, 4, 277.0]), "not an integer"),
        (spoil("output_ids", "abc"), "not a JSON array"),
        (spoil("output_ids", [294, 5, 277]), r"output_ids\[1\] is 5"),
        (spoil("text", 7), "text is 7"),
        (spoil("meta_info.finish_reason", None), "has not ended"),
        (spoil("meta_info.finish_reason", {"type": "surprise"}), "unknown type 'surprise'"),
        (spoil("meta_info.completion_tokens", KeyError), "completion_tokens is missing"),
        (spoil("meta_info.completion_tokens", True), "not a JSON integer"),
        (spoil("meta_info.output_token_logprobs", KeyError), "no output_token_logprobs"),
        (spoil("meta_info.output_token_logprobs", []), "0 output_token_logprobs"),
        (spoil("meta_info.output_token_logprobs", [[-1.0, 294]] * 4), "4 output_token_logprobs"),
        (spoil("meta_info.output_token_logprobs", [-1.0, -1.0, -1.0]), "an entry that is not"),
        (spoil("meta_info.output_token_logprobs", [["x", 294], [-1.0, 4], [-1.0, 277]]), "not a number"),
        (spoil("meta_info.prompt_tokens", 5), "read 5 prompt tokens, but 6 were sent"),
        (spoil("meta_info.prompt_tokens", KeyError), "prompt_tokens is missing"),
        (spoil("meta_info.input_token_logprobs", []), "0 input_token_logprobs, asked for 6"),
        (spoil("meta_info.input_token_logprobs", [[None, 1]] * 6), "not those of the prompt"),
    ],
)
def test_a_reply_that_does_not_agree_with_itself_is_an_error(
    change: Callable[[dict[str, Any]], None], word: str
) -> None:
    body = recorded()
    change(body)

    with pytest.raises(SGLangDecodingError, match=word):
        read(body, logprob_start_len=0)


@pytest.mark.parametrize(
    ("field", "word"),
    [
        ("return_prompt_token_ids", "prompt_token_ids is missing"),
        ("return_routed_experts", "no routed_experts"),
        ("return_indexer_topk", "no indexer_topk"),
    ],
)
def test_what_was_asked_for_and_is_missing_is_an_error(field: str, word: str) -> None:
    with pytest.raises(SGLangDecodingError, match=word) as raised:
        read(recorded(), **{field: True})

    assert raised.value.__notes__


@pytest.mark.parametrize("size", [0, 4 * 6, 4 * 9, 10])
def test_routing_rows_of_another_number_are_an_error(size: int) -> None:
    body = recorded()
    fields = {"return_routed_experts": True, "routed_experts_start_len": 4}
    body["meta_info"]["routed_experts"] = base64.b64encode(bytes(4 * 4 * 2)).decode()
    assert read(body, **fields).routed_experts == body["meta_info"]["routed_experts"]

    body["meta_info"]["routed_experts"] = base64.b64encode(bytes(size)).decode()
    with pytest.raises(SGLangDecodingError, match="not base64 of 4 rows of int32"):
        read(body, **fields)


def test_rows_of_an_indexer_are_those_of_all_tokens_but_the_last() -> None:
    body = recorded()
    body["meta_info"]["indexer_topk"] = base64.b64encode(bytes(4 * 8 * 2)).decode()
    assert read(body, return_indexer_topk=True).indexer_topk == body["meta_info"]["indexer_topk"]
    assert read(body).indexer_topk is None

    body["meta_info"]["indexer_topk"] = base64.b64encode(bytes(4 * 3)).decode()
    with pytest.raises(SGLangDecodingError, match="not base64 of 8 rows"):
        read(body, return_indexer_topk=True)


def test_a_server_that_read_other_ids_is_an_error() -> None:
    assert read({**recorded(), "prompt_token_ids": PROMPT}, return_prompt_token_ids=True).prompt_token_ids == PROMPT
    with pytest.raises(SGLangDecodingError, match="not the input_ids"):
        read({**recorded(), "prompt_token_ids": [1, *PROMPT[1:]]}, return_prompt_token_ids=True)


def test_with_images_the_server_reads_more_than_was_sent() -> None:
    body = {**recorded(), "prompt_token_ids": [10, 20, 20, 20, 30, 40, 50, 60]}
    body["meta_info"]["prompt_tokens"] = 8

    reply = read(body, image_data=["data:..."], return_prompt_token_ids=True, logprob_start_len=2)
    assert reply.prompt_tokens == 8
    assert body["prompt_token_ids"] == reply.prompt_token_ids
    assert reply.input_logprobs is not None

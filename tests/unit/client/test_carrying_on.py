"""Generations that are carried on: rows of routing, grammars, the end of the context, and the body as a whole."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from strands_sglang.client import SGLangClient
from strands_sglang.engine import EngineTransport, Refusal, ScriptedEngine, Step, Turn
from strands_sglang.errors import SGLangAbortedError, SGLangConfigError, SGLangDecodingError
from strands_sglang.retry import RetryPolicy
from strands_sglang.wire import FinishType, GenerateReply, GenerateRequest, join_replies, resume_request

from .bodies import PROMPT, asked

WIDTH = 2
SCHEMA = {"json_schema": '{"type": "object"}', "max_new_tokens": 9}
OLD, NEW = 11, 22
N = len(PROMPT)


def rows(count: int, value: int) -> str:
    return base64.b64encode(struct.pack(f"<{count * WIDTH}i", *[value] * count * WIDTH)).decode()


def values(payload: str | None) -> list[int]:
    raw = base64.b64decode(payload or "")
    return list(struct.unpack(f"<{len(raw) // 4}i", raw))[::WIDTH]


def spans(*versions: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"version": version, "start": start, "end": end} for version, start, end in versions]


def part(
    request: GenerateRequest, ids: list[int], *, abort: bool = False, without: tuple[str, ...] = (), **meta: Any
) -> GenerateReply:
    told: dict[str, Any] = {
        "finish_reason": {"type": "abort", "message": "Aborted"} if abort else {"type": "length", "length": len(ids)},
        "prompt_tokens": len(request.input_ids),
        "completion_tokens": len(ids),
        "output_token_logprobs": [[-0.5, token, None] for token in ids],
        **meta,
    }
    kept = {name: value for name, value in told.items() if name not in without}
    return GenerateReply.from_body({"text": "", "output_ids": ids, "meta_info": kept}, request)


def carried_on(request: GenerateRequest, first: GenerateReply) -> GenerateRequest:
    resumed = resume_request(request, first)
    assert resumed is not None
    return resumed


# --- one reply ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retractions", "versions", "refed"),
    [
        (0, spans(("a", 0, 2), ("b", 2, 5)), ()),
        (1, spans(("a", 0, 2), ("b", 2, 5)), ((0, N + 1),)),
        (2, spans(("a", 0, 1), ("b", 1, 3), ("c", 3, 5)), ((0, N + 2),)),
        (1, spans(("a", 0, 5)), ()),
        (1, spans(("a", 0, 2), ("a", 2, 5)), ()),
        (1, None, ((0, N + 4),)),
    ],
)
def test_what_a_retracted_generation_was_fed_before_an_update_is_refed(
    retractions: int, versions: Any, refed: tuple[tuple[int, int], ...]
) -> None:
    request = asked(return_routed_experts=True, return_indexer_topk=True)
    meta: dict[str, Any] = {"weight_versions": versions} if versions else {"weight_version": "a"}
    given: dict[str, Any] = {
        "routed_experts": rows(N + 4, OLD),
        "indexer_topk": rows(N + 4, OLD),
        "num_retractions": retractions,
    }
    reply = part(request, [7, 8, 9, 10, 11], **given, **meta)

    assert reply.routed_experts_refed == refed
    assert reply.indexer_topk_refed == refed
    assert part(asked(), [7], num_retractions=retractions, weight_version="a").routed_experts_refed == ()


# --- two parts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retracted", [0, 1])
def test_each_part_keeps_its_rows_and_the_indexer_does_too(retracted: int) -> None:
    request = asked(return_routed_experts=True, return_indexer_topk=True)
    before: dict[str, Any] = {
        "routed_experts": rows(N + 1, OLD),
        "indexer_topk": rows(N + 1, OLD),
        "num_retractions": 0,
    }
    first = part(request, [7, 8], abort=True, weight_versions=spans(("a", 0, 2)), **before)
    resumed = carried_on(request, first)
    after: dict[str, Any] = {
        "routed_experts": rows(3, NEW),
        "indexer_topk": rows(N + 4, NEW),
        "num_retractions": retracted,
    }
    joined = join_replies(request, first, part(resumed, [9, 10, 11], weight_versions=spans(("b", 0, 3)), **after))

    assert values(joined.routed_experts) == values(joined.indexer_topk) == [OLD] * (N + 1) + [NEW] * 3
    assert joined.raw["meta_info"]["indexer_topk"] == joined.indexer_topk
    # That the second part was put back for want of memory does no harm: its weights stayed the same.
    assert (joined.routed_experts_refed, joined.indexer_topk_refed) == ((), ())
    assert joined.retractions == retracted


@pytest.mark.parametrize(
    ("first_spans", "second_spans", "refed"),
    [
        (spans(("a", 0, 2)), spans(("b", 0, 3)), ((0, N + 1),)),
        (spans(("a", 0, 2)), spans(("a", 0, 3)), ()),
        (None, spans(("a", 0, 3)), ((0, N + 1),)),
        (spans(("a", 0, 2)), None, ((0, N + 1),)),
    ],
)
def test_rows_that_only_the_continuation_brings_are_those_of_its_weights(
    first_spans: Any, second_spans: Any, refed: tuple[tuple[int, int], ...]
) -> None:
    request = asked(return_routed_experts=True, return_indexer_topk=True)
    told: dict[str, Any] = {"weight_versions": first_spans} if first_spans else {"weight_version": "a"}
    # Aborted in the queue after it was retracted: its tokens, but neither rows nor counts.
    first = part(request, [7, 8], abort=True, without=("prompt_tokens",), **told)
    resumed = carried_on(request, first)
    told = {"weight_versions": second_spans} if second_spans else {"weight_version": "a"}
    given: dict[str, Any] = {"routed_experts": rows(N + 4, NEW), "indexer_topk": rows(N + 4, NEW), "num_retractions": 0}
    joined = join_replies(request, first, part(resumed, [9, 10, 11], **given, **told))

    assert resumed.routed_experts_start_len == 0
    assert joined.routed_experts_refed == joined.indexer_topk_refed == refed
    assert joined.retractions is None, "nobody told how often the first part was retracted"


def test_with_images_the_rows_of_the_continuation_are_taken() -> None:
    request = asked(return_routed_experts=True, image_data=["data:,"])
    first = part(request, [7, 8], abort=True, prompt_tokens=N + 15, routed_experts=rows(N + 16, OLD))
    resumed = carried_on(request, first)
    joined = join_replies(request, first, part(resumed, [9], prompt_tokens=N + 17, routed_experts=rows(N + 17, NEW)))

    assert resumed.routed_experts_start_len == 0
    assert values(joined.routed_experts) == [NEW] * (N + 17)
    assert joined.routed_experts_refed


def test_a_part_of_which_no_weights_are_told_is_not_given_those_around_it() -> None:
    request = asked()
    one = part(request, [7], abort=True, weight_versions=spans(("a", 0, 1)))
    two = join_replies(request, one, part(carried_on(request, one), [8], abort=True))
    three = join_replies(request, two, part(carried_on(request, two), [9], weight_versions=spans(("a", 0, 1))))

    assert [(span.version, span.start, span.end) for span in three.weight_versions] == [("a", 0, 1), ("a", 2, 3)]


# --- the body -------------------------------------------------------------------------------------------------


def test_the_body_of_a_generation_that_was_carried_on_is_one_body() -> None:
    request = asked(logprob_start_len=0, return_prompt_token_ids=True)
    inputs = [[None if at == 0 else -1.0, token, None] for at, token in enumerate(PROMPT)]
    tops = [None, *([[-1.0, token, None]] for token in PROMPT[1:])]
    before: dict[str, Any] = {
        "input_token_logprobs": inputs,
        "input_top_logprobs": tops,
        "hidden_states": [[0]],
        "num_retractions": 2,
    }
    first_body = part(asked(), [7, 8], abort=True, **before).raw | {"prompt_token_ids": PROMPT}
    first = GenerateReply.from_body(first_body, request)
    resumed = carried_on(request, first)
    after: dict[str, Any] = {
        "input_token_logprobs": [],
        "input_top_logprobs": [],
        "hidden_states": [[1]],
        "num_retractions": 1,
    }
    second_body = part(resumed.__class__(input_ids=resumed.input_ids), [9], **after).raw
    second_body |= {"prompt_token_ids": [*PROMPT, 7, 8]}
    joined = join_replies(request, first, GenerateReply.from_body(second_body, resumed))
    meta = joined.raw["meta_info"]

    assert joined.raw["prompt_token_ids"] == joined.prompt_token_ids == PROMPT
    assert (meta["input_token_logprobs"], meta["input_top_logprobs"]) == (inputs, tops)
    assert meta["num_retractions"] == joined.retractions == 3
    assert "hidden_states" not in meta


def test_the_text_of_a_part_is_not_that_of_the_whole() -> None:
    request = asked()
    first = part(request, [7, 8], abort=True)
    del first.raw["text"]

    assert "text" not in join_replies(request, first, part(carried_on(request, first), [9])).raw


def test_an_abort_before_anything_new_was_sampled_changes_nothing() -> None:
    request = asked()
    first = part(request, [7, 8], abort=True)
    resumed = carried_on(request, first)
    again = join_replies(request, first, part(resumed, [], abort=True, without=("output_token_logprobs",)))
    joined = join_replies(request, again, part(carried_on(request, again), [9]))

    assert (again.output_ids, again.finish_reason.type) == ([7, 8], FinishType.ABORT)
    assert [entry[1] for entry in joined.raw["meta_info"]["output_token_logprobs"]] == joined.output_ids == [7, 8, 9]


# --- the client -----------------------------------------------------------------------------------------------


def scripted(*steps: Step, **options: Any) -> tuple[ScriptedEngine, SGLangClient]:
    engine = ScriptedEngine(steps)
    options = {"retry": RetryPolicy(base_delay=0.0), "transport": EngineTransport(engine), **options}
    return engine, SGLangClient("http://engine", **options)


async def test_a_generation_within_a_grammar_is_begun_again() -> None:
    engine, client = scripted(Turn(ids=[7, 8], finish="abort"), Turn(ids=[9, 10], finish="length"))
    reply = await client.send(asked(sampling_params=SCHEMA))

    assert (reply.output_ids, reply.resumptions) == ([9, 10], 1)
    assert [request["input_ids"] for request in engine.requests] == [PROMPT, PROMPT]
    assert engine.requests[1]["sampling_params"] == engine.requests[0]["sampling_params"]


async def test_a_grammar_that_somebody_has_seen_a_part_of_is_not_begun_again() -> None:
    engine, client = scripted(Turn(ids=[7, 8], finish="abort"), Turn(ids=[9, 10], finish="length"))
    seen: list[int] = []
    with pytest.raises(SGLangAbortedError, match="within a grammar") as caught:
        await client.send(asked(sampling_params=SCHEMA), on_delta=lambda delta: seen.extend(delta.output_ids))

    assert len(engine.requests) == 1
    assert caught.value.reply is not None
    assert caught.value.reply.output_ids == seen == [7, 8]


async def test_a_stream_that_broke_within_a_grammar_is_not_carried_on() -> None:
    engine, client = scripted(Turn(ids=[7, 8, 9], drop_after=2), Turn(ids=[9, 10], finish="length"))
    with pytest.raises(Exception, match="closed the connection"):
        await client.send(asked(sampling_params=SCHEMA), on_delta=lambda _: None)

    assert len(engine.requests) == 1


async def test_a_context_that_was_used_up_before_an_abort_is_the_end() -> None:
    wording = "The input (8 tokens) is longer than the model's context length (8 tokens)."
    too_long = {"object": "error", "message": wording, "code": 400}
    _, client = scripted(Turn(ids=[7, 8], finish="abort"), Refusal(status=400, body=too_long))
    reply = await client.send(asked(sampling_params={"max_new_tokens": 9}))

    assert reply.output_ids == [7, 8]
    assert reply.finish_reason.type is FinishType.LENGTH
    assert reply.raw["meta_info"]["finish_reason"] == {"type": "length", "length": 2}


# --- what cannot be sent or read ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"sampling_params": {"temperature": float("nan")}}, "sampling_params['temperature']"),
        ({"sampling_params": {"logit_bias": {"5": float("-inf")}}}, "sampling_params['logit_bias']['5']"),
        ({"extra": {"priority": [1.0, float("inf")]}}, "priority[1]"),
    ],
)
def test_numbers_that_json_does_not_have_are_refused(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(SGLangConfigError) as caught:
        asked(**fields).body(rid="r")

    assert place in str(caught.value)
    asked(sampling_params={"max_new_tokens": None, "stop": ["null"]}).body(rid="r")


def test_ids_and_spans_that_are_none_are_refused() -> None:
    with pytest.raises(SGLangDecodingError, match="holds -3, which is no id"):
        part(asked(), [7, -3])
    for version, end in (("a", 2.0), (None, 2)):
        with pytest.raises(SGLangDecodingError, match="not a span of version, start and end"):
            part(asked(), [7, 8], weight_versions=[{"version": version, "start": 0, "end": end}])

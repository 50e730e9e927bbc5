"""An aborted generation carried on from its own tokens is the one that was never aborted."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.errors import SGLangDecodingError
from strands_sglang.wire import GenerateReply, GenerateRequest, PromptIds, WeightSpan, join_replies, resume_request

from .bodies import PROMPT, RECORDED_QUEUED_ABORT, asked, reply_body

ABORTED = {"type": "abort", "message": "Aborted"}
LAYERS_TIMES_TOP_K = 2


class Engine:
    """Samples `ids` for `PROMPT`, for whichever part of them a request asks."""

    def __init__(self, ids: list[int], versions: list[str] | None = None) -> None:
        self.ids, self.versions = ids, versions or ["v0"] * len(ids)

    def answer(self, request: GenerateRequest, *, until: int | None = None) -> GenerateReply:
        """Answer up to the absolute position `until`, aborted there, or whole."""
        done = len(request.input_ids) - len(PROMPT)
        assert [*PROMPT, *self.ids[:done]] == list(request.input_ids)
        end = len(self.ids) if until is None else until
        meta: dict[str, Any] = {"weight_versions": self.spans(done, end)}
        if request.logprob_start_len is not None:
            values = list(enumerate(request.input_ids))[request.logprob_start_len :]
            meta["input_token_logprobs"] = [
                [-float(at) if number else None, id] for number, (at, id) in enumerate(values)
            ]
        if request.return_routed_experts:
            meta["routed_experts"] = self.rows(request.routed_experts_start_len, len(PROMPT) + end - 1)
        finish = {"type": "length", "length": end - done} if until is None else ABORTED
        body = reply_body(
            self.ids[done:end],
            logprobs=[-position / 10 for position in range(done, end)],
            prompt=request.input_ids,
            finish=finish,
            **meta,
        )
        if request.return_prompt_token_ids:
            body["prompt_token_ids"] = list(request.input_ids)
        return GenerateReply.from_body(body, request)

    def spans(self, start: int, end: int) -> list[dict[str, Any]]:
        return [{"version": self.versions[i], "start": i - start, "end": i - start + 1} for i in range(start, end)]

    @staticmethod
    def rows(start: int, end: int) -> str:
        numbers = [position for position in range(start, end) for _ in range(LAYERS_TIMES_TOP_K)]
        return base64.b64encode(struct.pack(f"<{len(numbers)}i", *numbers)).decode()


def versions_of(reply: GenerateReply) -> list[str]:
    return [span.version for span in reply.weight_versions for _ in range(span.start, span.end)]


def run(engine: Engine, request: GenerateRequest, cuts: list[int]) -> GenerateReply:
    """Abort at each cut, carry on, and return the joined reply."""
    partial: GenerateReply | None = None
    for until in [*cuts, None]:
        now = request if partial is None else resume_request(request, partial)
        assert now is not None
        reply = engine.answer(now, until=until)
        partial = reply if partial is None else join_replies(request, partial, reply)
    assert partial is not None
    return partial


@given(ids=st.lists(st.integers(0, 999), min_size=2, max_size=12), data=st.data())
def test_a_joined_reply_equals_the_unbroken_one(ids: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(ids) - 1), max_size=4)))
    versions = data.draw(st.lists(st.sampled_from(["v0", "v1"]), min_size=len(ids), max_size=len(ids)))
    engine = Engine(ids, versions)
    request = asked(
        sampling_params={"max_new_tokens": len(ids)},
        logprob_start_len=2,
        return_routed_experts=True,
        routed_experts_start_len=1,
        return_prompt_token_ids=True,
    )

    whole, joined = engine.answer(request), run(engine, request, cuts)
    for name in (
        "output_ids",
        "output_logprobs",
        "finish_reason",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "prompt_token_ids",
        "input_logprobs",
    ):
        if name != "finish_reason" or not cuts:
            assert getattr(whole, name) == getattr(joined, name), name
    assert base64.b64decode(whole.routed_experts or "") == base64.b64decode(joined.routed_experts or "")
    assert joined.raw["meta_info"]["routed_experts"] == joined.routed_experts
    assert versions == versions_of(joined)
    assert whole.raw["output_ids"] == joined.raw["output_ids"]
    assert whole.raw["meta_info"]["output_token_logprobs"] == joined.raw["meta_info"]["output_token_logprobs"]


def test_what_is_left_of_the_budget_is_asked_for() -> None:
    request = asked(sampling_params={"max_new_tokens": 10, "min_new_tokens": 5, "temperature": 0.5})
    partial = Engine([7, 8, 9, 10]).answer(request, until=3)

    resumed = resume_request(request, partial)
    assert resumed is not None
    assert resumed.sampling_params == {"max_new_tokens": 7, "min_new_tokens": 2, "temperature": 0.5}
    assert [*PROMPT, 7, 8, 9] == resumed.input_ids


@pytest.mark.parametrize(("sampling", "left"), [({}, 125), ({"max_new_tokens": None}, None)])
def test_a_budget_that_was_not_given_is_the_servers_and_an_open_one_stays_open(
    sampling: dict[str, Any], left: int | None
) -> None:
    request = asked(sampling_params=sampling)

    resumed = resume_request(request, Engine([7, 8, 9, 10]).answer(request, until=3))
    assert resumed is not None
    assert left == resumed.sampling_params["max_new_tokens"]


def test_an_abort_at_the_last_token_of_the_budget_leaves_nothing_to_ask_for() -> None:
    request = asked(sampling_params={"max_new_tokens": 3})

    assert resume_request(request, Engine([7, 8, 9, 10]).answer(request, until=3)) is None


def test_an_abort_in_the_queue_is_asked_for_again_unchanged() -> None:
    request = asked()
    partial = GenerateReply.from_body(RECORDED_QUEUED_ABORT, request)

    assert request is resume_request(request, partial)


def test_a_resumed_request_encodes_only_the_new_tokens() -> None:
    request = asked(PromptIds(PROMPT), sampling_params={"max_new_tokens": 9})

    resumed = resume_request(request, Engine([7, 8, 9]).answer(request, until=2))
    assert resumed is not None
    assert request.prompt.json[0] is resumed.prompt.json[0]


def test_the_text_of_a_joined_reply_is_not_made_up() -> None:
    engine, request = Engine([7, 8, 9]), asked(sampling_params={"max_new_tokens": 3})

    assert run(engine, request, [1]).text is None
    assert run(engine, request, [1]).raw["text"].replace("78", "7 8") == "7 8 9"


def test_neighbouring_spans_of_one_version_become_one() -> None:
    joined = run(Engine([7, 8, 9], ["a", "a", "b"]), asked(sampling_params={"max_new_tokens": 3}), [1])

    assert (
        WeightSpan(version="a", start=0, end=2),
        WeightSpan(version="b", start=2, end=3),
    ) == joined.weight_versions


def test_routing_rows_that_do_not_continue_the_first_part_are_an_error() -> None:
    engine = Engine([7, 8, 9, 10, 11])
    request = asked(sampling_params={"max_new_tokens": 5}, return_routed_experts=True)
    first = engine.answer(request, until=2)
    resumed = resume_request(request, first)
    assert resumed is not None
    body = engine.answer(resumed).raw
    body["meta_info"]["routed_experts"] = Engine.rows(0, len(PROMPT) + 4)

    with pytest.raises(SGLangDecodingError, match="routed_experts_start_len"):
        join_replies(request, first, GenerateReply.from_body(body, resumed))


def test_rows_of_an_aborted_part_that_do_not_fit_are_asked_for_again() -> None:
    engine = Engine([7, 8, 9, 10, 11])
    request = asked(sampling_params={"max_new_tokens": 5}, return_routed_experts=True, routed_experts_start_len=2)
    body = engine.answer(request, until=2).raw
    body["meta_info"]["routed_experts"] = Engine.rows(0, 3)
    first = GenerateReply.from_body(body, request)
    resumed = resume_request(request, first)
    assert resumed is not None

    joined = join_replies(request, first, engine.answer(resumed))
    assert (first.routed_experts, resumed.routed_experts_start_len) == (None, 2)
    assert joined.routed_experts == Engine.rows(2, len(PROMPT) + 4)


def test_parts_of_different_models_are_an_error() -> None:
    engine = Engine([7, 8, 9, 10, 11])
    request = asked(sampling_params={"max_new_tokens": 5}, return_routed_experts=True)
    first = engine.answer(request, until=2)
    resumed = resume_request(request, first)
    assert resumed is not None
    body = engine.answer(resumed).raw
    body["meta_info"]["routed_experts"] = base64.b64encode(bytes(4 * 3 * (LAYERS_TIMES_TOP_K + 1))).decode()

    with pytest.raises(SGLangDecodingError, match="do not go on from those of the part before it"):
        join_replies(request, first, GenerateReply.from_body(body, resumed))

"""A record is compared with what the model says in one pass: faults are found where they are, the rest is explained."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

from strands_sglang import SGLangClient, Trajectory, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, Refusal, ScriptedEngine, TinyEngine
from strands_sglang.errors import SGLangAuthError, SGLangConfigError, SGLangConnectionError
from strands_sglang.rollout import Rollout, Segment, SegmentKind
from strands_sglang.verification import Verdict, VerificationReport, verify

from .conftest import VOCABULARY, CountingTransport, Record, add_turn, change, with_logprob

FLOAT32 = 1e-4
"""What two ways of computing the same values in float32 may differ by."""


async def test_what_the_model_sampled_agrees_with_it(
    record: Record, client: SGLangClient, transport: CountingTransport
) -> None:
    report = await verify(await record(), client)

    assert report.ok
    assert report.complete
    assert [turn.verdict for turn in report.turns] == [Verdict.AGREES] * 4
    assert report.totals["compared"] == report.totals["tokens"] == 36
    assert report.totals["largest"] < FLOAT32
    assert 0 <= report.totals["kl"] < FLOAT32
    assert report.weight_version == "v0"
    # One prefill for each branch, and one for the turn whose stop token is in no branch.
    assert report.branches == 2
    assert transport.generations == 3


async def test_a_changed_log_probability_is_found_at_its_token(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    with_logprob(trajectory.turns[1], 4, -60.0)

    report = await verify(trajectory, client, tokenizer=get_tokenizer(TINY_MODEL))

    assert not report.ok
    (failed,) = report.failures
    assert (failed.turn, failed.verdict) == (1, Verdict.DIFFERS)
    assert failed.first is not None
    assert failed.first.offset == 4
    assert failed.first.position == 5 + 9 + 2 + 4
    assert trajectory.turns[1].rollout().token_ids[failed.first.position] == failed.first.token_id
    assert failed.first.recorded == -60.0
    assert failed.largest == pytest.approx(abs(failed.first.recorded - failed.first.rescored))
    tokenizer = get_tokenizer(TINY_MODEL)
    assert failed.first.token == tokenizer.decode([failed.first.token_id])
    assert f">> {failed.first.token!r} <<" in str(report)
    assert "FAILED: 1 of 4 turns" in str(report)


async def test_a_changed_id_is_found_where_it_stands(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    ids = array("i", trajectory.turns[3].sampled.ids)
    ids[6] = (ids[6] + 512) % 1000
    change(trajectory.turns[3], ids=ids)

    report = await verify(trajectory, client)

    (failed,) = report.failures
    assert failed.turn == 3
    assert failed.first is not None
    assert failed.first.offset == 6
    assert failed.first.token_id == ids[6]


async def test_a_changed_prompt_is_found_in_what_was_sampled_after_it(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    trajectory.turns[2].prompt = Segment.of(SegmentKind.PROMPT, [40, 99, 42])

    report = await verify(trajectory, client)

    assert 2 in [turn.turn for turn in report.failures]
    assert {0, 1}.isdisjoint(turn.turn for turn in report.failures)


async def test_a_value_that_was_not_measured_is_missing_and_no_failure(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    with_logprob(trajectory.turns[0], 3, None)
    change(trajectory.turns[1], logprobs=None)

    report = await verify(trajectory, client)

    assert report.ok
    assert not report.complete
    assert (report.turns[0].verdict, report.turns[0].compared, report.turns[0].missing) == (Verdict.AGREES, 8, 1)
    assert (report.turns[1].verdict, report.turns[1].missing, report.turns[1].largest) == (Verdict.MISSING, 9, None)
    assert report.totals["missing"] == 10


@pytest.mark.parametrize("temperature", [0.5, 1.5])
async def test_with_every_token_told_another_temperature_is_compared_exactly(
    record: Record, client: SGLangClient, temperature: float
) -> None:
    trajectory = await record(temperature=temperature)

    assert (await verify(trajectory, client, top_logprobs=VOCABULARY)).complete

    with_logprob(trajectory.turns[1], 2, -60.0)
    report = await verify(trajectory, client, top_logprobs=VOCABULARY)
    (failed,) = report.failures
    assert (failed.turn, failed.first and failed.first.offset) == (1, 2)
    assert failed.temperature == temperature


@pytest.mark.parametrize("temperature", [0.5, 1.5])
async def test_with_a_few_tokens_told_another_temperature_is_never_a_failure(
    record: Record, client: SGLangClient, temperature: float
) -> None:
    for top_logprobs in (0, 3, 20):
        report = await verify(await record(temperature=temperature), client, top_logprobs=top_logprobs)

        assert report.ok
        assert report.totals["compared"] + report.totals["not_comparable"] == 36
    assert {turn.verdict for turn in report.turns} <= {Verdict.AGREES, Verdict.NOT_COMPARABLE}


@pytest.mark.parametrize("temperature", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1.1e-6, 1e3, 1e9])
@pytest.mark.parametrize("top_logprobs", [1, 20, VOCABULARY])
async def test_no_temperature_is_a_failure_or_a_crash(
    record: Record, client: SGLangClient, temperature: float, top_logprobs: int
) -> None:
    report = await verify(await record(temperature=temperature), client, top_logprobs=top_logprobs)

    assert report.ok
    assert {turn.verdict for turn in report.turns} <= {Verdict.AGREES, Verdict.NOT_COMPARABLE}
    if temperature < 1e-2 and top_logprobs > 1:  # all but greedy: the likeliest tokens tell all there is
        assert report.complete


async def test_values_that_leave_the_temperature_out_are_told_as_such(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    for turn in trajectory.turns:
        change(turn, facts={"sampling_params": {"temperature": 0.5}})

    report = await verify(trajectory, client, top_logprobs=VOCABULARY)
    assert report.failures
    assert all("SGLANG_RETURN_ORIGINAL_LOGPROB=1" in turn.reason for turn in report.failures)

    for turn in trajectory.turns:
        change(turn, facts={**turn.sampled.facts, "logprob_kind": "untempered"})
    assert (await verify(trajectory, client)).complete


async def test_greedy_turns_are_compared(record: Record, client: SGLangClient) -> None:
    assert (await verify(await record(temperature=0.0), client)).complete


@pytest.mark.parametrize(
    "params",
    [
        {"json_schema": "{}"},
        {"regex": "a+"},
        {"ebnf": "root ::= 'a'"},
        {"structural_tag": "{}"},
        {"logit_bias": {"5": 1.0}},
        {"frequency_penalty": 0.1},
        {"presence_penalty": -0.1},
        {"repetition_penalty": 1.1},
        {"min_new_tokens": 3},
        {"custom_params": {"x": 1}},
        {"temperature": 0.5, "top_k": 1},
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": 10**400},
        {"frequency_penalty": [10**5000]},
        {"min_new_tokens": {"a": "\ud800"}},
        3,
        ["temperature"],
    ],
)
async def test_what_changes_the_distribution_is_not_comparable_and_no_failure(
    record: Record, client: SGLangClient, params: Any
) -> None:
    trajectory = await record()
    for turn in trajectory.turns:
        with_logprob(turn, 0, -50.0)
        change(turn, facts={"sampling_params": params})

    report = await verify(trajectory, client)

    assert report.ok
    assert [turn.verdict for turn in report.turns] == [Verdict.NOT_COMPARABLE] * 4
    assert all(turn.reason for turn in report.turns)
    assert report.totals["not_comparable"] == 36
    assert report.totals["largest"] is None


async def test_parameters_at_their_neutral_values_change_nothing(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    neutral = {
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_new_tokens": 0,
        "json_schema": None,
        "top_p": 0.5,
    }
    for turn in trajectory.turns:
        change(turn, facts={"sampling_params": neutral})

    assert (await verify(trajectory, client)).complete


@pytest.mark.parametrize(
    ("preferred", "reasons"), [({"temperature": 0.5}, {"sampled at temperature 0.5"}), ("cold", {""}), ([1], {""})]
)
async def test_a_servers_own_sampling_defaults_count(
    record: Record, engine: TinyEngine, preferred: Any, reasons: set[str]
) -> None:
    class Preferring(CountingTransport):
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            if request.url.path != "/model_info":
                return response
            info = {**json.loads(await response.aread()), "preferred_sampling_params": preferred}
            return type(response)(200, json=info)

    client = SGLangClient("http://engine", transport=Preferring(engine))

    report = await verify(await record(), client, top_logprobs=0)

    assert {turn.reason for turn in report.turns} == reasons


async def test_differences_under_other_weights_are_explained(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    for turn, spans in zip(trajectory.turns, ((("v9", 0, 9),), (("v9", 0, 4), ("v0", 4, 9)), (), None), strict=True):
        with_logprob(turn, 7, -50.0)
        if spans is not None:
            change(turn, weight_spans=spans)

    report = await verify(trajectory, client)

    assert [turn.verdict for turn in report.turns] == [
        Verdict.OTHER_WEIGHTS,
        Verdict.OTHER_WEIGHTS,
        Verdict.DIFFERS,
        Verdict.DIFFERS,
    ]
    assert "'v9'; 'v0' are in place" in report.turns[0].reason
    assert report.turns[0].first is not None
    assert not report.complete


async def test_a_branch_of_another_model_is_reported_and_never_sent(
    record: Record, client: SGLangClient, transport: CountingTransport
) -> None:
    trajectory = await record()
    trajectory.turns[1].prompt = Segment.of(SegmentKind.PROMPT, [VOCABULARY, 31])

    report = await verify(trajectory, client)

    verdicts = {turn.turn: turn.verdict for turn in report.turns}
    assert verdicts == {0: Verdict.UNSCORED, 1: Verdict.UNSCORED, 2: Verdict.AGREES, 3: Verdict.AGREES}
    assert "id 1024 at position 14" in report.turns[0].reason
    assert not report.ok
    assert transport.generations == 2


async def test_a_branch_beyond_the_context_is_reported(client: SGLangClient) -> None:
    trajectory = Trajectory()
    sampled = Segment.of(SegmentKind.SAMPLED, [5, 6], [-1.0, -1.0])
    add_turn(trajectory, None, Segment.of(SegmentKind.PROMPT, [7] * 3000), sampled)

    report = await verify(trajectory, client)

    assert [turn.verdict for turn in report.turns] == [Verdict.UNSCORED]
    assert report.turns[0].reason.startswith("SGLangContextLengthError: ")
    assert report.turns[0].unscored == 2


async def test_a_server_without_generate_is_reported_for_each_branch(record: Record) -> None:
    engine = ScriptedEngine(lambda _: Refusal(status=404, body={"detail": "Not Found"}))
    client = SGLangClient("http://engine", transport=EngineTransport(engine))

    report = await verify(await record(), client)

    assert {turn.verdict for turn in report.turns} == {Verdict.UNSCORED}
    assert all(turn.reason.startswith("SGLangNotFoundError: ") for turn in report.turns)


async def test_a_server_that_cannot_be_reached_or_asks_for_a_key_is_an_error(record: Record) -> None:
    with pytest.raises(SGLangConnectionError):
        await verify(await record(), SGLangClient("http://127.0.0.1:9", max_retries=0))

    class Guarded(EngineTransport):
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            return type(response)(401, json={"error": "Unauthorized"})

    with pytest.raises(SGLangAuthError):
        await verify(await record(), SGLangClient("http://engine", transport=Guarded(ScriptedEngine())))


async def test_a_rollout_is_verified_as_one_branch(record: Record, client: SGLangClient) -> None:
    rollout = Rollout((await record()).turns[3].rollout().segments[:4])
    rollout.append(Segment.of(SegmentKind.PROMPT, [1, 2]))

    report = await verify(rollout, client)

    assert report.complete
    assert report.branches == 1
    assert [turn.tokens for turn in report.turns] == [9, 9]


async def test_images_are_not_comparable(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    trajectory.turns[2].images = ("data:image/png;base64,AA==",)

    report = await verify(trajectory, client)

    assert [turn.verdict for turn in report.turns if "images" in turn.reason] == [Verdict.NOT_COMPARABLE] * 2
    assert report.ok


async def test_an_episode_without_turns_and_a_turn_without_tokens_are_fine(client: SGLangClient) -> None:
    trajectory = Trajectory()
    assert (await verify(trajectory, client)).complete

    add_turn(trajectory, None, Segment.of(SegmentKind.PROMPT, [7]), Segment.of(SegmentKind.SAMPLED, [], []))
    assert (await verify(trajectory, client)).complete


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": 0.0},
        {"tolerance": float("nan")},
        {"top_logprobs": -1},
        {"concurrency": 0},
        {"vocab_size": 0},
        {"vocab_size": -5},
    ],
)
async def test_arguments_that_cannot_be_meant_are_refused(client: SGLangClient, wrong: dict[str, Any]) -> None:
    with pytest.raises(SGLangConfigError):
        await verify(Trajectory(), client, **wrong)


async def test_a_report_is_json_with_format_and_version(record: Record, client: SGLangClient) -> None:
    trajectory = await record()
    with_logprob(trajectory.turns[1], 4, -60.0)

    report: VerificationReport = await verify(trajectory, client)
    saved = json.loads(json.dumps(report.to_dict(), allow_nan=False))

    assert (saved["format"], saved["version"]) == ("strands-sglang/verification", 1)
    assert (saved["ok"], saved["complete"]) == (False, False)
    assert saved["turns"][1]["verdict"] == "differs"
    assert saved["turns"][1]["first"]["offset"] == 4

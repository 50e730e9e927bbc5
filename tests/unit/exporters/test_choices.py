"""What an exporter refuses, and what each explicit choice makes of it instead."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from strands_sglang.errors import ExportError, SGLangConfigError, UnknownNameError
from strands_sglang.exporters import EXPORTERS, Exported, Exporter, get_exporter, register_exporter, registry
from strands_sglang.exporters.base import Exporter as Base
from strands_sglang.exporters.ending import ENDINGS
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Trajectory, Turn

from .readers import ALL_SAMPLES, PER_TURN, READERS
from .trees import branching, linear

# What an exporter needs beside an episode, so that only the fact under test can be refused.
NEEDS: dict[str, dict[str, Any]] = {
    "areal": {"unknown_version": 0},
    "prime_rl": {"env_name": "toy"},
    "trl_async": {"unknown_version": 0},
}
ONE_ROW = ["atropos", "skyrl", "trl", "verl"]
EVERY = pytest.mark.parametrize("name", sorted(READERS))


def made(name: str, **options: Any) -> Exporter:
    return get_exporter(name, **{**NEEDS.get(name, {}), **options})


def whole(**fields: Any) -> Trajectory:
    """A short episode that every exporter takes as it is."""
    episode = linear(([1, 2], [1000, 1001]), ([3], [1002]), **fields)
    for turn in episode.turns:
        turn.credit["advantage"] = 0.5
    return episode


def losses(result: Exported) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for loss in result.losses:
        counts[loss.field] += loss.count
    return dict(counts)


@EVERY
def test_a_complete_episode_loses_no_token(name: str) -> None:
    result = made(name).export(whole())

    assert [columns.mask for row in result.rows for columns in READERS[name](row)] == [[0, 0, 1, 1, 0, 1]]
    assert not losses(result).keys() & {"side_calls", "discarded", "replaced", "loss_mask", "samples"}


@EVERY
def test_no_episode_gives_no_row(name: str) -> None:
    assert made(name).export([]) == Exported(rows=())


@EVERY
def test_a_trainable_token_without_logprob_is_refused_or_masked(name: str) -> None:
    episode = whole()
    episode.turns[1].sampled = Segment.of(SegmentKind.SAMPLED, [1002], [None], facts=episode.turns[1].sampled.facts)

    with pytest.raises(ExportError, match="1 of 3 trainable tokens have no logprob"):
        made(name, missing_logprob="raise").export(episode)
    masked = made(name, missing_logprob="mask").export(episode)
    assert losses(masked)["loss_mask"] == 1
    masks = [columns.mask for row in masked.rows for columns in READERS[name](row)]
    assert masks == [[0, 0, 1, 1] if name in PER_TURN else [0, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize("name", sorted(set(READERS) - {"jsonl", "parquet"}))
def test_refusing_is_the_default(name: str) -> None:
    with pytest.raises(ExportError, match="have no logprob"):
        made(name).export(whole(logprobs=False))


def test_generic_rows_keep_a_missing_logprob_as_null() -> None:
    row = get_exporter("jsonl").export(whole(logprobs=False)).row

    assert row["logprobs"] == [None] * 6
    assert row["loss_mask"] == [0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("slime", "rollout_log_probs"),
        ("miles", "rollout_log_probs"),
        ("verl", "response_logprobs"),
        ("skyrl", "rollout_logprobs"),
        ("atropos", "inference_logprobs"),
        ("agent_lightning", "log_probs"),
        ("rllm", "logprobs"),
    ],
)
def test_logprobs_can_be_left_out_for_trainers_that_compute_their_own(name: str, field: str) -> None:
    row = made(name, missing_logprob="omit").export(whole(logprobs=False)).row
    steps = [step for trajectory in row.get("trajectories", []) for step in trajectory["steps"]]
    for holder in [triplet["response"] for triplet in row.get("triplets", [])] + steps or [row]:
        assert not holder.get(field)

    counted = losses(made(name, missing_logprob="omit").export(whole()))
    assert counted["logprobs"] == 3


def test_trl_keeps_a_missing_logprob_only_when_told_to() -> None:
    row = get_exporter("trl", missing_logprob="keep").export(whole(logprobs=False)).row

    assert row["logprobs"] == [[None] * 4]
    assert row["env_mask"] == [[1, 1, 0, 1]]


@pytest.mark.parametrize("name", ONE_ROW)
def test_several_samples_are_refused_where_one_is_taken(name: str) -> None:
    episode = branching()

    with pytest.raises(ExportError, match="has 2 samples"):
        made(name).export(episode)
    last = made(name, several="last").export(episode)
    longest = made(name, several="longest").export(branching(id="other"))
    both = made(name, several="all").export(branching(id="third"))
    assert [columns.tokens for row in last.rows for columns in READERS[name](row)] == [
        [1, 2, 1000, 1001, 4, 5, 1003, 1004, 1005]
    ]
    assert losses(last)["samples"] == 3
    # Both train three tokens: the newest of equals is kept.
    assert [columns.tokens[-1] for row in longest.rows for columns in READERS[name](row)] == [1005]
    assert [columns.tokens[-1] for row in both.rows for columns in READERS[name](row)] == [1002, 1005]


@pytest.mark.parametrize("name", sorted(set(READERS) - set(ONE_ROW)))
def test_other_trainers_get_every_sample(name: str) -> None:
    episode = branching()
    for turn in episode.turns:
        turn.credit["advantage"] = 1.0

    rows = made(name).export(episode).rows

    masks = [columns.mask for row in rows for columns in READERS[name](row)]
    assert masks == [[0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize("name", ONE_ROW)
def test_an_episode_without_a_sample_leaves_no_silent_gap(name: str) -> None:
    empty = Trajectory(id="empty", reward=0.0)

    with pytest.raises(ExportError, match="episode empty has no trainable token"):
        made(name).export([whole(), empty])
    assert losses(made(name, empty="skip").export([whole(), empty]))["episodes"] == 1


@pytest.mark.parametrize("name", sorted(set(READERS) - set(ONE_ROW)))
def test_elsewhere_it_is_counted(name: str) -> None:
    assert losses(made(name).export(Trajectory()))["episodes"] == 1


@EVERY
def test_an_episode_that_infrastructure_ended_is_not_trained_unless_told_to(name: str) -> None:
    ending = Termination(reason=TerminationReason.TIMEOUT)

    masked = made(name).export(whole(termination=ending))
    kept = made(name, untrainable="keep").export(whole(termination=ending))
    dropped = made(name, untrainable="drop").export(whole(termination=ending))
    assert sum(sum(columns.mask) for row in masked.rows for columns in READERS[name](row)) == 0
    assert len(masked.rows) == 1
    assert [sum(columns.mask) for row in kept.rows for columns in READERS[name](row)] == [3]
    assert dropped.rows == ()
    assert losses(masked)["loss_mask"] == losses(dropped)["loss_mask"] == 3


@EVERY
def test_the_same_episode_twice_is_refused(name: str) -> None:
    with pytest.raises(ExportError, match="given twice"):
        made(name).export([whole(), whole()])


@EVERY
def test_what_is_no_episode_is_refused(name: str) -> None:
    with pytest.raises(ExportError, match="a Sample cannot be exported"):
        made(name).export(whole().samples())  # type: ignore[arg-type]


@EVERY
def test_a_sample_that_begins_with_a_sampled_token_is_refused(name: str) -> None:
    with pytest.raises(ExportError, match="after no prompt at all"):
        made(name).export(linear(([], [1000])))


@pytest.mark.parametrize("name", ["skyrl", "areal", "atropos", "art", "rllm"])
def test_a_reward_that_the_trainer_requires_is_not_made_up(name: str) -> None:
    with pytest.raises(ExportError, match="has no reward"):
        made(name).export(whole(reward=None))


@EVERY
def test_an_option_that_does_not_exist_is_refused_with_the_nearest(name: str) -> None:
    with pytest.raises(SGLangConfigError, match="no option 'missing_logprobs', did you mean 'missing_logprob'"):
        get_exporter(name, missing_logprobs="mask")


@EVERY
def test_a_value_that_cannot_be_meant_is_refused(name: str) -> None:
    with pytest.raises(SGLangConfigError, match="missing_logprob='zero'; it can be '"):
        get_exporter(name, missing_logprob="zero")


def test_a_choice_that_a_trainer_has_no_form_for_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match=r"it can be 'raise', 'mask'$"):
        get_exporter("tinker", missing_logprob="omit")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown exporter 'slimy', did you mean 'slime'.*verl"):
        get_exporter("slimy")


@pytest.mark.parametrize("name", ["prime-rl", "Prime_RL", "PRIME-RL"])
def test_case_and_hyphens_make_no_difference(name: str) -> None:
    assert get_exporter(name).name == "prime_rl"
    assert name in EXPORTERS


def test_the_names_in_the_table_are_the_exporters_own() -> None:
    assert {name: EXPORTERS[name].name for name in EXPORTERS} == {name: name for name in EXPORTERS}
    assert len(EXPORTERS) == len(list(EXPORTERS))
    assert EXPORTERS.get("slimy") is None


def test_others_can_register_an_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})

    @register_exporter("my-trainer")
    class Mine(Base):
        name = "my_trainer"

    assert isinstance(get_exporter("my-trainer"), Mine)
    assert "my_trainer" in list(EXPORTERS)


def test_every_reason_has_an_ending() -> None:
    assert set(ENDINGS) == set(TerminationReason)


def test_the_only_row_is_taken_only_where_there_is_one() -> None:
    with pytest.raises(ExportError, match="there are 0 rows"):
        _ = Exported(rows=()).row


def test_losses_of_many_episodes_are_added_up_and_readable() -> None:
    batch = [whole(id=str(number), group_id="g") for number in range(5)]

    (loss,) = [loss for loss in get_exporter("tinker").export(batch).losses if loss.field == "group"]
    assert (loss.count, loss.unit) == (5, "episodes")
    assert str(loss) == "group: 5 episodes: the trainer's type has no place for it"
    assert "group: 1 episode: the trainer's type has no place for it" in map(
        str, get_exporter("tinker").export(batch[:1]).losses
    )


def test_what_is_lost_is_counted_once_whatever_its_kind() -> None:
    episode = whole(
        metadata={"a": 1, "b": 2}, group_id="g", termination=Termination(reason=TerminationReason.MAX_TOKENS)
    )
    first, second = episode.turns
    first.images = ("data:image/png;base64,AA==",)
    second.credit["progress"] = 0.1
    first.sampled = Segment.of(
        SegmentKind.SAMPLED,
        [1000, 1001],
        [-1.0, -1.0],
        weight_spans=(("v", 0, 2),),
        facts={"sampling_params": {"temperature": 0.5}, "routed_experts": "AAAA", "indexer_topk": "AAAA"},
    )
    first.prompt = Segment.of(SegmentKind.PROMPT, [1, 2], [None, -2.0])
    episode.add(
        Turn(
            index=2,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [9]),
            sampled=Segment.of(SegmentKind.SAMPLED, [1003], [-1.0]),
            conversation=1,
            lineage=Lineage.SIDE_CALL,
        )
    )

    assert losses(get_exporter("tinker").export(episode)) == {
        "side_calls": 1,
        "id": 1,
        "reward": 1,
        "group": 1,
        "termination": 1,
        "metadata": 2,
        "weight_versions": 3,
        "temperature": 1,
        "context_logprobs": 1,
        "routed_experts": 1,
        "indexer_topk": 1,
        "images": 1,
        "facts": 2,
        "credit.progress": 1,
    }
    assert losses(get_exporter("jsonl").export(episode)) == {"side_calls": 1}


def test_replaced_stop_tokens_are_counted() -> None:
    episode = whole()
    episode.turns[1].prompt = Segment.of(SegmentKind.PROMPT, [3], replaces=1)

    result = get_exporter("jsonl").export(episode)

    assert losses(result) == {"replaced": 1}
    assert result.row["token_ids"] == [1, 2, 1000, 3, 1002]


def test_the_options_of_the_random_tests_exist() -> None:
    for name, options in ALL_SAMPLES.items():
        get_exporter(name, **options)

"""What holds for the rows of every exporter, over random episodes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.exporters import EXPORTERS, Exported, get_exporter
from strands_sglang.exporters.files import json_line
from strands_sglang.trajectory import Sample, Trajectory

from .readers import ALL_SAMPLES, ANY, PER_TURN, READERS, UNKNOWN_VERSION, Columns
from .trees import FIRST_SAMPLED, batches, logprob_of, version_of

SELECTIONS = st.fixed_dictionaries({"include_side_calls": st.booleans(), "include_discarded": st.booleans()})
NAMES = sorted(READERS)
LOST_TOKENS = {"side_calls", "discarded", "replaced", "loss_mask"}
FEW = settings(max_examples=15, deadline=None)  # each example goes through every exporter


def exported(name: str, batch: list[Trajectory], chosen: dict[str, bool], **options: Any) -> Exported:
    """Export a batch; what an exporter requires of every turn is given to it."""
    for episode in batch:
        for turn in episode.turns:
            turn.credit["of the episode"] = 0.5
    defaults = {"missing_logprob": "mask", "untrainable": "keep", **ALL_SAMPLES.get(name, {})}
    return get_exporter(name, **{**defaults, **options}).export(batch, **chosen)


def columns_of(name: str, result: Exported) -> list[Columns]:
    return [columns for row in result.rows for columns in READERS[name](row)]


def samples_of(batch: list[Trajectory], chosen: dict[str, bool]) -> list[Sample]:
    return [sample for episode in batch for sample in episode.samples(**chosen)]


def trained(tokens: list[int], mask: list[int]) -> list[int]:
    return [token for token, trainable in zip(tokens, mask, strict=True) if trainable]


def test_every_exporter_of_the_table_is_tested_here() -> None:
    assert set(READERS) == set(EXPORTERS)


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_rows_train_what_the_samples_train_in_order(batch: list[Trajectory], chosen: dict[str, bool]) -> None:
    """G1, G4 and G10: the engine's ids, none of a prompt, each once."""
    expected = []
    for sample in samples_of(batch, chosen):
        tokens, logprobs = sample.rollout.token_ids, sample.rollout.logprobs
        mask = [int(mask and value is not None) for mask, value in zip(sample.loss_mask, logprobs, strict=True)]
        expected.append((tokens, trained(tokens, mask)))

    for name in set(NAMES) - PER_TURN:
        found = [(row.tokens, trained(row.tokens, row.mask)) for row in columns_of(name, exported(name, batch, chosen))]
        once = [token for _, tokens in found for token in tokens]
        # The rows of Atropos stand in groups.
        assert (sorted(found), name) == (sorted(expected), name)
        assert name == "atropos" or found == expected
        assert len(once) == len(set(once))
        assert all(token >= FIRST_SAMPLED for token in once)


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_turns_on_their_own_are_those_of_the_samples_that_are_whole(
    batch: list[Trajectory], chosen: dict[str, bool]
) -> None:
    expected = [token for sample in samples_of(batch, chosen) for token in tokens_of_whole_turns(sample)]

    for name in PER_TURN:
        rows = columns_of(name, exported(name, batch, chosen))
        assert ([token for row in rows for token in trained(row.tokens, row.mask)], name) == (expected, name)


def tokens_of_whole_turns(sample: Sample) -> Iterator[int]:
    """The trainable tokens of those turns that are trainable whole: no logprob missing, no token trained elsewhere."""
    tokens, logprobs = sample.rollout.token_ids, sample.rollout.logprobs
    owner = {token: turn.index for turn in sample.turns for token in turn.sampled.ids}
    columns = list(zip(tokens, sample.loss_mask, logprobs, strict=True))
    broken = {owner[token] for token, mask, value in columns if token in owner and (not mask or value is None)}
    yield from (token for token, mask, _ in columns if mask and owner[token] not in broken)


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_columns_agree_in_length_and_belong_to_their_token(batch: list[Trajectory], chosen: dict[str, bool]) -> None:
    """G5: and no value is given for one that was not measured."""
    for name in NAMES:
        for row in columns_of(name, exported(name, batch, chosen)):
            columns = (row.mask, row.logprobs, row.versions, row.advantages)
            assert {len(column) for column in columns if column is not None} == {len(row.tokens)}, name
            for position, (token, mask) in enumerate(zip(row.tokens, row.mask, strict=True)):
                if row.logprobs is not None and mask:
                    assert (row.logprobs[position], name) == (logprob_of(token), name)
                elif row.logprobs is not None and row.outside is not ANY:
                    assert (row.logprobs[position], name) == (row.outside, name)
                if row.versions is not None:
                    allowed = (int(version_of(token)), UNKNOWN_VERSION) if mask else (None,)
                    assert row.versions[position] in allowed, name


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_a_turns_credit_is_at_its_own_trainable_tokens(batch: list[Trajectory], chosen: dict[str, bool]) -> None:
    turns = [turn for episode in batch for turn in episode.turns]
    credit = {token: turn.credit.get("advantage", 0.25) for turn in turns for token in turn.sampled.ids}

    for name in NAMES:
        for row in columns_of(name, exported(name, batch, chosen)):
            if row.advantages is not None:
                wanted = [credit[token] if mask else 0.0 for token, mask in zip(row.tokens, row.mask, strict=True)]
                assert (row.advantages, name) == (wanted, name)


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_every_sampled_token_is_trainable_or_counted_as_lost(batch: list[Trajectory], chosen: dict[str, bool]) -> None:
    sampled = sum(len(turn.sampled) for episode in batch for turn in episode.turns)

    for name in NAMES:
        result = exported(name, batch, chosen, untrainable="mask")
        trainable = sum(sum(row.mask) for row in columns_of(name, result))
        lost = sum(loss.count for loss in result.losses if loss.field in LOST_TOKENS)
        assert (trainable + lost, name) == (sampled, name)


@FEW
@given(batch=batches(), chosen=SELECTIONS)
def test_an_ending_that_says_nothing_about_the_policy_trains_nothing(
    batch: list[Trajectory], chosen: dict[str, bool]
) -> None:
    good = [episode for episode in batch if episode.termination is None or episode.termination.trainable]
    allowed = {token for episode in good for turn in episode.turns for token in turn.sampled.ids}

    for name in NAMES:
        masked = columns_of(name, exported(name, batch, chosen, untrainable="mask"))
        dropped = columns_of(name, exported(name, batch, chosen, untrainable="drop"))
        found = {token for row in masked for token in trained(row.tokens, row.mask)}
        assert found <= allowed, name
        assert found == {token for row in dropped for token in trained(row.tokens, row.mask)}, name
        if name not in PER_TURN:
            assert len(masked) == len(samples_of(batch, chosen)), name
            assert len(dropped) == len(samples_of(good, chosen)), name


CREDITS = {"credit.advantage", "credit.reward", "credit.progress"}
ASKED: dict[str, dict[str, Any]] = {
    "skyrl": {"token_rewards": "reward"},
    "verl": {"extra_credit": ("reward", "progress")},
}


@FEW
@given(batch=batches(), chosen=SELECTIONS, untrainable=st.sampled_from(["mask", "keep"]))
def test_a_turns_numbers_are_in_the_rows_or_counted(
    batch: list[Trajectory], chosen: dict[str, bool], untrainable: str
) -> None:
    """Each credit has a value of its own, so that it can be told wherever it turns up."""
    numbers = (float(number) for number in itertools.count(123_456_001))
    credits: list[tuple[str, float]] = []
    for episode in batch:
        for turn in episode.turns:
            turn.credit = {name: next(numbers) for name in ("advantage", "reward", "progress")}
            credits += turn.credit.items() if episode.samples(**chosen) else ()

    for name in NAMES:
        result = exported(name, batch, chosen, untrainable=untrainable, **ASKED.get(name, {}))
        text = "\n".join(map(json_line, result.rows))
        absent = Counter(f"credit.{credit}" for credit, value in credits if str(value) not in text)
        listed: Counter[str] = Counter()
        for loss in result.losses:
            listed[loss.field] += loss.count
        ours = {field: count for field, count in listed.items() if field in CREDITS}
        assert (name, ours) == (name, dict(absent))


@settings(max_examples=5, deadline=None)
@given(batch=batches())
def test_changing_a_row_changes_nothing_in_the_record(batch: list[Trajectory]) -> None:
    for name in NAMES:
        first = repr(exported(name, batch, {}))
        before = [episode.to_json() for episode in batch]
        for row in exported(name, batch, {}).rows:
            spoil(row)

        assert [episode.to_json() for episode in batch] == before, name
        assert repr(exported(name, batch, {})) == first, name


def spoil(value: Any) -> None:
    """Change whatever can be changed within a row."""
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["spoilt"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoilt")

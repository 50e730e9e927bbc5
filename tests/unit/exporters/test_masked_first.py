"""What is masked or dropped is so before one of several samples is taken, and what is masked has no numbers."""

from __future__ import annotations

import pytest

from strands_sglang.errors import ExportError
from strands_sglang.exporters import get_exporter
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory

from .readers import READERS
from .test_choices import ONE_ROW, losses, made, whole
from .trees import branching, linear, prompt, sampled, turn_of

ONE = pytest.mark.parametrize("name", ONE_ROW)
TIMEOUT = Termination(reason=TerminationReason.TIMEOUT)


@ONE
@pytest.mark.parametrize("several", ["raise", "last", "longest", "all"])
def test_an_episode_that_is_dropped_is_dropped_whatever_its_samples(name: str, several: str) -> None:
    result = made(name, untrainable="drop", several=several).export(branching(termination=TIMEOUT))

    assert result.rows == ()
    assert losses(result) == {"loss_mask": 6, "episodes": 1}


@ONE
def test_an_episode_that_is_dropped_needs_nothing_to_train(name: str) -> None:
    empty = Trajectory(id="empty", reward=0.0, termination=TIMEOUT)

    assert made(name, untrainable="drop").export(empty).rows == ()
    with pytest.raises(ExportError, match="has no trainable token"):
        made(name).export(empty)


@ONE
def test_the_longest_sample_is_the_one_with_the_most_that_can_be_trained(name: str) -> None:
    episode = whole()
    turn_of(episode, None, prompt([9]), sampled([1003, 1004, 1005, 1006, 1007], logprobs=[None] * 5))

    result = made(name, several="longest", missing_logprob="mask").export(episode)

    assert [columns.mask for row in result.rows for columns in READERS[name](row)] == [[0, 0, 1, 1, 0, 1]]
    assert losses(result)["loss_mask"] == 5
    assert [(loss.count, loss.unit) for loss in result.losses if loss.field == "samples"] == [(1, "rows")]


@ONE
def test_a_sample_that_is_not_taken_may_lack_logprobs(name: str) -> None:
    episode = linear(([1], [1000]), logprobs=False)
    turn_of(episode, None, prompt([9]), sampled([1001]))

    result = made(name, several="last").export(episode)

    assert [columns.tokens for row in result.rows for columns in READERS[name](row)] == [[9, 1001]]


def test_a_masked_token_has_no_credit() -> None:
    ended = get_exporter("jsonl").export(whole(termination=TIMEOUT)).row
    silent = get_exporter("jsonl", missing_logprob="mask").export(whole(logprobs=False)).row

    assert ended["loss_mask"] == silent["loss_mask"] == [0] * 6
    assert ended["credit"] == silent["credit"] == {"advantage": [None] * 6}

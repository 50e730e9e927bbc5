"""Where the prompt of a row ends, and what stands there without a reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strands_sglang.errors import ExportError
from strands_sglang.exporters import get_exporter
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory

from .readers import READERS
from .test_choices import made, whole
from .trees import prompt, sampled, turn_of

EVERY = pytest.mark.parametrize("name", sorted(READERS))
TIMEOUT = Termination(reason=TerminationReason.TIMEOUT)


@EVERY
def test_the_prompt_ends_where_the_first_token_was_sampled(name: str) -> None:
    episode = Trajectory(id="e", reward=1.0)
    first = turn_of(episode, None, prompt([1, 2]), sampled([]))
    turn_of(episode, first, prompt([3, 4]), sampled([1000], weight_spans=(("7", 0, 1),)), credit={"advantage": 0.5})

    row = made(name).export(episode).row

    assert [(columns.tokens, columns.mask) for columns in READERS[name](row)] == [([1, 2, 3, 4, 1000], [0, 0, 0, 0, 1])]
    starts: dict[str, Callable[[], int]] = {
        "slime": lambda: len(row["tokens"]) - row["response_length"],
        "miles": lambda: len(row["tokens"]) - row["response_length"],
        "verl": lambda: len(row["prompt_ids"]),
        "trl": lambda: len(row["prompt_ids"][0]),
        "skyrl": lambda: len(row["prompt_token_ids"][0]),
        "jsonl": lambda: row["prompt_length"],
        "parquet": lambda: row["prompt_length"],
    }
    assert starts.get(name, lambda: 4)() == 4


@pytest.mark.parametrize(
    ("name", "field", "nothing"),
    [
        ("slime", "reward", None),
        ("miles", "reward", None),
        ("verl", "reward_score", None),
        ("trl", "episode_reward", [None]),
        ("trl_async", "metrics", {}),
        ("nemo_rl", "total_reward", None),
        ("verifiers", "rewards", {}),
        ("agent_lightning", "final_reward", None),
        ("jsonl", "reward", None),
        ("parquet", "reward", None),
    ],
)
def test_a_reward_that_was_not_given_is_none(name: str, field: str, nothing: Any) -> None:
    assert made(name).export(whole(reward=None)).row[field] == nothing


def test_an_episode_of_which_nothing_is_trained_needs_no_reward_of_a_step() -> None:
    row = get_exporter("rllm").export(whole(reward=None, termination=TIMEOUT)).row

    assert row["trajectories"][0]["steps"] == []


def test_skyrl_makes_up_no_reward_where_no_turn_has_the_number() -> None:
    with pytest.raises(ExportError, match=r"turns \[0, 1\] have no credit 'score'"):
        get_exporter("skyrl", token_rewards="score").export(whole())
    filled = get_exporter("skyrl", token_rewards="score", missing_credit=0.25).export(whole()).row
    assert filled["rewards"] == [[0.0, 0.25, 0.0, 0.25]]

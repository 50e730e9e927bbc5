"""ART: what the flags say of logprobs, and what becomes of a token without a routing row."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from strands_sglang.errors import RoutingError
from strands_sglang.exporters import get_exporter
from strands_sglang.trajectory import Trajectory

from .trees import prompt, sampled, turn_of

KINDS = {"PROCESSED_LOGPROBS", "RAW_LOGPROBS"}


def history_of(episode: Trajectory, **options: Any) -> dict[str, Any]:
    (history,) = get_exporter("art", **options).export(episode).row["tokenized_histories"]
    assert isinstance(history, dict)
    return history


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        ("tempered", {"PROCESSED_LOGPROBS"}),
        ("untempered", {"RAW_LOGPROBS"}),
        (None, set()),
        ("of another kind", set()),
        (["tempered"], set()),
    ],
)
def test_the_flag_of_a_logprob_is_what_the_record_says_of_it(kind: Any, flag: set[str]) -> None:
    facts = {} if kind is None else {"logprob_kind": kind}
    episode = Trajectory(reward=1.0)
    turn_of(
        episode,
        None,
        prompt([1, 2], [None, -1.0], facts={"logprob_kind": "untempered"}),
        sampled([1000, 1001], logprobs=[-0.5, -0.25], facts=facts),
    )

    flags = [KINDS.intersection(names) for names in history_of(episode)["flags"]]

    assert flags == [set(), {"RAW_LOGPROBS"}, flag, flag]


def test_a_token_without_logprob_has_no_flag_of_one() -> None:
    episode = Trajectory(reward=1.0)
    turn_of(episode, None, prompt([1]), sampled([1000], logprobs=None, facts={"logprob_kind": "tempered"}))

    assert not KINDS.intersection(history_of(episode, missing_logprob="keep")["flags"][1])


def with_rows(*, complete: bool) -> Trajectory:
    """Two turns, of which the first brings its routing rows or not."""

    def rows(start: int, count: int) -> dict[str, Any]:
        payload = base64.b64encode(struct.pack(f"<{2 * count}i", *[5, 6] * count)).decode()
        return {"routed_experts": payload, "routed_experts_start_len": start}

    episode = Trajectory(reward=1.0)
    first = turn_of(episode, None, prompt([1, 2]), sampled([1000, 1001], facts=rows(0, 3) if complete else {}))
    turn_of(episode, first, prompt([3]), sampled([1002, 1003], facts=rows(3, 3)))
    return episode


def test_a_missing_row_is_refused_unless_told_what_it_becomes() -> None:
    def firsts(missing: str) -> list[int]:
        history = history_of(with_rows(complete=False), num_layers=1, top_k=2, missing_routing=missing)
        return [row[0][0] for row in history["routed_experts"]]

    with pytest.raises(RoutingError, match="3 of 6 tokens have no row"):
        firsts("raise")
    assert firsts("zero") == [0, 0, 0, 5, 5, 5, -1]
    assert firsts("mark") == [-1, -1, -1, 5, 5, 5, -1]


def test_the_last_token_never_has_a_row() -> None:
    rows = history_of(with_rows(complete=True), num_layers=1, top_k=2)["routed_experts"]

    assert rows == [[[5, 6]]] * 6 + [[[-1, -1]]]

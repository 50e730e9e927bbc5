"""A weight version that is not told is not one that is: no number stands for it, and what is lost thereby is listed."""

from __future__ import annotations

from typing import Any

import pytest

from strands_sglang.exporters import get_exporter
from strands_sglang.trajectory import Trajectory

from .test_choices import losses
from .trees import prompt, sampled, turn_of


def one_turn(*spans: tuple[str, int, int]) -> Trajectory:
    """Three tokens of one turn."""
    episode = Trajectory(id="e", reward=1.0)
    turn_of(episode, None, prompt([1]), sampled([1000, 1001, 1002], weight_spans=spans), credit={"advantage": 1.0})
    return episode


def version_fields(name: str, row: dict[str, Any]) -> set[Any]:
    """The versions of a row in which one number stands for several tokens."""
    if name == "rllm":
        return {row["trajectories"][0]["steps"][0]["weight_version"]}
    if name == "art":
        return {row["trajectory"][f"{end}_policy_version"] for end in ("initial", "final")}
    return {row["extra_fields"].get(f"{end}_global_steps") for end in ("min", "max")}


@pytest.mark.parametrize("name", ["rllm", "art", "verl"])
@pytest.mark.parametrize(
    ("spans", "found", "lost"),
    [
        ([("5", 0, 3)], {5}, 0),
        ([("5", 1, 3)], {None}, 2),
        ([("5", 0, 2), ("default", 2, 3)], {None}, 3),
        ([], {None}, 0),
    ],
    ids=["all told", "one not told", "one no integer", "none told"],
)
def test_one_number_stands_for_several_tokens_only_where_all_tell_one(
    name: str, spans: list[tuple[str, int, int]], found: set[Any], lost: int
) -> None:
    result = get_exporter(name).export(one_turn(*spans))

    assert version_fields(name, result.row) == found
    assert losses(result).get("weight_versions", 0) == lost


@pytest.mark.parametrize("name", ["rllm", "art", "verl"])
def test_which_token_has_which_of_several_versions_is_lost(name: str) -> None:
    assert losses(get_exporter(name).export(one_turn(("5", 0, 1), ("6", 1, 3))))["weight_versions"] == 3


@pytest.mark.parametrize("name", ["slime", "miles"])
def test_a_list_of_versions_does_not_say_which_tokens_tell_none(name: str) -> None:
    partly = get_exporter(name).export(one_turn(("5", 1, 3)))
    silent = one_turn(("5", 0, 3))
    turn_of(silent, silent.turns[0], prompt([2]), sampled([1003]))
    beside = get_exporter(name).export(silent)

    assert partly.row["weight_versions"] == beside.row["weight_versions"] == ["5"]
    assert losses(partly)["weight_versions"] == losses(beside)["weight_versions"] == 1
    assert "weight_versions" not in losses(get_exporter(name).export(one_turn(("5", 0, 3))))
    assert "weight_versions" not in losses(get_exporter(name).export(one_turn()))


@pytest.mark.parametrize("version", ["None", "default", "-1", "0"])
def test_areal_counts_what_it_replaced_whatever_the_version_is_called(version: str) -> None:
    episode = one_turn((version, 0, 3))
    first = episode.turns[0]
    turn_of(episode, first, prompt([2]), sampled([1003], weight_spans=(("7", 0, 1),)))
    turn_of(episode, first, prompt([3]), sampled([1004], weight_spans=(("8", 0, 1),)))

    result = get_exporter("areal", unknown_version=9).export(episode)

    replaced = version in ("None", "default")
    assert losses(result).get("weight_versions", 0) == (3 if replaced else 0)
    assert result.rows[0]["versions"][0][1:4] == [9 if replaced else int(version)] * 3


def test_trl_async_counts_what_it_replaced() -> None:
    exporter = get_exporter("trl_async", unknown_version=0)

    assert losses(exporter.export(one_turn(("default", 0, 3))))["weight_versions"] == 3
    assert losses(exporter.export(one_turn(("5", 1, 3))))["weight_versions"] == 4  # and that there are two
    assert "weight_versions" not in losses(exporter.export(one_turn(("5", 0, 3))))

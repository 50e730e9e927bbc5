"""What no row can hold is refused by every exporter alike, and odd facts end in no other error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strands_sglang.errors import ExportError, SGLangError
from strands_sglang.exporters import EXPORTERS, get_exporter
from strands_sglang.exporters.files import json_line, write_jsonl, write_parquet
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Trajectory

from .readers import READERS
from .test_choices import made, whole

EVERY = pytest.mark.parametrize("name", sorted(READERS))
NAN, INF = float("nan"), float("inf")


@EVERY
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reward": NAN}, "episode e1: reward is nan"),
        ({"reward": -INF}, "episode e1: reward is -inf"),
        ({"reward": "high"}, "episode e1: reward is a str"),
        ({"reward": 10**400}, "episode e1: reward is an integer"),
        ({"id": 7}, "episode 7: id is an integer, not a string"),
        ({"id": "\ud800"}, "id is '.ud800', which UTF-8 cannot write"),
        ({"group_id": 3}, "episode e1: group_id is an integer, not a string"),
        ({"group_index": True}, "episode e1: group_index is a boolean"),
        ({"group_index": 2**70}, "episode e1: group_index is an integer of 71 bits"),
    ],
)
def test_a_value_that_no_row_can_hold_is_refused(name: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ExportError, match=words):
        made(name).export(whole(**{"id": "e1", **fields}))


@EVERY
@pytest.mark.parametrize("odd", [NAN, INF, "x", 10**400])
def test_a_credit_is_a_finite_number(name: str, odd: Any) -> None:
    episode = whole(id="e1")
    episode.turns[1].credit["advantage"] = odd

    with pytest.raises(ExportError, match=r"episode e1: turns\[1\].credit.advantage is "):
        made(name).export(episode)


@EVERY
def test_a_number_of_numpy_is_a_number(name: str) -> None:
    assert made(name).export(whole(reward=np.float32(1.0))).rows


def with_versions(version: str) -> Trajectory:
    episode = whole(id="e1")
    for turn in episode.turns:
        ids = list(turn.sampled.ids)
        turn.sampled = Segment.of(
            SegmentKind.SAMPLED,
            ids,
            [-0.5] * len(ids),
            weight_spans=((version, 0, len(ids)),),
            facts={"sampling_params": {"temperature": 1.0}},
        )
    return episode


@EVERY
@pytest.mark.parametrize("version", ["²", "٣", "-", "", "1_0", "1" * 400])
def test_a_version_that_is_no_integer_is_counted_or_replaced(name: str, version: str) -> None:
    result = made(name).export(with_versions(version))

    assert [json_line(row) for row in result.rows]


def test_a_version_that_areals_arrays_cannot_hold_is_refused() -> None:
    pytest.importorskip("numpy")
    late = with_versions("1764547200000")

    with pytest.raises(ExportError, match="episode e1: the weight version 1764547200000 does not fit AReaL's int32"):
        get_exporter("areal", arrays="numpy").export(late)
    assert 1764547200000 in get_exporter("areal").export(late).row["versions"][0]


ODD: list[Any] = [True, -1, 3, 1.5, 10**400, -1e300, "x", "\ud800", [], [[1]], {"a": 1}, {"temperature": 10**400}]
FACTS = (
    "sampling_params",
    "finish_reason",
    "matched",
    "latency",
    "sampling_mask",
    "routed_experts",
    "indexer_topk",
    "calls",
    "logprob_kind",
    "temperature",
)


ROUTED = {"num_layers": 1, "top_k": 1}
ASKING = [
    *((name, {}) for name in sorted(READERS)),
    *((name, ROUTED) for name in sorted(READERS) if hasattr(EXPORTERS[name], "num_layers")),
    ("miles", {"indexer_layers": 1, "index_topk": 1}),
]


@pytest.mark.parametrize(("name", "options"), ASKING)
@pytest.mark.parametrize("fact", FACTS)
def test_an_odd_fact_is_exported_or_refused(name: str, options: dict[str, Any], fact: str) -> None:
    for value in ODD:
        episode = whole(metadata={"env_name": value, "prompt": value})
        for turn in episode.turns:
            facts = {"sampling_params": {"temperature": 1.0}, fact: value}
            turn.sampled = Segment.of(SegmentKind.SAMPLED, turn.sampled.ids, turn.sampled.logprob_list(), facts=facts)
        try:
            rows = made(name, **options).export(episode).rows
        except SGLangError:
            continue
        assert [json_line(row) for row in rows]


def test_what_a_file_cannot_hold_is_refused_and_leaves_none(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    endless: dict[str, Any] = {}
    endless["self"] = endless

    for rows in ([{"a": {1, 2}}], [endless]):
        with pytest.raises(ExportError, match="a row cannot be written as JSON"):
            write_jsonl(rows, tmp_path / "rows.jsonl")
    with pytest.raises(ExportError, match="a row holds what the table cannot hold"):
        write_parquet([{"rollout_id": "\ud800"}], tmp_path / "rows.parquet")
    with pytest.raises(ExportError, match="a row holds what the table cannot hold"):
        write_parquet([{"group_index": 2**70}], tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []

"""What every exporter gives of episodes, against a forward pass of transformers by the weights that sampled each token.

The columns of a row are read back by `tests.unit.exporters.readers`, and its routing rows by the table here. Which
weights an exported value belongs to is read from the record: a token has those that sampled it, and a routing row those
that sampled the next token, since it was computed for that.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strands_sglang import Rollout, Trajectory
from strands_sglang.exporters import EXPORTERS, get_exporter
from strands_sglang.exporters.generic import ParquetExporter
from strands_sglang.trajectory import Sample, TurnFate
from tests.unit.exporters.readers import ALL_SAMPLES, PER_TURN, READERS, Columns, Row

from .episodes import TOLERANCE
from .forward_pass import Opinion, forward
from .sglang_cpu.install import default_environment

DECIDED = 1e-4
"""Router logits that are closer than this may be ordered either way in float32.

Another expert changes a token's hidden state, and that of every token that attends to it: in one place out of four by
more than `TOLERANCE` in a log-probability. So what comes after such a choice is left to noise as well.
"""

Shape = tuple[int, int]
"""Layers and experts per token."""

OPTIONS: dict[str, dict[str, Any]] = {**ALL_SAMPLES, "areal": {}, "trl_async": {}}
"""Under which each exporter takes every sample; every turn has an integer version, and credit."""
EXPORTED = frozenset(TurnFate) - {TurnFate.DISCARDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the right weights say of one sample.

    Attributes:
        ids: Its tokens.
        mask: 1 where a token is trainable.
        versions: Which weights sampled each token, None for what was not sampled.
        logprobs: Of each trainable token; None elsewhere.
        experts: The router's choice for each token but the last, `[tokens - 1, layers, top_k]`; None without routers.
        decided: Where that choice, and each before it, is by more than float32's noise.
        steady: Whether each token's log-probability follows from such choices only.
    """

    ids: list[int]
    mask: list[int]
    versions: list[str | None]
    logprobs: list[float | None]
    experts: NDArray[np.int64] | None
    decided: NDArray[np.bool_]
    steady: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was compared.

    Attributes:
        tokens: Trainable tokens of all samples.
        largest: The largest difference of a log-probability, over all exporters.
        rows: Routing rows of all samples that were compared with the router's choice.
        all_rows: Routing rows of all samples, with those that are left to noise.
    """

    tokens: int
    largest: float
    rows: int
    all_rows: int


async def assert_exports_are_of_the_right_weights(
    trajectories: Sequence[Trajectory], weights: Mapping[str, Path], shape: Shape | None = None
) -> Found:
    """Compare every exporter's rows of episodes under several weights with a second opinion.

    Args:
        trajectories: The episodes.
        weights: The checkpoints by the names under which the record knows them.
        shape: Of a routing row; None for a dense model.
    """
    said = await opinions(weights, trajectories)
    truths = truths_of(trajectories, said)
    tokens, largest, compared = sum(sum(truth.mask) for truth in truths), 0.0, 0
    assert tokens == sum(len(turn.sampled) for one in trajectories for turn in one.turns if turn.fate in EXPORTED)
    steady = sum(sum(map(min, truth.mask, truth.steady)) for truth in truths)
    assert steady > 0.9 * tokens
    for name in sorted(EXPORTERS):
        rows = export(name, trajectories, shape)
        differences = logprob_differences(name, rows, truths)
        assert len(differences) == steady, name
        assert max(differences) < TOLERANCE, name
        largest = max(largest, *differences)
        if shape is not None and name in ROUTING:
            wrong, compared = wrong_rows(name, rows, truths, shape)
            assert not wrong, f"{name}: {wrong} of {compared} rows are not those of the router"
    assert_other_weights_would_show(trajectories, said, shape)
    return Found(tokens=tokens, largest=largest, rows=compared, all_rows=sum(len(truth.decided) for truth in truths))


def assert_other_weights_would_show(
    trajectories: Sequence[Trajectory], said: Mapping[str, Sequence[Opinion]], shape: Shape | None
) -> None:
    """Take everything for that of one of the weights, which must then be seen to be wrong."""
    rows = export("jsonl", trajectories, shape)
    for opinions_of_one in said.values():
        untrue = truths_of(trajectories, dict.fromkeys(said, opinions_of_one))
        assert max(logprob_differences("jsonl", rows, untrue)) > 10 * TOLERANCE
        if shape is not None:
            wrong, _ = wrong_rows("jsonl", rows, untrue, shape)
            assert wrong


async def opinions(weights: Mapping[str, Path], trajectories: Sequence[Trajectory]) -> dict[str, list[Opinion]]:
    """Return what each of the weights says of every sample."""
    sequences = [sample.rollout.token_ids for sample in samples_of(trajectories)]
    passes = (asyncio.to_thread(forward, default_environment(), path, sequences) for path in weights.values())
    return dict(zip(weights, await asyncio.gather(*passes), strict=True))


def samples_of(trajectories: Sequence[Trajectory]) -> list[Sample]:
    """The samples that are exported by default, in order."""
    return [sample for trajectory in trajectories for sample in trajectory.samples()]


def truths_of(trajectories: Sequence[Trajectory], said: Mapping[str, Sequence[Opinion]]) -> list[Truth]:
    """Return what is to be found in the rows, sample by sample."""
    return [
        truth_of(sample, {version: opinions[number] for version, opinions in said.items()})
        for number, sample in enumerate(samples_of(trajectories))
    ]


def truth_of(sample: Sample, said: Mapping[str, Opinion]) -> Truth:
    """Take each value of a sample from the weights that it belongs to."""
    rollout, mask = sample.rollout, list(sample.loss_mask)
    versions = rollout.weight_versions
    logprobs: list[float | None] = [None] * len(mask)
    settled = {name: np.logical_and.accumulate(np.array(one.margins) > DECIDED) for name, one in said.items()}
    steady = [True] * len(mask)
    for at, (trainable, version) in enumerate(zip(mask, versions, strict=True)):
        if trainable:
            assert version is not None
            logprobs[at] = said[version].logprobs[at]
            steady[at] = not len(settled[version]) or bool(settled[version][at - 1])
    makers = makers_of_rows(rollout)
    routed = bool(next(iter(said.values())).experts)
    experts = np.array([said[maker].experts[at] for at, maker in enumerate(makers)]) if routed else None
    decided = np.array([routed and settled[maker][at] for at, maker in enumerate(makers)])
    return Truth(
        ids=rollout.token_ids,
        mask=mask,
        versions=versions,
        logprobs=logprobs,
        experts=experts,
        decided=decided,
        steady=steady,
    )


def makers_of_rows(rollout: Rollout) -> list[str]:
    """Return which weights made the routing row of each token but the last of a branch that ends with a sampled one."""
    makers: list[str] = []
    next_sampled: str | None = None
    for version in reversed(rollout.weight_versions[1:]):
        next_sampled = version if version is not None else next_sampled
        assert next_sampled is not None
        makers.append(next_sampled)
    return makers[::-1]


def export(name: str, trajectories: Sequence[Trajectory], shape: Shape | None = None) -> list[Row]:
    """Return an exporter's rows of all samples, with routing rows where it takes them and their shape is given."""
    routing = {} if shape is None or name not in ROUTING_OPTIONS else {"num_layers": shape[0], "top_k": shape[1]}
    rows = list(get_exporter(name, **OPTIONS.get(name, {}), **routing).export(trajectories).rows)
    return list(pa.Table.from_pylist(rows, schema=ParquetExporter.schema()).to_pylist()) if name == "parquet" else rows


def logprob_differences(name: str, rows: Sequence[Row], truths: Sequence[Truth]) -> list[float]:
    """Return by how much each exported log-probability is off, after a look at ids, mask and versions."""
    found = [columns for row in rows for columns in READERS[name](row)]
    return [
        difference
        for columns, truth in zip(found, truths, strict=True)
        for difference in _differences(name, columns, truth)
    ]


def _differences(name: str, columns: Columns, truth: Truth) -> Iterator[float]:
    length = len(columns.tokens)
    assert (name, columns.tokens, columns.mask) == (name, truth.ids[:length], truth.mask[:length])
    # What ends with the last trained turn has no more to train after it.
    assert length == len(truth.ids) or (name in PER_TURN and not any(truth.mask[length:])), name
    assert columns.logprobs is not None, name
    for at in np.flatnonzero(columns.mask):
        value, expected = columns.logprobs[at], truth.logprobs[at]
        assert value is not None, name
        assert expected is not None
        if columns.versions is not None:
            assert (name, str(columns.versions[at])) == (name, truth.versions[at])
        if truth.steady[at]:
            yield abs(value - expected)


def wrong_rows(name: str, rows: Sequence[Row], truths: Sequence[Truth], shape: Shape) -> tuple[int, int]:
    """Return how many exported routing rows are not the router's, and how many are not left to float32's noise."""
    found = [routed for row in rows for routed in ROUTING[name](row, shape)]
    wrong = compared = 0
    for routed, truth in zip(found, truths, strict=True):
        assert truth.experts is not None
        assert (name, routed.shape) == (name, truth.experts.shape)
        wrong += int((truth.decided & (routed != truth.experts).any(axis=(1, 2))).sum())
        compared += int(truth.decided.sum())
    return wrong, compared


def all_but_last(rows: Any) -> NDArray[Any]:
    """The rows of a trainer that wants one for the last token too, which never had any."""
    return np.asarray(rows)[:-1]


def prime_rl(row: Row, shape: Shape) -> list[NDArray[Any]]:
    routed = row["routed_experts"]
    return [all_but_last(np.frombuffer(routed["data"], routed["dtype"]).reshape(routed["shape"]))]


def nemo_rl(row: Row, shape: Shape) -> list[NDArray[Any]]:
    return [all_but_last(np.concatenate([message["routed_experts"] for message in row["message_log"]]))]


def as_served(row: Row, shape: Shape) -> list[NDArray[Any]]:
    """Place what each turn brought, where no earlier turn brought anything."""
    routed = np.full((len(row["token_ids"]) - 1, *shape), -1)
    turns = row["turns"] if isinstance(row["turns"], list) else json.loads(row["turns"])
    for turn in turns:
        brought = np.frombuffer(base64.b64decode(turn["facts"]["routed_experts"]), "<i4").reshape(-1, *shape)
        start = turn["facts"]["routed_experts_start_len"]
        assert len(brought) == turn["end"] - 1 - start
        places = routed[start : start + len(brought)]
        places[:] = np.where(places == -1, brought, places)
    return [routed]


ROUTING: dict[str, Callable[[Row, Shape], list[NDArray[Any]]]] = {
    "art": lambda row, shape: [all_but_last(history["routed_experts"]) for history in row["tokenized_histories"]],
    "jsonl": as_served,
    "miles": lambda row, shape: [row["rollout_routed_experts"]],
    "nemo_rl": nemo_rl,
    "parquet": as_served,
    "prime_rl": prime_rl,
    "skyrl": lambda row, shape: [all_but_last(rows) for rows in row["rollout_expert_indices"]],
    "slime": lambda row, shape: [row["rollout_routed_experts"]],
    "verl": lambda row, shape: [all_but_last(row["routed_experts"])],
}
"""How to read the routing rows of every token but the last out of a row, sample by sample."""
ROUTING_OPTIONS = frozenset(name for name, exporter in EXPORTERS.items() if hasattr(exporter, "num_layers"))

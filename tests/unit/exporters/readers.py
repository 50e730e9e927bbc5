"""How to read the rows of each exporter back into full columns, so that one test holds for all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
UNKNOWN_VERSION = 999_999
ANY = -12345.0
"""Stands for: the record's own value, whatever it is."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """One sample as it can be read from a trainer's row; None for a column that the trainer does not take.

    `outside` is the logprob that every token with mask 0 has to have.
    """

    tokens: list[int]
    mask: list[int]
    logprobs: list[float | None] | None = None
    outside: float | None = None
    versions: list[int | None] | None = None
    advantages: list[float | None] | None = None


def slime(row: Row) -> list[Columns]:
    start = len(row["tokens"]) - row["response_length"]
    return [
        Columns(
            tokens=row["tokens"],
            mask=[0] * start + row["loss_mask"],
            logprobs=[0.0] * start + row["rollout_log_probs"],
            outside=0.0,
        )
    ]


def verl(row: Row) -> list[Columns]:
    start = len(row["prompt_ids"])
    return [
        Columns(
            tokens=row["prompt_ids"] + row["response_ids"],
            mask=[0] * start + row["response_mask"],
            logprobs=[0.0] * start + row["response_logprobs"],
            outside=0.0,
        )
    ]


def trl(row: Row) -> list[Columns]:
    keys = ("prompt_ids", "completion_ids", "env_mask", "logprobs")
    return [
        Columns(tokens=prompt + ids, mask=[0] * len(prompt) + mask, logprobs=[None] * len(prompt) + logprobs)
        for prompt, ids, mask, logprobs in zip(*(row[key] for key in keys), strict=True)
    ]


def trl_async(row: Row) -> list[Columns]:
    return [Columns(tokens=row["input_ids"], mask=row["completion_mask"], logprobs=row["old_log_probs"], outside=0.0)]


def skyrl(row: Row) -> list[Columns]:
    keys = ("prompt_token_ids", "response_ids", "loss_masks", "rollout_logprobs")
    return [
        Columns(
            tokens=prompt + ids,
            mask=[0] * len(prompt) + mask,
            logprobs=[0.0] * len(prompt) + logprobs,
            outside=0.0,
        )
        for prompt, ids, mask, logprobs in zip(*(row[key] for key in keys), strict=True)
    ]


def areal(row: Row) -> list[Columns]:
    assert all(len(values) == 1 for values in row.values())
    return [
        Columns(
            tokens=row["input_ids"][0],
            mask=row["loss_mask"][0],
            logprobs=row["logprobs"][0],
            outside=0.0,
            versions=[None if version == -1 else version for version in row["versions"][0]],
        )
    ]


def prime_rl(row: Row) -> list[Columns]:
    assert len(row["temperatures"]) == len(row["token_ids"])
    return [
        Columns(
            tokens=row["token_ids"],
            mask=[int(mask) for mask in row["mask"]],
            logprobs=row["logprobs"],
            outside=0.0,
            advantages=row["advantages"],
        )
    ]


def nemo_rl(row: Row) -> list[Columns]:
    tokens: list[int] = []
    mask: list[int] = []
    logprobs: list[float | None] = []
    for message in row["message_log"]:
        trained = message["role"] == "assistant"
        assert trained == ("generation_logprobs" in message)
        assert message["token_ids"]
        tokens += message["token_ids"]
        mask += [int(trained)] * len(message["token_ids"])
        logprobs += message.get("generation_logprobs", [None] * len(message["token_ids"]))
    assert row["length"] == len(tokens)
    return [Columns(tokens=tokens, mask=mask, logprobs=logprobs)]


def tinker(row: Row) -> list[Columns]:
    inputs = row["loss_fn_inputs"]
    assert row["model_input"][1:] == inputs["target_tokens"][:-1]
    return [
        Columns(
            tokens=[row["model_input"][0], *inputs["target_tokens"]],
            mask=[0, *map(int, inputs["mask"])],
            logprobs=[0.0, *inputs["logprobs"]],
            outside=0.0,
            advantages=[0.0, *inputs["advantages"]] if "advantages" in inputs else None,
        )
    ]


def art(row: Row) -> list[Columns]:
    return [
        Columns(
            tokens=history["tokens"],
            mask=[int("SAMPLED" in flags) for flags in history["flags"]],
            logprobs=[None if math.isnan(value) else value for value in history["logprobs"]],
            outside=ANY,
        )
        for history in row["tokenized_histories"]
    ]


def atropos(row: Row) -> list[Columns]:
    keys = ("tokens", "masks", "inference_logprobs")
    assert all(
        mask in (-100, token)
        for tokens, masks in zip(row["tokens"], row["masks"], strict=True)
        for token, mask in zip(tokens, masks, strict=True)
    )
    advantages = row.get("advantages", [None] * len(row["tokens"]))
    return [
        Columns(
            tokens=tokens,
            mask=[int(mask != -100) for mask in masks],
            logprobs=logprobs,
            outside=1.0,
            advantages=advantage,
        )
        for tokens, masks, logprobs, advantage in zip(*(row[key] for key in keys), advantages, strict=True)
    ]


def jsonl(row: Row) -> list[Columns]:
    assert json.loads(json.dumps(row)) == row
    return [
        Columns(
            tokens=row["token_ids"],
            mask=row["loss_mask"],
            logprobs=row["logprobs"],
            outside=ANY,
        )
    ]


def calls(found: list[tuple[list[int], list[int], list[float | None]]]) -> list[Columns]:
    """Put calls that extend one another together again, as trainers of this kind do."""
    merged: list[Columns] = []
    for prompt, ids, logprobs in found:
        last = merged[-1] if merged else None
        if last is not None and prompt[: len(last.tokens)] == last.tokens:
            gap = len(prompt) - len(last.tokens)
            assert last.logprobs is not None
            tokens, mask = prompt + ids, [*last.mask, *[0] * gap, *[1] * len(ids)]
            merged[-1] = Columns(tokens=tokens, mask=mask, logprobs=[*last.logprobs, *[None] * gap, *logprobs])
        else:
            mask = [0] * len(prompt) + [1] * len(ids)
            merged.append(Columns(tokens=prompt + ids, mask=mask, logprobs=[*[None] * len(prompt), *logprobs]))
    return merged


def agent_lightning(row: Row) -> list[Columns]:
    return calls(
        [
            (triplet["prompt"]["token_ids"], triplet["response"]["token_ids"], triplet["response"]["log_probs"])
            for triplet in row["triplets"]
        ]
    )


def rllm(row: Row) -> list[Columns]:
    return [
        columns
        for trajectory in row["trajectories"]
        for columns in calls(
            [(step["prompt_ids"], step["response_ids"], step["logprobs"]) for step in trajectory["steps"]]
        )
    ]


def verifiers(row: Row) -> list[Columns]:
    nodes = row["nodes"]
    assert [node["parent"] for node in nodes] == [None, *range(len(nodes) - 1)]
    logprobs: list[float | None] = []
    advantages: list[float | None] = []
    for node in nodes:
        assert len(node["token_ids"]) == len(node["mask"])
        assert len(node["logprobs"]) == sum(node["mask"])
        given = iter(node["logprobs"])
        credit = iter(node["advantages"] or [0.25] * sum(node["mask"]))
        logprobs += [next(given) if mask else 0.0 for mask in node["mask"]]
        advantages += [next(credit) if mask else 0.0 for mask in node["mask"]]
    return [
        Columns(
            tokens=[token for node in nodes for token in node["token_ids"]],
            mask=[int(mask) for node in nodes for mask in node["mask"]],
            logprobs=logprobs,
            outside=0.0,
            advantages=advantages,
        )
    ]


READERS: dict[str, Callable[[Row], list[Columns]]] = {
    "agent_lightning": agent_lightning,
    "areal": areal,
    "art": art,
    "atropos": atropos,
    "jsonl": jsonl,
    "miles": slime,
    "nemo_rl": nemo_rl,
    "parquet": jsonl,
    "prime_rl": prime_rl,
    "rllm": rllm,
    "skyrl": skyrl,
    "slime": slime,
    "tinker": tinker,
    "trl": trl,
    "trl_async": trl_async,
    "verifiers": verifiers,
    "verl": verl,
}

PER_TURN = frozenset({"agent_lightning", "rllm"})
"""Exporters that give trained turns alone: no tail after the last, no turn with a masked token."""

ALL_SAMPLES: dict[str, dict[str, Any]] = {
    "areal": {"unknown_version": UNKNOWN_VERSION},
    "atropos": {"several": "all", "empty": "skip", "missing_credit": 0.25},
    "prime_rl": {"temperature": 0.7, "missing_credit": 0.25},
    "skyrl": {"several": "all", "empty": "skip"},
    "tinker": {"missing_credit": 0.25},
    "trl": {"several": "all", "empty": "skip"},
    "trl_async": {"unknown_version": UNKNOWN_VERSION, "advantage": "of the episode"},
    "verl": {"several": "all", "empty": "skip"},
}
"""Options under which each exporter takes any episode whole."""

"""verifiers builds its nodes from ours, and its branches put them together into the same samples."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    graph, trace, types = (importlib.import_module(f"verifiers.v1.{name}") for name in ("graph", "trace", "types"))
    messages = {"user": types.UserMessage, "assistant": types.AssistantMessage}

    def node(fields: dict[str, Any]) -> Any:
        message = messages[fields["message"]["role"]](**fields["message"])
        return graph.MessageNode(**{**fields, "message": message})

    shown: dict[str, Any] = {"version": version("verifiers")}
    episodes = [*group(), branched()]
    samples = [sample for episode in episodes for sample in episode.samples()]
    rows = get_exporter("verifiers").export(episodes).rows
    for row, sample in zip(rows, samples, strict=True):
        branch = trace.Branch(index=0, nodes=[node(fields) for fields in row["nodes"]])
        trained = [
            value if mask else 0.0 for value, mask in zip(sample.rollout.logprobs, sample.loss_mask, strict=True)
        ]
        checks = {
            "tokens": branch.token_ids == sample.rollout.token_ids,
            "mask": branch.sampled_mask == [bool(mask) for mask in sample.loss_mask],
            "logprobs": branch.logprobs == trained,
            "advantages": branch.advantages == [0.25 * mask for mask in sample.loss_mask],
        }
        for name, good in checks.items():
            shown[name] = shown.get(name, True) and good
    return shown

"""Agent-Lightning's own triplets and rollout take our rows."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    types = importlib.import_module("agentlightning.types")
    rows = get_exporter("agent_lightning").export([*group(), branched()]).rows
    rollouts = [types.RolloutLegacy(**row) for row in rows]
    taken = [
        [(triplet.prompt["token_ids"], triplet.response["token_ids"]) for triplet in rollout.triplets]
        for rollout in rollouts
    ]
    given = [
        [(triplet["prompt"]["token_ids"], triplet["response"]["token_ids"]) for triplet in row["triplets"]]
        for row in rows
    ]
    return {
        "version": version("agentlightning"),
        "tokens": taken == given,
        "rewards": [rollout.final_reward for rollout in rollouts] == [row["final_reward"] for row in rows],
    }

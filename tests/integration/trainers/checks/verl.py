"""verl builds its `AgentLoopOutput` from our rows and turns it into tensors."""

from __future__ import annotations

import importlib
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    loop = importlib.import_module("verl.experimental.agent_loop.agent_loop")
    shown: dict[str, Any] = {"version": importlib.import_module("verl").__version__}
    for row in get_exporter("verl", several="all", extra_credit=("score",)).export([*group(), branched()]).rows:
        tensors = loop.AgentLoopOutput(**row).as_dict()
        checks = {
            "prompts": tensors["prompts"].tolist() == row["prompt_ids"],
            "responses": tensors["responses"].tolist() == row["response_ids"],
            "mask": tensors["response_mask"].tolist() == row["response_mask"],
            "logprobs": [round(x, 5) for x in tensors["rollout_log_probs"].tolist()]
            == [round(x, 5) for x in row["response_logprobs"]],
            "reward at the end": round(float(tensors["rm_scores"][-1]), 5) == round(row["reward_score"], 5),
            "versions": tensors["extra_fields"]["min_global_steps"] >= 7,
        }
        for name, good in checks.items():
            shown[name] = shown.get(name, True) and good
    return shown

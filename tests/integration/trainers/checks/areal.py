"""AReaL checks the format of our trajectories and concatenates them, lists and arrays alike."""

from __future__ import annotations

import importlib
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    check = importlib.import_module("areal.infra.workflow_executor").check_trajectory_format
    concatenate = importlib.import_module("areal.utils.data").concat_padded_tensors
    shown: dict[str, Any] = {"version": importlib.import_module("areal").__version__}
    for arrays in ("list", "numpy"):
        rows = get_exporter("areal", arrays=arrays, turn_ids=True).export([*group(), branched()]).rows
        tensors = [{name: torch.tensor(values) for name, values in row.items()} for row in rows]
        shown[f"{arrays}: format"] = all(check(row) for row in tensors)
        batch = concatenate(tensors)
        lengths = [row["input_ids"].shape[1] for row in tensors]
        shown[f"{arrays}: lengths"] = batch["attention_mask"].sum(dim=1).tolist() == lengths
        shown[f"{arrays}: versions"] = set(batch["versions"][batch["loss_mask"].bool()].tolist()) == {7, 8}
        shown[f"{arrays}: types"] = (batch["logprobs"].dtype, batch["attention_mask"].dtype) == (
            torch.float32,
            torch.bool,
        )
    return shown

"""What the Tinker cookbook makes of the same turns is what we export, and Tinker's `Datum` takes it."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from strands_sglang.exporters import get_exporter
from strands_sglang.trajectory import Trajectory
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    tinker = importlib.import_module("tinker")
    processing = importlib.import_module("tinker_cookbook.rl.data_processing")
    same = all(
        fields_of(datum(row)) == fields_of(processing.trajectory_to_data(cookbook(episode), 0.25)[0])
        for episode in group(8)
        for row in get_exporter("tinker").export(episode).rows
    )
    branches = [datum(row) for row in get_exporter("tinker").export(branched()).rows]
    return {
        "version": f"{tinker.__version__}, cookbook {version('tinker-cookbook')}",
        "as the cookbook": same,
        "branches": len(branches) == 3,
    }


def datum(row: dict[str, Any]) -> Any:
    tinker = importlib.import_module("tinker")
    inputs = {
        name: tinker.TensorData(
            data=values, dtype="int64" if name == "target_tokens" else "float32", shape=[len(values)]
        )
        for name, values in row["loss_fn_inputs"].items()
    }
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(row["model_input"]), loss_fn_inputs=inputs)


def cookbook(episode: Trajectory) -> Any:
    """The episode as the cookbook's own rollouts have it: what was observed and what was sampled, turn by turn."""
    tinker = importlib.import_module("tinker")
    types = importlib.import_module("tinker_cookbook.rl.types")
    tokens = importlib.import_module("tinker_cookbook.completers").TokensWithLogprobs
    seen: list[int] = []
    transitions = []
    for turn in episode.turns:
        seen += turn.prompt.ids
        action = tokens(tokens=turn.sampled.ids.tolist(), maybe_logprobs=turn.sampled.logprob_list())
        observed = tinker.ModelInput.from_ints(list(seen))
        transitions.append(types.Transition(ob=observed, ac=action, reward=0.0, episode_done=False))
        seen += turn.sampled.ids
    return types.Trajectory(transitions=transitions, final_ob=tinker.ModelInput.from_ints(list(seen)))


def fields_of(found: Any) -> Any:
    inputs = {name: (data.dtype, data.tolist()) for name, data in found.loss_fn_inputs.items()}
    return found.model_input.to_ints(), inputs

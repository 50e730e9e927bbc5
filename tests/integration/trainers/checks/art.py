"""ART's `Trajectory` takes our fields, and a group of them goes through its own JSON."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    art = importlib.import_module("art")
    rows = get_exporter("art", model="tiny").export([*group(), branched()]).rows
    trajectories = [art.Trajectory(**row["trajectory"], messages_and_choices=[]) for row in rows]
    made = art.TrajectoryGroup(trajectories)
    again = type(trajectories[0]).model_validate_json(trajectories[0].model_dump_json())
    return {
        "version": version("openpipe-art"),
        "rewards": [trajectory.reward for trajectory in made.trajectories]
        == [row["trajectory"]["reward"] for row in rows],
        "versions": {trajectory.final_policy_version for trajectory in trajectories} <= {7, 8},
        "json": again.metadata == rows[0]["trajectory"]["metadata"],
    }

"""Runs episodes over two actors of a local Ray against a server, one actor killed in the middle; prints one JSON line.

python tests/integration/ray_agents/rollout.py URL FOLDER
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from strands import Agent, tool

from strands_sglang import Episode, read_records, run_episodes
from strands_sglang.runner import EpisodeContext, RayActors
from strands_sglang.runner.target import AgentTarget

PROMPTS, GROUP = 12, 2
ROOT = Path(__file__).parents[3]


@tool
async def where(question: str) -> str:
    """Tell which process this is."""
    return str(os.getpid())


def agent_factory(context: EpisodeContext) -> Agent:
    """Make an agent; the one for a certain episode takes its whole actor with it, once."""
    folder = Path(context.prompt.row["folder"])
    (folder / "begun").open("a").write(f"{context.key}/{context.group_index} {os.getpid()}\n")
    if (context.key, context.group_index) == ("5", 1) and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    assert context.model is not None
    model = context.model(sampling_params={"temperature": 1.0, "max_new_tokens": 24})
    return Agent(model=model, tools=[where], callback_handler=None, retry_strategy=None)


def by_place(episodes: list[Episode]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the record of each episode under its key and its index in the group."""
    return {(episode.key, episode.group_index): episode.trajectory.to_dict() for episode in episodes}


async def main(url: str, folder: Path) -> None:
    target = AgentTarget(name="tests.integration.ray_agents.rollout:agent_factory", base_url=url, tool_parser="hermes")
    output = folder / "episodes.jsonl"
    prompts = [{"prompt": f"What is {n} + {n}?", "id": n, "folder": str(folder)} for n in range(PROMPTS)]
    paths = f"{ROOT}/src:{ROOT}"
    actors = RayActors(count=2, cpus=0.5, runtime_env={"env_vars": {"PYTHONPATH": paths}})
    run = run_episodes(
        target,
        prompts,
        group_size=GROUP,
        concurrency=6,
        output=output,
        limits={"max_tool_iters": 2},
        reward=lambda episode: float(len(episode.answer)),
        actors=actors,
    )
    episodes = [episode async for episode in run]
    saved = [Episode.of_record(record) for record in read_records(output)]
    # By place: two episodes that end together may be given out in another order than the file has them in.
    given, kept = by_place(episodes), by_place(saved)
    begun = (folder / "begun").read_text().split("\n")[:-1]
    shown = {
        "finished": [[episode.key, episode.group_index] for episode in episodes if episode.finished],
        "saved_otherwise": [
            {"place": list(place), "given": given.get(place), "saved": kept.get(place)}
            for place in sorted({*given, *kept})
            if given.get(place) != kept.get(place)
        ],
        "saved": len(saved),
        "unfinished": [str(episode.termination) for episode in episodes if not episode.finished],
        "processes": sorted({line.split()[1] for line in begun}),
        "begun_again": {
            place: count for place, count in Counter(line.split()[0] for line in begun).items() if count > 1
        },
        "rewarded": sum(episode.reward is not None for episode in episodes),
        "metrics": run.metrics(),
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

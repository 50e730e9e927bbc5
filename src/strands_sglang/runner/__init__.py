"""Many episodes: one call that is bounded, observable, classified and resumable.

`run_episode` runs one, `run_episodes` many. `attempt` runs an agent once and turns whatever happens into an ending,
`single` retries it, `run` keeps many going, `ledger` saves them and finds what an earlier run finished.
"""

from __future__ import annotations

from .episode import Episode, EpisodeContext
from .many import run_episodes
from .options import AgentFactory, EpisodeOptions, Reward
from .prompts import Prompt
from .ray_pool import RayActors
from .run import EpisodeRun
from .single import run_episode

__all__ = [
    "AgentFactory",
    "Episode",
    "EpisodeContext",
    "EpisodeOptions",
    "EpisodeRun",
    "Prompt",
    "RayActors",
    "Reward",
    "run_episode",
    "run_episodes",
]

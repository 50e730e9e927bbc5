"""An agent factory and a reward, as a user of `strands-sglang run` writes them."""

from __future__ import annotations

from strands import Agent, tool

from strands_sglang import Episode
from strands_sglang.runner import EpisodeContext

NOT_CALLABLE = 7


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def agent_factory(context: EpisodeContext) -> Agent:
    """Make an agent over the server of the command line."""
    assert context.model is not None
    return Agent(model=context.model(), tools=[add], callback_handler=None, retry_strategy=None)


def reward(episode: Episode) -> float:
    """1 for an answer that holds the row's label."""
    return float(str(episode.prompt.row["label"]) in episode.answer)

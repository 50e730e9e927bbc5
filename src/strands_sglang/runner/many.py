"""Many episodes: `run_episodes`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any

from strands_sglang.termination import TerminationReason

from .options import DEFAULT_TURNS, AgentFactory, EpisodeOptions, Reward, check_factory
from .players import LocalPlayer, Player
from .progress import check_progress
from .ray_pool import RayActors, RayPlayer
from .run import EpisodeRun
from .run_options import ProgressKind, RunOptions
from .source import check_prompts
from .tally import Tally


def run_episodes(
    agent_factory: AgentFactory,
    prompts: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int = 64,
    group_size: int = 1,
    limits: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
    reward: Reward | None = None,
    retries: int = 0,
    retry_on: Collection[TerminationReason] | None = None,
    retry_delay: float = 1.0,
    min_finished: int | None = None,
    min_groups: int | None = None,
    min_per_group: int | None = None,
    output: str | os.PathLike[str] | None = None,
    resume: bool = True,
    yield_partial: bool = False,
    turns_per_invocation: int | None = DEFAULT_TURNS,
    structured_output_model: Any = None,
    invocation_state: Mapping[str, Any] | None = None,
    progress: ProgressKind = False,
    stop_on_sigint: bool = True,
    stop_grace: float = 30.0,
    actors: RayActors | None = None,
) -> EpisodeRun:
    """Run many episodes, each by itself, and give them out as they end.

    Example:
        >>> import asyncio
        >>> from strands import Agent
        >>> from strands_sglang import SGLangClient, SGLangModel, get_tokenizer, run_episodes
        >>> from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn
        >>> tokenizer = get_tokenizer(TINY_MODEL)
        >>> engine = ScriptedEngine(lambda request: Turn(text="Hello!<|im_end|>"), tokenizer=tokenizer)
        >>> client = SGLangClient("http://engine", transport=EngineTransport(engine))
        >>> def agent_factory():
        ...     return Agent(model=SGLangModel(client=client, tokenizer=tokenizer), callback_handler=None)
        >>> async def main():
        ...     run = run_episodes(agent_factory, ["Hi", "Ho"], group_size=2, concurrency=3)
        ...     return sorted([(len(episode.samples()), episode.group_index) async for episode in run])
        >>> asyncio.run(main())
        [(1, 0), (1, 0), (1, 1), (1, 1)]

    Args:
        agent_factory: See `run_episode`.
        prompts: An iterable of texts or rows, see `run_episode`; read only as far as episodes are begun, so that it may
            be endless.
        concurrency: Episodes at once at most. A consumer that takes none holds the run up after as many more.
        group_size: Episodes of each prompt, with the prompt's key as their `group_id`.
        limits: Arguments of a `LoopLimiter` for each episode, such as `{"max_tool_iters": 20}`.
        timeout: Seconds for one episode with its attempts and its reward.
        deadline: Seconds for the run; what runs then is ended and saved as partial.
        reward: Says what an episode is worth, once it ended.
        retries: Further attempts after a retryable ending.
        retry_on: The reasons to retry on; None: all retryable ones but `cancelled`.
        retry_delay: Seconds before the first retry, doubled for each further one.
        min_finished: Finished episodes that are enough: the rest is ended, and saved as partial.
        min_groups: Whole groups that are enough.
        min_per_group: Finished episodes that make a group whole: the rest of it is ended.
        output: File of JSON lines to which every episode is appended as soon as it ended.
        resume: Leave out what `output` holds as finished.
        yield_partial: Give out also episodes that were stopped from outside.
        turns_per_invocation: Turns of one invocation of an agent; long episodes have several.
        structured_output_model: Passed to the agents.
        invocation_state: Passed to the agents, a copy to each episode.
        progress: "auto", "rich", "plain", or False.
        stop_on_sigint: The first Ctrl-C ends the run in order, the second at once. Only in the main thread, and only
            where nobody else has set a handler.
        stop_grace: Seconds that running episodes have after the first Ctrl-C.
        actors: Run the episodes in the actors of a Ray cluster (extra `ray`). Factory and reward are sent there.

    Returns:
        The run; iterate over it with `async for`. Its `metrics()`, `pause()`, `resume()` and `stop()` work meanwhile.

    Raises:
        SGLangConfigError: If an argument cannot be meant.
    """
    check_factory(agent_factory)
    check_prompts(prompts)
    episode_options = EpisodeOptions(
        limits=limits,
        timeout=timeout,
        reward=reward,
        retries=retries,
        retry_on=retry_on,
        retry_delay=retry_delay,
        turns_per_invocation=turns_per_invocation,
        structured_output_model=structured_output_model,
        invocation_state={} if invocation_state is None else invocation_state,
    )
    run_options = RunOptions(
        concurrency=concurrency,
        group_size=group_size,
        deadline=deadline,
        min_finished=min_finished,
        min_groups=min_groups,
        min_per_group=min_per_group,
        output=output,
        resume=resume,
        yield_partial=yield_partial,
        progress=progress,
        stop_on_sigint=stop_on_sigint,
        stop_grace=stop_grace,
    )
    check_progress(progress)
    tally = Tally()
    player: Player = LocalPlayer(agent_factory, episode_options, tally)
    if actors is not None:
        player = RayPlayer(agent_factory, episode_options, tally, actors, concurrency)
    return EpisodeRun(player, prompts, run_options, tally)

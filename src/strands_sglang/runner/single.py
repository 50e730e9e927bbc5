"""One episode with its retries: `run_episode`.

An ending is never raised; what is raised is a mistake in the arguments, and the cancellation of the caller.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from strands_sglang.provider.model import SGLangModel
from strands_sglang.termination import TerminationReason

from .attempt import Attempt, Stop
from .clock import PausableClock
from .episode import Episode, EpisodeContext
from .options import DEFAULT_TURNS, AgentFactory, EpisodeOptions, Reward, check_factory
from .prompts import Prompt, own
from .tally import Tally
from .threads import use_daemon_threads

_LONGEST_DELAY = 60.0


async def run_episode(
    agent_factory: AgentFactory,
    prompt: Any,
    *,
    limits: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    reward: Reward | None = None,
    retries: int = 0,
    retry_on: Collection[TerminationReason] | None = None,
    retry_delay: float = 1.0,
    turns_per_invocation: int | None = DEFAULT_TURNS,
    structured_output_model: Any = None,
    invocation_state: Mapping[str, Any] | None = None,
) -> Episode:
    """Run one episode.

    Example:
        >>> import asyncio
        >>> from strands import Agent
        >>> from strands_sglang import SGLangClient, SGLangModel, get_tokenizer, run_episode
        >>> from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn
        >>> tokenizer = get_tokenizer(TINY_MODEL)
        >>> engine = ScriptedEngine([Turn(text="Hello!<|im_end|>")], tokenizer=tokenizer)
        >>> client = SGLangClient("http://engine", transport=EngineTransport(engine))
        >>> def agent_factory():
        ...     return Agent(model=SGLangModel(client=client, tokenizer=tokenizer), callback_handler=None)
        >>> episode = asyncio.run(run_episode(agent_factory, "Hi"))
        >>> episode.answer, str(episode.termination.reason), len(episode.samples())
        ('Hello!', 'task_complete', 1)

    Args:
        agent_factory: Makes a fresh `strands.Agent` with a fresh `SGLangModel`, plainly or asynchronously. It is given
            an `EpisodeContext` if it takes one positional argument.
        prompt: A text, a list of content blocks or of messages, or a row `{"prompt": ..., "id": ..., ...}`.
        limits: See `EpisodeOptions`, as for everything below.
        timeout: Seconds for the episode.
        reward: Says what the episode is worth, once it ended.
        retries: Further attempts after a retryable ending.
        retry_on: The reasons to retry on.
        retry_delay: Seconds before the first retry.
        turns_per_invocation: Turns of one invocation of the agent.
        structured_output_model: Passed to the agent.
        invocation_state: Passed to the agent.

    Returns:
        The episode, however it ended.

    Raises:
        SGLangConfigError: If an argument cannot be meant.
        asyncio.CancelledError: If the caller is cancelled; the episode is ended before, on the server as well.
    """
    check_factory(agent_factory)
    options = EpisodeOptions(
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
    one = Prompt.of(prompt)
    use_daemon_threads()
    context = EpisodeContext(prompt=one, key=one.key())
    return await play(agent_factory, context, options, tally=Tally(), stop=Stop(), clock=PausableClock())


async def play(
    factory: AgentFactory,
    context: EpisodeContext,
    options: EpisodeOptions,
    *,
    tally: Tally,
    stop: Stop,
    clock: Callable[[], float],
    on_model: Callable[[SGLangModel], object] = lambda _: None,
) -> Episode:
    """Run one episode with its retries.

    Args:
        factory: Makes the agents.
        context: What they are made for.
        options: What holds for every episode.
        tally: The run's counters.
        stop: Ends the episode when asked.
        clock: Seconds that count against the timeout: those in which the run is not paused.
        on_model: Told the model of each attempt.
    """
    began = clock()

    def seconds_left() -> float | None:
        return None if options.timeout is None else max(0.0, options.timeout - (clock() - began))

    attempts: list[dict[str, Any]] = []
    for number in range(options.retries + 1):
        # Nobody finds in a prompt what another episode, or another attempt, has written into it.
        prompt = replace(context.prompt, content=own(context.prompt.content), row=own(context.prompt.row))
        one = replace(context, prompt=prompt, attempt=number)
        attempt = Attempt(factory=factory, context=one, options=options, tally=tally, on_model=on_model)
        episode = await attempt.run(stop, seconds_left)
        last = number == options.retries or stop.asked is not None or seconds_left() == 0
        if last or not options.retries_on(episode.termination):
            break
        attempts.append(_summary(episode))
        tally.retries += 1
        await _pause_before_retry(options.retry_delay, number, stop, seconds_left())
    if not attempts:
        return episode
    return replace(episode, retries=len(attempts), metrics={**episode.metrics, "attempts": attempts})


def _summary(episode: Episode) -> dict[str, Any]:
    """Return what is kept of an attempt that was followed by another."""
    return {
        "reason": episode.termination.reason.value,
        "detail": episode.termination.detail,
        **{name: episode.metrics[name] for name in ("seconds", "turns", "sampled_tokens")},
    }


async def _pause_before_retry(delay: float, number: int, stop: Stop, left: float | None) -> None:
    """Wait before the next attempt: longer each time, not all at once, and not beyond the episode's time."""
    seconds = min(delay * 2.0**number, _LONGEST_DELAY) * (0.5 + random.random() / 2)
    await stop.wait(None, seconds if left is None else min(seconds, left))
    await asyncio.sleep(0)

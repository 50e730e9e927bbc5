"""One attempt at an episode: make the agent, run it, judge it; and end it from outside when its time is up.

Whatever happens in the agent, its tools, its factory or its reward comes out as an `Episode` with an ending, never as
an error. What is stopped is cancelled, which ends its generation on the server; what does not let itself be cancelled
is left behind after a grace, and the attempt is over all the same.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from strands_sglang.provider.ending import classify, described
from strands_sglang.provider.model import SGLangModel
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory

from .calling import is_asynchronous, takes_positional
from .claims import claimed_model, release
from .episode import EPISODE_FIELD, Episode, EpisodeContext, answer_of
from .guard import ToolGuard
from .horizon import invoke
from .numbers import numbers_of
from .options import AgentFactory, EpisodeOptions, Reward
from .prompts import jsonable, own
from .savable import make_savable
from .tally import Tally

logger = logging.getLogger(__name__)

GRACE = 3.0
"""Seconds that a cancelled attempt has to end; the client takes up to one to end a generation on the server."""

_SHORTEST_WAIT = 0.05  # while a run is paused, no time passes

_RESET = "the model was reset while its episode ran, which takes its turns apart: is it shared with another episode?"

_left_behind: set[asyncio.Task[Any]] = set()


class Stop:
    """Asks attempts to end, with the ending they shall have; the first word counts."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._asked: asyncio.Future[Termination] = asyncio.get_running_loop().create_future()

    def ask(self, termination: Termination) -> None:
        """Ask to end."""
        if not self._asked.done():
            self._asked.set_result(termination)

    @property
    def asked(self) -> Termination | None:
        """The ending asked for, or None."""
        return self._asked.result() if self._asked.done() else None

    async def wait(self, other: asyncio.Future[Any] | None, seconds: float | None) -> None:
        """Return when it is asked, when the other future is done, or after some seconds."""
        await asyncio.wait(
            {self._asked, other} if other else {self._asked}, timeout=seconds, return_when="FIRST_COMPLETED"
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One attempt.

    Attributes:
        factory: Makes the agent.
        context: What it is made for.
        options: What holds for every episode.
        tally: The run's counters.
        phase: What it is at: the factory, the agent or the reward.
        agent: The agent, once it is made.
        model: Its model.
        record: The model's record when the agent was made.
        guard: What watches its tools.
        judged: The episode before it was rewarded, once the agent is done.
        on_model: Told the model once it is known.
        invocations: Invocations of the agent so far.
        began: When it began, on the monotonic clock.
    """

    factory: AgentFactory
    context: EpisodeContext
    options: EpisodeOptions
    tally: Tally
    phase: str = "agent_factory"
    agent: Any = None
    model: SGLangModel | None = None
    record: Trajectory = field(default_factory=Trajectory)
    guard: ToolGuard = field(init=False)
    judged: Episode | None = None
    on_model: Callable[[SGLangModel], object] = lambda _: None
    invocations: int = 0
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Make what watches the tools."""
        self.guard = ToolGuard(tally=self.tally)

    async def run(self, stop: Stop, seconds_left: Callable[[], float | None]) -> Episode:
        """Run to the end, or until it is stopped or out of time.

        Args:
            stop: Ends it when asked; the episode is partial then.
            seconds_left: Returns the seconds that the episode still has, or None.

        Raises:
            asyncio.CancelledError: If the caller is cancelled; the attempt is ended before.
        """
        task = asyncio.create_task(self._play(), name=f"episode {self.context.key}/{self.context.group_index}")
        try:
            while not task.done() and stop.asked is None and (left := seconds_left()) != 0:
                await stop.wait(task, None if left is None else max(left, _SHORTEST_WAIT))
        except asyncio.CancelledError:
            await self._end(task)
            _outcome(task)
            raise
        if task.done():
            return self._outcome_of(task)
        await self._end(task)
        ended = _outcome(task)
        if ended is not None and ended.finished:
            return ended  # it came to its end in the same moment
        if stop.asked is not None:
            return replace(self._episode(stop.asked), partial=True)
        return self._out_of_time()

    def _outcome_of(self, task: asyncio.Task[Episode]) -> Episode:
        """Return the episode of a task that nobody here has ended."""
        if (ended := _outcome(task)) is not None:
            return ended
        error = asyncio.CancelledError("the agent cancelled its own task") if task.cancelled() else task.exception()
        assert error is not None
        if not isinstance(error, Exception | asyncio.CancelledError):
            raise error
        return self._episode(classify(error), error=error)

    async def _play(self) -> Episode:
        try:
            return await self._played()
        finally:
            if self.model is not None:
                release(self.model)

    async def _played(self) -> Episode:
        """Make the agent, run it, judge it."""
        outcome: Any
        try:
            self.agent = await self._made()
            self.model = claimed_model(self.agent)
            self.record = self.model.trajectory
            self.on_model(self.model)
            self.guard.watch(self.agent)
            if (limiter := self.options.limiter()) is not None:
                self.agent.hooks.add_hook(limiter)
            self.phase = "agent"
            outcome = await self._invoke()
        except BaseException as error:
            if _is_cancelled() or isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            outcome = error
        ending = self.guard.termination or classify(outcome)
        if self.phase == "agent_factory" and ending.reason is TerminationReason.UNCLASSIFIED:
            ending = replace(ending, reason=TerminationReason.SETUP_ERROR)
        if self._was_reset():
            ending = Termination(reason=TerminationReason.SETUP_ERROR, detail=_RESET)
        raised = isinstance(outcome, BaseException)
        self.judged = self._episode(
            ending, result=None if raised else outcome, error=outcome if raised else self.guard.escaped
        )
        if self.options.reward is None or not ending.finished:
            return self.judged
        self.phase = "reward"
        return await self._rewarded(self.judged)

    async def _made(self) -> Any:
        """Call the factory."""
        made = self.factory(self.context) if takes_positional(self.factory) else self.factory()
        return await made if inspect.isawaitable(made) else made

    async def _invoke(self) -> Any:
        state = {name: own(value) for name, value in self.options.invocation_state.items()}
        # Hooks and limits write into it: what one episode leaves there must not be found by another.
        state["request_state"] = copy.deepcopy(state.get("request_state", {}))
        return await invoke(
            self.agent,
            own(self.context.prompt.content),  # Strands and hooks write into it
            turns=self.options.turns_per_invocation,
            invocation_state=state,
            structured_output_model=self.options.structured_output_model,
            on_invocation=self._count_invocation,
        )

    def _was_reset(self) -> bool:
        """Whether turns of the episode are in a record that its model no longer has."""
        return self.model is not None and self.model.trajectory is not self.record and bool(self.record.turns)

    def _count_invocation(self) -> None:
        self.invocations += 1

    async def _rewarded(self, episode: Episode) -> Episode:
        """Return the episode with its reward, or with the reward's failure as its ending."""
        assert self.options.reward is not None
        try:
            given = await _called(self.options.reward, episode)
            if given is not None:
                episode.trajectory.reward = _number(given)
            if unsavable := make_savable(episode.trajectory):
                return _unrewarded(episode, f"the reward wrote what cannot be saved: {unsavable}", None)
        except BaseException as error:
            if _is_cancelled() or isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            return _unrewarded(episode, described(error), error)
        return episode

    def _episode(self, termination: Termination, *, result: Any = None, error: BaseException | None = None) -> Episode:
        """Describe what there is of the episode."""
        trajectory = self.record if self.model is None or self._was_reset() else self.model.trajectory
        if unsavable := make_savable(trajectory):
            termination = _with_unsavable(termination, unsavable)
        trajectory.termination = termination
        # Where exporters look for them; "episode" is the record's own, see `Episode.record`.
        for name, value in {**self.context.prompt.row, "prompt": self.context.prompt.content}.items():
            if name != EPISODE_FIELD:
                trajectory.metadata.setdefault(name, jsonable(value))
        messages = list(getattr(self.agent, "messages", ())) if self.model is not None else []
        return Episode(
            trajectory=trajectory,
            messages=messages,
            termination=termination,
            prompt=self.context.prompt,
            key=self.context.key,
            answer=answer_of(messages),
            group_index=self.context.group_index,
            metrics={
                "seconds": time.monotonic() - self.began,
                "invocations": self.invocations,
                "tool_calls": self.guard.calls,
                "tool_errors": self.guard.failed,
                **numbers_of(trajectory),
            },
            result=result,
            error=error,
        )

    def _out_of_time(self) -> Episode:
        late = f"the episode took longer than its {self.options.timeout:g} s, at that time in its {self.phase}"
        if self.judged is not None:
            return _unrewarded(self.judged, late, None)
        return self._episode(Termination(reason=TerminationReason.TIMEOUT, detail=late))

    async def _end(self, task: asyncio.Task[Episode]) -> None:
        """Cancel the attempt and wait for its end, but not for ever."""
        if self.agent is not None and self.model is not None and self.phase == "agent":
            self.agent.cancel()  # reaches also what catches a cancellation and goes on
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=GRACE)
        finally:
            if not task.done():
                self._leave_behind(task)

    def _leave_behind(self, task: asyncio.Task[Episode]) -> None:
        """Let a task go on that does not end, and say so."""
        _left_behind.add(task)
        task.add_done_callback(_forget)
        logger.warning(
            "key=<%s>, index=<%d>, phase=<%s> | the episode does not let itself be cancelled; it is left behind",
            self.context.key,
            self.context.group_index,
            self.phase,
        )


def _is_cancelled() -> bool:
    """Whether someone asked for the running task to be cancelled; an error of that name may be anyone's."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _called(reward: Reward, episode: Episode) -> Any:
    """Return what a reward says; a plain function is called in a thread, where it may take its time."""
    if is_asynchronous(reward):
        value: Any = reward(episode)
    else:
        value, error = await asyncio.to_thread(_outcome_of_call, reward, episode)
        if isinstance(error, KeyboardInterrupt | GeneratorExit | StopIteration):
            raise RuntimeError(f"the reward raised {described(error)}") from error  # in a thread, nobody's Ctrl-C
        if error is not None:
            raise error
    return await value if inspect.isawaitable(value) else value


def _outcome_of_call(reward: Reward, episode: Episode) -> tuple[Any, BaseException | None]:
    """Call a reward; what it raises is returned, since a future cannot hold every error."""
    try:
        return reward(episode), None
    except BaseException as error:
        return None, error


def _with_unsavable(termination: Termination, unsavable: str) -> Termination:
    """Return the ending of an episode into whose record a tool or hook wrote what cannot be saved."""
    why = f"a tool or hook wrote into the record what cannot be saved: {unsavable}"
    if termination.finished:
        return Termination(reason=TerminationReason.TOOL_ERROR, detail=f"{why}; it had ended by {termination.reason}")
    return replace(termination, detail=f"{termination.detail}; {why}")


def _number(given: Any) -> float:
    """Return a reward as a finite number."""
    number = float(given)
    if not math.isfinite(number):
        raise ValueError(f"a reward must be a finite number, got {given!r}")
    return number


def _unrewarded(episode: Episode, why: str, error: BaseException | None) -> Episode:
    """Return an episode that ended, but whose reward failed; how it had ended is kept."""
    make_savable(episode.trajectory)
    had = {"reason": episode.termination.reason.value, "detail": episode.termination.detail}
    detail = f"{why}; the episode had ended by {episode.termination.reason.value}"
    termination = Termination(reason=TerminationReason.REWARD_ERROR, detail=detail)
    episode.trajectory.termination = termination
    return replace(
        episode, termination=termination, error=error, metrics={**episode.metrics, "ended_before_reward": had}
    )


def _outcome(task: asyncio.Task[Episode]) -> Episode | None:
    """Return the episode of a task that was cancelled but had come to its end."""
    if not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    """Let go of a task that was left behind, and of its error."""
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()

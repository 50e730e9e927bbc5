"""What holds for every episode of a run, checked before the first one costs anything."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.errors import SGLangConfigError, nearest
from strands_sglang.provider.limiter import LoopLimiter
from strands_sglang.termination import Termination, TerminationReason

from .episode import Episode

AgentFactory = Callable[..., Any]
"""Makes a fresh agent with a `SGLangModel`, plainly or asynchronously; called with an `EpisodeContext` if it takes one
positional argument."""

Reward = Callable[[Episode], float | Awaitable[float | None] | None]
"""Says what an episode is worth; None where it cannot be said."""

DEFAULT_TURNS = 25
"""Turns of one invocation of an agent; see `horizon`."""

_LIMITS = [
    name
    for name, parameter in inspect.signature(LoopLimiter).parameters.items()
    if name.startswith("max_") and parameter.default is None
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOptions:
    """What holds for every episode of a run.

    Attributes:
        limits: Arguments of a `LoopLimiter` that each agent gets, such as `{"max_tool_iters": 20}`; it ends an episode
            without an error. Limits that the factory sets itself hold as well.
        timeout: Seconds for one episode with all its attempts and its reward; time in which the run is paused does not
            count. None for no limit.
        reward: Says what an episode is worth, once it ended.
        retries: Attempts at most after one that ended by a retryable reason. Each has a fresh agent.
        retry_on: The reasons to retry on; None: all retryable ones but `cancelled`.
        retry_delay: Seconds before the first retry, doubled for each further one.
        turns_per_invocation: Turns of one invocation at most; None for one invocation however long.
        structured_output_model: Passed to every invocation.
        invocation_state: Passed to the invocations of every episode; each has a dictionary and a `request_state` of its
            own, also of the lists and dictionaries in it; other objects are shared.
    """

    limits: Mapping[str, Any] | None = None
    timeout: float | None = None
    reward: Reward | None = None
    retries: int = 0
    retry_on: Collection[TerminationReason] | None = None
    retry_delay: float = 1.0
    turns_per_invocation: int | None = DEFAULT_TURNS
    structured_output_model: Any = None
    invocation_state: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.reward is not None and not callable(self.reward):
            raise SGLangConfigError(f"reward must be a callable that is given an episode, got {self.reward!r}")
        for name, value in (("limits", self.limits), ("invocation_state", self.invocation_state)):
            if value is not None and not isinstance(value, Mapping):
                raise SGLangConfigError(f"{name} must be a mapping, got a {type(value).__name__}: {value!r}")
        _check_reasons(self.retry_on)
        for name in self.limits or {}:
            if name not in _LIMITS:
                raise SGLangConfigError(f"no limit is named {name!r}{nearest(name, _LIMITS)}; known: {_LIMITS}")
        self.limiter()
        positive("timeout", self.timeout)
        whole("retries", self.retries, least=0)
        whole("turns_per_invocation", self.turns_per_invocation, least=1)
        if not (isinstance(self.retry_delay, int | float) and 0 <= self.retry_delay < math.inf):
            raise SGLangConfigError(f"retry_delay must be a number of seconds, 0 or more; got {self.retry_delay!r}")

    def limiter(self) -> LoopLimiter | None:
        """Return a fresh limiter for one episode, or None without limits."""
        return LoopLimiter(**self.limits, on_limit="stop") if self.limits else None

    def retries_on(self, termination: Termination) -> bool:
        """Whether an ending is to be followed by another attempt."""
        if self.retry_on is not None:
            return termination.reason in self.retry_on
        return termination.retryable and termination.reason is not TerminationReason.CANCELLED


def check_factory(factory: Any) -> None:
    """Refuse a factory that is none."""
    if not callable(factory):
        raise SGLangConfigError(
            f"agent_factory must be a callable that makes an agent, got a {type(factory).__name__}",
            hint="give the function itself, such as agent_factory, not an agent that it made",
        )


def _check_reasons(reasons: Any) -> None:
    """Refuse reasons to retry on that no ending has."""
    if reasons is None:
        return
    if isinstance(reasons, str) or not isinstance(reasons, Collection):
        raise SGLangConfigError(f"retry_on must be a collection of TerminationReason, got {reasons!r}")
    for reason in reasons:
        if not isinstance(reason, TerminationReason):
            hint = f"such as {{TerminationReason.TIMEOUT}}{nearest(str(reason), [*TerminationReason])}"
            raise SGLangConfigError(f"retry_on holds {reason!r}, which is no TerminationReason", hint=hint)


def positive(name: str, seconds: float | None) -> None:
    """Refuse seconds that are not more than 0."""
    if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise SGLangConfigError(f"{name} must be more than 0 seconds, or None for no limit; got {seconds!r}")


def whole(name: str, number: int | None, *, least: int) -> None:
    """Refuse what is not None or a whole number of at least `least`."""
    if number is not None and not (type(number) is int and number >= least):
        raise SGLangConfigError(f"{name} must be a whole number of at least {least}, got {number!r}")

"""Episodes in the actors of a Ray cluster: the only module that knows Ray.

`RayActors` says how many actors there are and what each needs; `RayPlayer` gives them episodes. Each actor is a process
with its own client and tokenizer, made there by the factory. A record comes back as JSON as soon as its episode ended.
An actor that dies is started again by Ray, wherever there is room, and only the episodes it was running are run again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory

from .attempt import GRACE, Stop
from .episode import Episode, EpisodeContext
from .options import AgentFactory, EpisodeOptions, whole
from .players import LocalPlayer
from .tally import Tally
from .threads import use_daemon_threads

_CONTROL_CALLS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RayActors:
    """Where episodes run, if not in this process.

    Attributes:
        count: Actors.
        cpus: CPUs that each one needs.
        gpus: GPUs that each one needs.
        resources: Further resources that each one needs, by name.
        address: The cluster; None: the one that Ray finds, else a local one that ends with the run.
        runtime_env: Passed to Ray, such as `{"working_dir": "."}`.
        scheduling: Where Ray places them: "SPREAD" over the nodes, or "DEFAULT" (packed).
        max_losses: Actors that may die under one episode before it is given up.
    """

    count: int = 2
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    address: str | None = None
    runtime_env: Mapping[str, Any] | None = None
    scheduling: str = "SPREAD"
    max_losses: int = 3

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        whole("count", self.count, least=1)
        whole("max_losses", self.max_losses, least=1)


class _Worker:
    """One actor: plays episodes in its own process."""

    def __init__(self, factory: AgentFactory, options: EpisodeOptions) -> None:
        self._player = LocalPlayer(factory, options, Tally())
        self._stops: dict[str, Stop] = {}

    async def ready(self) -> None:
        use_daemon_threads()

    async def play(self, token: str, context: EpisodeContext) -> bytes:
        stop = self._stops[token] = Stop()
        try:
            episode = await self._player.play(context, stop)
        finally:
            del self._stops[token]
        return json.dumps(episode.record().to_dict()).encode()

    async def stop(self, token: str, reason: str, detail: str) -> None:
        if token in self._stops:
            self._stops[token].ask(Termination(reason=TerminationReason(reason), detail=detail))

    async def pause(self) -> None:
        self._player.pause()

    async def resume(self) -> None:
        self._player.resume()


class RayPlayer:
    """Plays episodes in actors."""

    def __init__(
        self, factory: AgentFactory, options: EpisodeOptions, tally: Tally, actors: RayActors, concurrency: int
    ) -> None:
        """Take what the actors are made of; Ray is not asked for anything yet.

        Args:
            factory: Makes agents; sent to every actor.
            options: What holds for every episode.
            tally: The run's counters.
            actors: How many actors there are, and what each needs.
            concurrency: Episodes that run at once at most, over all actors.

        Raises:
            SGLangConfigError: If Ray is not installed.
        """
        self._ray = _import_ray()
        self._factory, self._options, self._tally = factory, options, tally
        self._settings, self._concurrency = actors, concurrency
        self._actors: list[Any] = []
        self._running: list[int] = []
        self._up: set[int] = set()
        self._changed = asyncio.Event()
        self._reviving: dict[int, asyncio.Task[None]] = {}
        self._started_ray = False

    async def start(self) -> None:
        """Connect to the cluster, or start a local one, and wait for the actors.

        Raises:
            SGLangConfigError: If the cluster cannot be had, or an actor cannot be made.
        """
        ray, settings = self._ray, self._settings
        self._connect()
        remote = ray.remote(_Worker).options(
            num_cpus=settings.cpus,
            num_gpus=settings.gpus,
            resources=dict(settings.resources) or None,
            max_concurrency=self._concurrency + _CONTROL_CALLS,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy=settings.scheduling,
        )
        self._actors = [remote.remote(self._factory, self._options) for _ in range(settings.count)]
        self._running = [0] * settings.count
        self._up = set(range(settings.count))
        try:
            await asyncio.gather(*(_awaited(actor.ready.remote()) for actor in self._actors))
        except ray.exceptions.RayError as error:
            await self.close()
            raise SGLangConfigError(
                f"the actors cannot be started: {error}",
                hint="is the factory's code on every node? See runtime_env",
            ) from error

    def _connect(self) -> None:
        """Connect to the cluster, if nobody has done so in this process; the run ends what it begins."""
        if self._ray.is_initialized():
            return
        settings = self._settings
        options: dict[str, Any] = {"runtime_env": dict(settings.runtime_env)} if settings.runtime_env else {}
        try:
            self._ray.init(address=settings.address, log_to_driver=False, **options)
        except Exception as error:  # Ray's own are of many kinds
            where = settings.address or "a local cluster"
            raise SGLangConfigError(f"Ray cannot be had at {where}: {error}") from error
        self._started_ray = True

    async def play(self, context: EpisodeContext, stop: Stop) -> Episode:
        """Play one episode in the actor that has the least to do, again where that one dies."""
        for _ in range(self._settings.max_losses):
            place = await self._free_place(stop)
            if place is None:
                break
            self._running[place] += 1
            try:
                saved = await self._played(self._actors[place], context, stop)
            except self._ray.exceptions.RayActorError:
                self._tally.lost += 1
                self._mourn(place)
            else:
                return self._counted(saved, context)
            finally:
                self._running[place] -= 1
        if stop.asked is not None:
            return _nothing_left(context, stop.asked, partial=True)
        why = f"{self._settings.max_losses} actors died while they ran it"
        return _nothing_left(context, Termination(reason=TerminationReason.WORKER_LOST, detail=why))

    async def _free_place(self, stop: Stop) -> int | None:
        """Return the actor that has the least to do, once there is one; None when the episode is stopped before."""
        while stop.asked is None:
            if self._up:
                return min(self._up, key=self._running.__getitem__)
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            await stop.wait(waiting, None)
            waiting.cancel()
        return None

    def _mourn(self, place: int) -> None:
        """Give nothing more to an actor that died, until Ray has started it again."""
        self._up.discard(place)
        if place not in self._reviving:
            task = self._reviving[place] = asyncio.create_task(self._revive(place))
            task.add_done_callback(lambda _: self._reviving.pop(place, None))

    async def _revive(self, place: int) -> None:
        for number in itertools.count():
            await asyncio.sleep(min(0.25 * 2.0**number, 5.0))
            try:
                await _awaited(self._actors[place].ready.remote())
            except self._ray.exceptions.RayError:
                continue
            self._up.add(place)
            self._changed.set()
            return

    async def _played(self, actor: Any, context: EpisodeContext, stop: Stop) -> bytes | Episode:
        token = uuid.uuid4().hex
        answer = asyncio.ensure_future(_awaited(actor.play.remote(token, context)))
        try:
            await stop.wait(answer, None)
            if not answer.done() and (asked := stop.asked) is not None:
                actor.stop.remote(token, asked.reason.value, asked.detail)
                await asyncio.wait({answer}, timeout=2 * GRACE)
                if not answer.done():
                    return _nothing_left(context, asked, partial=True)
            saved: bytes = answer.result()
            return saved
        except asyncio.CancelledError:
            actor.stop.remote(token, TerminationReason.CANCELLED.value, "the run was cancelled")
            raise
        finally:
            answer.cancel()

    def _counted(self, saved: bytes | Episode, context: EpisodeContext) -> Episode:
        """Return the episode of a record, and count what this process did not see of it."""
        if isinstance(saved, Episode):
            return saved
        episode = replace(Episode.of_record(Trajectory.from_dict(json.loads(saved))), prompt=context.prompt)
        self._tally.retries += episode.retries
        self._tally.turns += episode.metrics["turns"]
        self._tally.sampled_tokens += episode.metrics["sampled_tokens"]
        self._tally.tool_calls += episode.metrics["tool_calls"]
        return episode

    def pause(self) -> None:
        """Hold the requests of every actor."""
        for actor in self._actors:
            actor.pause.remote()

    def resume(self) -> None:
        """Let them go."""
        for actor in self._actors:
            actor.resume.remote()

    async def close(self) -> None:
        """End the actors, and the local cluster where this run started it."""
        for task in list(self._reviving.values()):
            task.cancel()
        actors, self._actors = self._actors, []
        for actor in actors:
            self._ray.kill(actor)
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False


def _nothing_left(context: EpisodeContext, termination: Termination, *, partial: bool = False) -> Episode:
    """Return an episode of which nothing came back."""
    return Episode(
        trajectory=Trajectory(termination=termination),
        messages=[],
        termination=termination,
        prompt=context.prompt,
        key=context.key,
        group_index=context.group_index,
        partial=partial,
    )


async def _awaited(reference: Any) -> Any:
    """Await what is awaitable, but no coroutine."""
    return await reference


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise SGLangConfigError("Ray is not installed", hint='pip install "strands-sglang[ray]"') from error
    return ray

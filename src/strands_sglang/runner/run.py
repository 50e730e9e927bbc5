"""A run: many episodes, never more than so many at once, given out as they end.

`EpisodeRun` decides what is begun, and when enough is; a `Player` plays each episode, the ledger saves it. At any time
at most `concurrency` episodes run, and at most as many more wait to be taken. However the run ends (by itself, by a
limit, by Ctrl-C, because its consumer leaves or is cancelled), every episode that was begun is ended and saved before
the run is over, and no task of it is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from strands_sglang.errors import SGLangConfigError
from strands_sglang.termination import Termination

from .attempt import GRACE, Stop
from .episode import Episode, EpisodeContext, stopped
from .groups import Groups
from .interrupts import on_sigint
from .ledger import Ledger
from .players import Player
from .progress import Progress
from .run_options import RunOptions
from .source import Source, keys_of
from .tally import Tally
from .telemetry import Telemetry
from .threads import use_daemon_threads

T = TypeVar("T")

_SKIPS_AT_ONCE = 256
_ENOUGH = "enough episodes had finished"
_LEFT = "the run's consumer has left"


class EpisodeRun:
    """The finished episodes of a run, as an asynchronous iterator; see `run_episodes`.

    Leaving the loop early ends the rest. Where that must be over at a certain point, enter the run with `async with`.

    Attributes:
        interrupted: Whether Ctrl-C or `stop()` ended it before it was done.
        cut_short: Whether it was ended before its prompts were played: by its deadline, Ctrl-C or `stop()`.
    """

    def __init__(self, player: Player, prompts: Any, options: RunOptions, tally: Tally) -> None:
        """Take what the run is made of; nothing runs before the first episode is asked for."""
        self.interrupted = False
        self.cut_short = False
        self._paused = False
        self._player, self._prompts, self._options, self._tally = player, prompts, options, tally
        self._telemetry = Telemetry()
        self._begun = False
        self._iterator: AsyncGenerator[Episode, None] | None = None
        self._ended_by: Termination | None = None

    # --- what a consumer does --------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncGenerator[Episode, None]:
        """Begin the run; it can be iterated over once."""
        # The iterator is not kept, so that leaving the loop drops it, and the event loop ends it.
        return self._episodes() if self._iterator is None else self._iterator

    async def __anext__(self) -> Episode:
        """Return the next episode that ends."""
        if self._iterator is None:
            self._iterator = self._episodes()
        return await anext(self._iterator)

    async def __aenter__(self) -> Self:
        self._iterator = self._episodes()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what still runs, and save it; returns when all of it is over."""
        if self._iterator is not None:
            await self._iterator.aclose()

    def metrics(self) -> dict[str, Any]:
        """Return the run's numbers so far, as plain numbers for a tracker."""
        return self._tally.metrics()

    def pause(self) -> None:
        """Hold everything before a weight update: no episode begins, no new request leaves; requests on their way end.

        The servers are not told; see `SGLangClient.pause_generation` for that. Episodes' timeouts stand still, the
        run's deadline does not.
        """
        self._paused = True
        if self._begun:
            self._go.clear()
        self._player.pause()

    def resume(self) -> None:
        """Go on after `pause()`."""
        self._paused = False
        self._player.resume()
        if self._begun:
            self._go.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause for the length of a `with` block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def stop(self, *, at_once: bool = False) -> None:
        """Begin no further episode; those that run go on to their end, or are ended at once."""
        self.interrupted = True
        self._note_cut_short()
        if self._begun and at_once:
            self._stop_all(stopped("the run was stopped"))
        elif self._begun:
            self._begin_no_more()

    # --- the run itself --------------------------------------------------------------------------------------

    async def _episodes(self) -> AsyncGenerator[Episode, None]:
        if self._begun:
            raise SGLangConfigError("a run is iterated over once", hint="call run_episodes() again")
        self._begun = True
        self._go = asyncio.Event()
        if not self._paused:
            self._go.set()
        with ExitStack() as resources:
            await self._set_up(resources)
            try:
                while (episode := await self._out.get()) is not None:
                    self._room.release()
                    yield episode
            finally:
                await self._end()
        if self._error is not None:
            raise self._error

    async def _set_up(self, resources: ExitStack) -> None:
        options = self._options
        self._source = Source(self._prompts, group_size=options.group_size)
        use_daemon_threads()
        self._tally.began = time.monotonic()
        self._no_more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next_lock = asyncio.Lock()
        self._room = asyncio.Semaphore(2 * options.concurrency)
        self._out: asyncio.Queue[Episode | None] = asyncio.Queue()
        self._live: dict[tuple[str, int], Stop] = {}
        self._error: BaseException | None = None
        self._sigints = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._ledger: Ledger | None = None
        if options.output is not None:
            self._ledger = await asyncio.to_thread(Ledger, options.output, resume=options.resume)
            resources.callback(self._ledger.close)
        self._groups = Groups(
            size=options.group_size,
            per_group=options.min_per_group,
            finished=options.min_finished,
            groups=options.min_groups,
            before=self._ledger.finished if self._ledger else (),
        )
        await self._count_before()
        if options.stop_on_sigint:
            resources.enter_context(on_sigint(self._on_sigint))
        self._progress = resources.enter_context(Progress(options.progress, self._tally))
        await self._player.start()  # last: what fails above leaves nothing to be closed
        if options.deadline is not None:
            self._after(options.deadline, f"the run's deadline of {options.deadline:g} s passed")
        if self.interrupted or self._groups.enough:
            self._begin_no_more()
        workers = [asyncio.create_task(self._work()) for _ in range(options.concurrency)]
        self._tasks: list[asyncio.Task[None]] = [*workers, asyncio.create_task(self._progress.keep_up())]
        self._ending = asyncio.create_task(self._announce_end(workers))

    async def _count_before(self) -> None:
        """Count what an earlier run finished of these prompts, so that a run that has enough begins nothing."""
        limited = self._options.min_finished is not None or self._options.min_groups is not None
        if limited and self._ledger is not None and self._ledger.finished and isinstance(self._prompts, Sequence):
            self._groups.know(await asyncio.to_thread(lambda: list(keys_of(self._prompts))))

    async def _announce_end(self, workers: list[asyncio.Task[None]]) -> None:
        await asyncio.wait(workers)
        self._out.put_nowait(None)

    async def _end(self) -> None:
        """End everything that still runs; nothing of the run is left afterwards."""
        for timer in self._timers:
            timer.cancel()
        self._stop_all(stopped(_LEFT))
        *workers, progress = self._tasks
        progress.cancel()
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            for task in workers:
                task.cancel()
            await asyncio.wait(workers, timeout=2 * GRACE)
            raise
        finally:
            self._ending.cancel()
            await asyncio.gather(progress, self._ending, return_exceptions=True)
            await self._player.close()

    async def _work(self) -> None:
        """Play one episode after another."""
        try:
            while (context := await self._next()) is not None:
                await self._one(context)
        except Exception as error:
            self._fail(error)

    async def _next(self) -> EpisodeContext | None:
        """Return the next episode to begin, once there is room for its outcome; None when no more is to begin."""
        async with self._next_lock:
            # One begins in each turn of the event loop. A thousand first prompts in one turn would take seconds, in
            # which connections time out that are only waiting for the loop.
            await asyncio.sleep(0)
            if not await self._has(self._room.acquire(), at_once=not self._room.locked()):
                return None
            while await self._has(self._go.wait(), at_once=self._go.is_set()):
                context = await self._next_context()
                if context is None:
                    break
                if self._is_wanted(context):
                    return context
                if not self._tally.skipped % _SKIPS_AT_ONCE:
                    await asyncio.sleep(0)  # an earlier run may have finished very many
            self._begin_no_more()
            return None

    async def _next_context(self) -> EpisodeContext | None:
        """Ask the prompts for one more; where that fails, what runs goes on to its end before the error is raised."""
        try:
            if (context := self._source.at_once()) is not None:
                return context
            return await self._has(self._source.next(), at_once=not self._source.may_wait)
        except Exception as error:
            self._error = self._error or error
            return None

    def _is_wanted(self, context: EpisodeContext) -> bool:
        """Whether an episode is to be begun: not finished in an earlier run, and its group not yet whole."""
        done = self._ledger is not None and (context.key, context.group_index) in self._ledger.finished
        wanted = self._groups.wants(context.key)
        if self._groups.enough:  # with what an earlier run finished of this prompt
            self._stop_all(stopped(_ENOUGH))
        elif wanted and not done:
            return True
        self._tally.skipped += done
        self._groups.leave_out(context)
        return False

    async def _has(self, awaited: Awaitable[T], *, at_once: bool) -> T | None:
        """Await something, or return None as soon as no more is to begin.

        Args:
            awaited: What to await.
            at_once: Whether it is known not to wait; that costs no task.
        """
        task = asyncio.ensure_future(awaited) if not at_once else None
        if task is None:
            value = await awaited
            return None if self._no_more.done() else value
        waited: set[asyncio.Future[Any]] = {task, self._no_more}
        try:
            await asyncio.wait(waited, return_when="FIRST_COMPLETED")
            return task.result() if task.done() and not self._no_more.done() else None
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _one(self, context: EpisodeContext) -> None:
        """Play one episode, save it and give it out."""
        place = (context.key, context.group_index)
        stop = self._live[place] = Stop()
        if self._ended_by is not None:
            stop.ask(self._ended_by)
        self._tally.running += 1
        self._tally.started += 1
        try:
            episode = await self._player.play(context, stop)
        finally:
            self._tally.running -= 1
            del self._live[place]
        # Also where there is one of each: a later run may raise group_size.
        episode = replace(episode, group_id=context.key)
        episode.trajectory.group_id, episode.trajectory.group_index = context.key, context.group_index
        self._count(episode)
        if self._ledger is not None:
            try:
                await self._ledger.write(episode)
            except Exception as error:
                self._fail(error)
        if episode.partial and not self._options.yield_partial:
            self._room.release()
        else:
            self._out.put_nowait(episode)

    def _count(self, episode: Episode) -> None:
        """Count how an episode ended, and end what is no longer wanted."""
        self._tally.ended_with(episode)
        self._telemetry.ended(episode)
        self._groups.ended(episode)
        if not self._groups.wants_more(episode.key):
            why = stopped("enough episodes of its group had finished")
            for (key, _), stop in self._live.items():
                if key == episode.key:
                    stop.ask(why)
        if self._groups.enough:
            self._stop_all(stopped(_ENOUGH))

    # --- its end ---------------------------------------------------------------------------------------------

    def _note_cut_short(self) -> None:
        """Note that the run is ended from outside, where there is anything left to end."""
        if not self._begun or not self._no_more.done() or self._live:
            self.cut_short = True

    def _begin_no_more(self) -> None:
        if not self._no_more.done():
            self._no_more.set_result(None)

    def _stop_all(self, termination: Termination) -> None:
        """Begin no more, and end what runs."""
        if self._ended_by is None:
            self._ended_by = termination
        self._begin_no_more()
        for stop in self._live.values():
            stop.ask(termination)

    def _fail(self, error: BaseException) -> None:
        """End the run by an error of its own, raised to the consumer once everything is over."""
        if self._error is None:
            self._error = error
        self._stop_all(stopped(f"the run failed: {error}"))

    def _after(self, seconds: float, why: str) -> None:
        def end() -> None:
            self._note_cut_short()
            self._stop_all(stopped(why))

        self._timers.append(asyncio.get_running_loop().call_later(seconds, end))

    def _on_sigint(self) -> None:
        self._sigints += 1
        self.interrupted = True
        self._note_cut_short()
        if self._sigints == 1:
            grace = self._options.stop_grace
            running = self._tally.running
            self._progress.say(f"{running} running episodes have {grace:g} s; Ctrl-C again ends them at once")
            self._begin_no_more()
            self._after(grace, "the run was interrupted")
        else:
            self._error = KeyboardInterrupt()
            self._stop_all(stopped("the run was interrupted"))

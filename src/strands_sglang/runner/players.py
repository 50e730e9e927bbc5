"""Who plays an episode: this process, or (in `ray_pool`) one of many.

`run` decides which episodes are played and what becomes of them; a player only plays.
"""

from __future__ import annotations

import weakref
from typing import Protocol

from strands_sglang.client import SGLangClient
from strands_sglang.provider.model import SGLangModel

from .attempt import Stop
from .clock import PausableClock
from .episode import Episode, EpisodeContext
from .options import AgentFactory, EpisodeOptions
from .single import play
from .tally import Tally


class Player(Protocol):
    """Plays episodes."""

    async def start(self) -> None:
        """Get ready; called once, before the first episode."""

    async def play(self, context: EpisodeContext, stop: Stop) -> Episode:
        """Play one episode with its retries, to its end or until it is stopped."""

    def pause(self) -> None:
        """Hold what is not yet on its way to the server."""

    def resume(self) -> None:
        """Let it go on."""

    async def close(self) -> None:
        """Let go of everything; called once, after the last episode."""


class LocalPlayer:
    """Plays episodes in this process."""

    def __init__(self, factory: AgentFactory, options: EpisodeOptions, tally: Tally) -> None:
        """Take what episodes are made of; nothing runs yet."""
        self._factory, self._options, self._tally = factory, options, tally
        self._clock = PausableClock()
        self._clients: weakref.WeakSet[SGLangClient] = weakref.WeakSet()
        self._paused = False

    async def start(self) -> None:
        """There is nothing to get ready."""

    async def play(self, context: EpisodeContext, stop: Stop) -> Episode:
        """Play one episode."""
        return await play(
            self._factory,
            context,
            self._options,
            tally=self._tally,
            stop=stop,
            clock=self._clock,
            on_model=self._meet,
        )

    def pause(self) -> None:
        """Hold the requests of every client that an agent of the run uses, and the episodes' clocks."""
        self._paused = True
        self._clock.pause()
        for client in self._clients:
            client.pause()

    def resume(self) -> None:
        """Let the requests go."""
        self._paused = False
        for client in self._clients:
            client.resume()
        self._clock.resume()

    async def close(self) -> None:
        """The clients are the factory's to close."""
        if self._paused:
            self.resume()

    def _meet(self, model: SGLangModel) -> None:
        if not isinstance(model.client, SGLangClient):
            return  # a double that only sends
        self._clients.add(model.client)
        if self._paused:
            model.client.pause()

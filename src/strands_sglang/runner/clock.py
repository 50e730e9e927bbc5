"""The clock by which an episode's time is counted: it stands still while its run is paused."""

from __future__ import annotations

import time


class PausableClock:
    """Seconds that pass while nothing is paused."""

    def __init__(self) -> None:
        """Begin at 0, running."""
        self._passed = 0.0
        self._since: float | None = time.monotonic()

    def __call__(self) -> float:
        """Return the seconds so far."""
        return self._passed + (0.0 if self._since is None else time.monotonic() - self._since)

    def pause(self) -> None:
        """Stop; stopping twice does nothing."""
        self._passed, self._since = self(), None

    def resume(self) -> None:
        """Go on; going on twice does nothing."""
        if self._since is None:
            self._since = time.monotonic()

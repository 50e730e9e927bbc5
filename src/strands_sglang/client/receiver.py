"""The receiver of a stream's deltas: the caller's own function, whose errors are the caller's."""

from __future__ import annotations

from collections.abc import Callable

from .streams import StreamDelta

OnDelta = Callable[[StreamDelta], object]


class ReceiverError(BaseException):
    """What a receiver raised; no `except` on its way takes it for a failure of the server, nor for the deadline."""

    def __init__(self, error: Exception) -> None:
        """Keep the receiver's error."""
        super().__init__(error)
        self.error = error


def told_apart(on_delta: OnDelta) -> OnDelta:
    """Return a receiver whose errors can be told from all others."""

    def deliver(delta: StreamDelta) -> None:
        try:
            on_delta(delta)
        except Exception as error:
            raise ReceiverError(error) from error

    return deliver

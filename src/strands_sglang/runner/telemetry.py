"""The run's numbers as OpenTelemetry metrics, where an SDK is configured; elsewhere they cost next to nothing.

Names begin with `strands_sglang.`; endings are told apart by the attribute `reason`.
"""

from __future__ import annotations

from opentelemetry import metrics

from strands_sglang.version import __version__

from .episode import Episode


class Telemetry:
    """The instruments of one run."""

    def __init__(self) -> None:
        """Get the instruments from whatever is configured."""
        meter = metrics.get_meter("strands_sglang", __version__)
        self._episodes = meter.create_counter("strands_sglang.episodes", "{episode}", "Episodes that ended")
        self._seconds = meter.create_histogram("strands_sglang.episode.duration", "s", "How long an episode took")
        self._turns = meter.create_counter("strands_sglang.turns", "{turn}", "Answers of the model")
        self._tokens = meter.create_counter("strands_sglang.sampled_tokens", "{token}", "Sampled tokens")
        self._calls = meter.create_counter("strands_sglang.tool_calls", "{call}", "Tool calls executed")
        self._retries = meter.create_counter("strands_sglang.retries", "{attempt}", "Attempts followed by another")
        self._aborts = meter.create_counter("strands_sglang.aborts", "{abort}", "Aborted generations carried on")

    def ended(self, episode: Episode) -> None:
        """Count an episode."""
        attributes = {"reason": episode.termination.reason.value, "partial": episode.partial}
        numbers = episode.metrics
        self._episodes.add(1, attributes)
        self._seconds.record(numbers.get("seconds", 0.0), attributes)
        self._turns.add(numbers.get("turns", 0))
        self._tokens.add(numbers.get("sampled_tokens", 0))
        self._calls.add(numbers.get("tool_calls", 0))
        self._retries.add(episode.retries)
        self._aborts.add(numbers.get("aborts", 0))

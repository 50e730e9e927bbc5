"""One request while it is being generated.

Owns the tokens, their log-probabilities and versions, and how far the model has read.
Invariant: `output` and every list of `output_scores` that is filled have one entry per sampled token.
Only the scheduler writes to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strands_sglang.engine.tiny.ask import Ask
from strands_sglang.engine.tiny.checkpoint import Array
from strands_sglang.engine.tiny.kv_cache import KVCache
from strands_sglang.engine.tiny.sampler import reported, top
from strands_sglang.engine.tiny.stops import StopCheck

Alternatives = Sequence[tuple[float | None, int]]
"""Log-probabilities of several tokens at one position."""


@dataclass(slots=True, kw_only=True)
class Scores:
    """Log-probabilities of a run of positions.

    Attributes:
        ids: The token at each position.
        values: Its log-probability; None where there is none.
        tops: The likeliest tokens per position; None where there are no values. Empty where not asked for.
        wanted: The tokens asked for, per position; as `tops`.
    """

    ids: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    tops: list[Alternatives | None] = field(default_factory=list)
    wanted: list[Alternatives | None] = field(default_factory=list)

    def add(self, ask: Ask, token: int, logprobs: Array | None) -> None:
        """Score `token`; without log-probabilities, as the first position of a prompt, everything is None."""
        self.ids.append(token)
        self.values.append(None if logprobs is None else reported(logprobs[token]))
        self.add_alternatives(ask, logprobs)

    def add_alternatives(self, ask: Ask, logprobs: Array | None) -> None:
        """Add what the request wants to know about other tokens at this position."""
        if ask.top_logprobs_num:
            self.tops.append(None if logprobs is None else top(logprobs, ask.top_logprobs_num))
        if ask.token_ids_logprob is not None:
            wanted = ask.token_ids_logprob
            self.wanted.append(None if logprobs is None else [(reported(logprobs[each]), each) for each in wanted])


class SequenceState:
    """A request on its way through the scheduler."""

    def __init__(
        self,
        ask: Ask,
        *,
        rid: str,
        stops: StopCheck,
        rng: np.random.Generator,
        on_change: Callable[[SequenceState], None],
    ) -> None:
        """Create it; `on_change` is called after every token and at the end."""
        self.ask = ask
        self.rid = rid
        self.stops = stops
        self.rng = rng
        self.on_change = on_change
        self.output: list[int] = []
        self.input_scores = Scores()
        self.output_scores = Scores()
        self.spans: list[tuple[str, int]] = []
        self.finish: dict[str, Any] | None = None
        self.cache: KVCache | None = None
        self.cached = 0
        self.retractions = 0
        self.ended_in_queue = False
        self.sent = 0
        self.started = time.perf_counter()

    @property
    def length(self) -> int:
        """How many tokens there are, prompt and output."""
        return len(self.ask.prompt) + len(self.output)

    @property
    def read(self) -> int:
        """How many tokens the model has read."""
        return 0 if self.cache is None else len(self.cache)

    @property
    def prefilling(self) -> bool:
        """Whether more than the last token is still to be read."""
        return self.length - self.read > 1

    @property
    def scores_prompt(self) -> bool:
        """Whether log-probabilities of the prompt are still to come."""
        return self.ask.logprob_start_len + len(self.input_scores.ids) < len(self.ask.prompt)

    @property
    def due(self) -> bool:
        """Whether a chunk is to be streamed now: the first token at once, then every interval."""
        unsent = len(self.output) - self.sent
        enough = unsent >= max(1, self.ask.sampling.stream_interval) or self.sent == 0
        return self.ask.stream and enough and not self.stops.may_be_stopping(self.output)

    def unread(self, at_most: int) -> list[int]:
        """Return the next tokens to be read."""
        read, prompt = self.read, self.ask.prompt
        if read >= len(prompt):
            return self.output[read - len(prompt) :][:at_most]
        return [*prompt[read:], *self.output][:at_most]

    def append(self, token: int, version: str) -> None:
        """Take a sampled token."""
        self.output.append(token)
        if self.spans and self.spans[-1][0] == version:
            self.spans.pop()
        self.spans.append((version, len(self.output)))

    def retract(self) -> None:
        """Forget what the model has read, to read it again later."""
        self.cache = None
        self.retractions += 1
        if self.scores_prompt:
            self.input_scores = Scores()

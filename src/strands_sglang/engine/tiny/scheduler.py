"""Which sequences run, and one step of all of them.

Owns the queue, the running sequences, the prefix cache, pausing and aborts. Three verbs carry it: admit, run, take.
Invariant: a sequence is waiting, running or ended; when it ends its listener is told, once.
Not safe for threads: `Worker` calls it from one.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from strands_sglang.engine.answers import bad_value
from strands_sglang.engine.reply import ABORTED, ABORTED_IN_QUEUE
from strands_sglang.engine.tiny.checkpoint import Array
from strands_sglang.engine.tiny.kv_cache import KVCache, PrefixCache
from strands_sglang.engine.tiny.runner import Part, Runner, log_softmax
from strands_sglang.engine.tiny.sampler import adjust, draw, log_probabilities
from strands_sglang.engine.tiny.sequence import SequenceState

CHUNK = 256
"""Tokens of a prompt read in one step, so that a long prompt does not hold up the others."""


class Scheduler:
    """Runs many sequences on one model."""

    def __init__(self, runner: Runner, *, max_running: int, cache_tokens: int, weight_version: str) -> None:
        """Create it; `cache_tokens` is how many tokens of finished sequences are remembered."""
        self._runner = runner
        self._stop_tokens = runner.config.stop_tokens
        self._max_running = max_running
        self._prefixes = PrefixCache(runner.config, capacity=cache_tokens)
        self.waiting: deque[SequenceState] = deque()
        self.running: list[SequenceState] = []
        self.paused = False
        self.weight_version = weight_version

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return not self.paused and bool(self.waiting or self.running)

    @property
    def sequences(self) -> list[SequenceState]:
        """Every sequence that has not ended."""
        return [*self.running, *self.waiting]

    @property
    def used_tokens(self) -> int:
        """How many tokens are held in caches."""
        return self._prefixes.tokens + sum(sequence.read for sequence in self.running)

    # What others ask for between steps.

    def add(self, sequence: SequenceState) -> None:
        """Queue a sequence.

        Raises:
            SGLangBadRequestError: Its id is that of another one.
        """
        if any(each.rid == sequence.rid for each in self.sequences):
            raise bad_value(f"Duplicate request ID detected: {sequence.rid}")
        self.waiting.append(sequence)

    def abort(self, rid: str) -> None:
        """End the sequence of this id, if there is one."""
        for sequence in self.sequences:
            if sequence.rid == rid:
                self.drop(sequence)

    def abort_all(self) -> None:
        """End every sequence."""
        for sequence in self.sequences:
            self.drop(sequence)

    def drop(self, sequence: SequenceState) -> None:
        """End this sequence, if it has not ended."""
        if sequence in self.sequences:
            sequence.ended_in_queue = sequence in self.waiting
            self._end(sequence, ABORTED_IN_QUEUE if sequence.ended_in_queue else ABORTED)

    def pause(self, mode: str) -> None:
        """Stop stepping; running sequences end (`abort`), go back to the queue (`retract`) or stay (`in_place`)."""
        self.paused = True
        if mode == "abort":
            self.abort_all()
        elif mode == "retract":
            self._retract_all()

    def resume(self) -> None:
        """Go on stepping."""
        self.paused = False

    def flush_cache(self) -> bool:
        """Forget the prefixes; False, and nothing done, while a sequence is running, or one waits to."""
        idle = not self.running and (self.paused or not self.waiting)
        if idle:
            self._prefixes.clear()
        return idle

    def forget_all(self) -> None:
        """Drop every sequence without a word to its listener."""
        self.waiting.clear()
        self.running.clear()

    def _retract_all(self) -> None:
        for sequence in reversed(self.running):
            sequence.retract()
            self.waiting.appendleft(sequence)
        self.running.clear()

    def _end(self, sequence: SequenceState, finish: dict[str, Any]) -> None:
        sequence.finish = finish
        (self.waiting if sequence in self.waiting else self.running).remove(sequence)
        if sequence.cache is not None:
            self._prefixes.keep(sequence.cache)
        sequence.on_change(sequence)

    # One step.

    def step(self) -> None:
        """Admit, run one pass of the model, and take what it gives."""
        self._admit()
        parts = {sequence: _part(sequence) for sequence in self.running}
        hidden = self._runner.forward(list(parts.values()))
        start = 0
        for sequence, part in parts.items():
            rows = hidden[start : start + len(part.ids)]
            start += len(rows)
            self._take(sequence, rows)

    def _admit(self) -> None:
        # One prompt is read at a time: the next one finds in the cache what it has in common with it.
        while self.waiting and len(self.running) < self._max_running and not any(s.prefilling for s in self.running):
            sequence = self.waiting.popleft()
            sequence.cache = self._cache_for(sequence)
            if not sequence.retractions:
                sequence.cached = sequence.read
            self.running.append(sequence)

    def _cache_for(self, sequence: SequenceState) -> KVCache:
        ask = sequence.ask
        tokens = [*ask.prompt, *sequence.output]
        at_most = min(len(tokens) - 1, ask.logprob_start_len if sequence.scores_prompt else len(tokens))
        running = [each.cache for each in self.running if each.cache is not None]
        return self._prefixes.begin(tokens, at_most=at_most, namespace=ask.namespace, running=running)

    def _take(self, sequence: SequenceState, hidden: Array) -> None:
        """Score the prompt tokens that were read, and sample once everything is read."""
        if sequence.scores_prompt:
            self._score_prompt(sequence, hidden)
        if sequence.read == sequence.length:
            self._sample(sequence, self._runner.logits(hidden[-1:])[0])

    def _score_prompt(self, sequence: SequenceState, hidden: Array) -> None:
        ask, scores = sequence.ask, sequence.input_scores
        start, begin = ask.logprob_start_len, sequence.read - len(hidden)
        if not scores.ids:
            scores.add(ask, ask.prompt[start], None)
        first, last = max(begin, start), min(sequence.read, len(ask.prompt) - 1)
        if first < last:
            rows = log_softmax(self._runner.logits(hidden[first - begin : last - begin]))
            for row, token in zip(rows, ask.prompt[first + 1 : last + 1], strict=True):
                scores.add(ask, token, row)

    def _sample(self, sequence: SequenceState, logits: Array) -> None:
        ask = sequence.ask
        logits = adjust(logits, ask.sampling, sequence.output, self._stop_tokens)
        logprobs = log_probabilities(logits, ask.sampling)
        failed = bool(np.isnan(logprobs).any())
        token = min(self._stop_tokens, default=0) if failed else draw(logprobs, ask.sampling, sequence.rng)
        if ask.sampling.max_new_tokens == 0:
            sequence.output_scores.add_alternatives(ask, logprobs)
            self._end(sequence, {"type": "length", "length": 0})
            return
        sequence.output_scores.add(ask, token, logprobs)
        sequence.append(token, self.weight_version)
        finish = {"type": "stop", "matched": "NaN happened"} if failed else sequence.stops.finish(sequence.output)
        if finish is None:
            sequence.on_change(sequence)
        else:
            self._end(sequence, finish)


def _part(sequence: SequenceState) -> Part:
    assert sequence.cache is not None  # every running sequence was admitted
    return Part(cache=sequence.cache, ids=sequence.unread(CHUNK))

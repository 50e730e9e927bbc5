"""The NumPy side of a `TinyEngine`, put together: checkpoint, runner, scheduler, worker.

Owns how a request becomes a sequence, and how a sequence becomes an answer.
Invariant: an answer is made in the scheduler's thread, from a sequence that nobody else is changing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from strands_sglang.engine.reply import Logprobs, Reply, Triple
from strands_sglang.engine.tiny.ask import Ask, Limits
from strands_sglang.engine.tiny.checkpoint import SHIPPED, ModelConfig, load
from strands_sglang.engine.tiny.runner import Runner
from strands_sglang.engine.tiny.scheduler import Scheduler
from strands_sglang.engine.tiny.sequence import Alternatives, Scores, SequenceState
from strands_sglang.engine.tiny.stops import StopCheck
from strands_sglang.engine.tiny.worker import Mailbox, Worker
from strands_sglang.errors import SGLangBadRequestError

__all__ = ["SHIPPED", "Core"]


class Generation(Mailbox[Reply]):
    """One request that was queued: its answers arrive here, the last one with a finish reason."""

    sequence: SequenceState

    def __init__(self, worker: Worker, scheduler: Scheduler) -> None:
        """Create it inside the event loop that will read it."""
        super().__init__()
        self._worker = worker
        self._scheduler = scheduler

    def abort(self) -> None:
        """End the generation; nothing happens where it has ended."""
        self._worker.post(lambda: self._scheduler.drop(self.sequence))


class Core:
    """A model that is ready to generate."""

    def __init__(self, folder: Path, *, max_running: int, cache_tokens: int, seed: int | None, version: str) -> None:
        """Load the checkpoint in `folder`; see `TinyEngine` for the rest."""
        self.folder = folder
        checkpoint = load(folder)
        self.config: ModelConfig = checkpoint.config
        self.codec = checkpoint.codec
        self.limits = Limits(
            context=checkpoint.config.context, vocabulary=checkpoint.config.vocabulary, encode=checkpoint.codec.encode
        )
        self.scheduler = Scheduler(
            Runner(checkpoint), max_running=max_running, cache_tokens=cache_tokens, weight_version=version
        )
        self.worker = Worker(self.scheduler, on_failure=self._fail)
        self._seeds = np.random.SeedSequence(seed)
        self._going: dict[str, Generation] = {}

    async def start(self, ask: Ask, rid: str) -> Generation:
        """Queue a request.

        Raises:
            SGLangBadRequestError: The id is that of a running request.
        """
        generation = Generation(self.worker, self.scheduler)
        sequence = self._sequence(ask, rid, lambda state: self._report(state, generation))
        generation.sequence = sequence

        def add() -> None:
            self.scheduler.add(sequence)
            self._going[rid] = generation

        try:
            await self.worker.ask(add)
        except asyncio.CancelledError:
            generation.abort()
            raise
        return generation

    def _sequence(self, ask: Ask, rid: str, on_change: Callable[[SequenceState], None]) -> SequenceState:
        seed = ask.sampling.sampling_seed
        rng = np.random.default_rng(self._seeds.spawn(1)[0] if seed is None else abs(seed))
        stops = StopCheck(ask, self.codec, self.config.stop_tokens)
        return SequenceState(ask, rid=rid, stops=stops, rng=rng, on_change=on_change)

    def _report(self, sequence: SequenceState, generation: Generation) -> None:
        if sequence.finish is not None:
            self._going.pop(sequence.rid, None)
            generation.post(self._reply(sequence))
        elif sequence.due:
            sequence.sent = len(sequence.output)
            generation.post(self._reply(sequence))

    def refusal(self, ask: Ask, rid: str, error: SGLangBadRequestError) -> Reply:
        """Return the answer of a stream that is refused after it has begun."""
        finish = {"type": "abort", "message": str(error), "status_code": error.status, "err_type": "BadRequestError"}
        sequence = self._sequence(ask, rid, lambda _: None)
        sequence.finish = finish
        return self._reply(sequence)

    def _fail(self, error: Exception) -> None:
        for generation in self._going.values():
            generation.post(error)
        self._going.clear()

    def _reply(self, sequence: SequenceState) -> Reply:
        ask = sequence.ask
        return Reply(
            rid=sequence.rid,
            text=sequence.stops.text(sequence.output, sequence.finish),
            output_ids=tuple(sequence.output),
            finish=sequence.finish,
            prompt_tokens=len(ask.prompt),
            cached_tokens=sequence.cached,
            weight_version=self.scheduler.weight_version,
            weight_versions=_spans(sequence, self.scheduler.weight_version),
            logprobs=self._logprobs(sequence) if ask.return_logprob else None,
            prompt_token_ids=ask.prompt if ask.return_prompt_token_ids else None,
            retractions=sequence.retractions,
            started=sequence.started,
            queued=sequence.ended_in_queue,
        )

    def _logprobs(self, sequence: SequenceState) -> Logprobs:
        ask, tops = sequence.ask, {}
        sides = {"input": sequence.input_scores, "output": sequence.output_scores}
        for side, scores in sides.items():
            if ask.top_logprobs_num:
                tops[f"{side}_top_logprobs"] = self._rows(ask, scores.tops)
        for side, scores in sides.items():
            if ask.token_ids_logprob is not None:
                tops[f"{side}_token_ids_logprobs"] = self._rows(ask, scores.wanted)
        return Logprobs(
            input=self._triples(ask, _pairs(sides["input"])),
            output=self._triples(ask, _pairs(sides["output"])),
            tops=tops,
        )

    def _rows(self, ask: Ask, rows: Sequence[Alternatives | None]) -> list[list[Triple] | None]:
        return [self._triples(ask, row) if row else None for row in rows]

    def _triples(self, ask: Ask, pairs: Alternatives) -> list[Triple]:
        if not ask.return_text_in_logprobs:
            return [(value, token, None) for value, token in pairs]
        return [(value, token, self.codec.decode([token], skip_special=False)) for value, token in pairs]


def _pairs(scores: Scores) -> Alternatives:
    return list(zip(scores.values, scores.ids, strict=True))


def _spans(sequence: SequenceState, version: str) -> list[dict[str, object]]:
    """Return the versions as spans over the output ids."""
    starts = [0, *(end for _, end in sequence.spans)]
    ran = sequence.spans or [(version, 0)]
    return [{"version": name, "start": start, "end": end} for start, (name, end) in zip(starts, ran, strict=False)]

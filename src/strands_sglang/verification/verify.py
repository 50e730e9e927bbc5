"""`verify`: scores every branch of an episode again on a server, and compares.

Never changes the record. What a server refuses is a finding of the branch concerned, not a crash; only a server that
cannot be reached at all is an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from strands_sglang.client import SGLangClient
from strands_sglang.errors import (
    SGLangAuthError,
    SGLangClientError,
    SGLangConfigError,
    SGLangConnectionError,
    SGLangDecodingError,
    SGLangError,
)
from strands_sglang.rollout import Rollout
from strands_sglang.trajectory import Trajectory
from strands_sglang.wire import GenerateReply, GenerateRequest

from .comparable import Conditions, conditions_of
from .judge import Judge, Scores, without_comparison
from .plan import Judged, ScoringPass, passes, trajectory_of
from .report import TurnReport, Verdict, VerificationReport


async def verify(
    record: Trajectory | Rollout,
    client: SGLangClient,
    *,
    tolerance: float = 1e-3,
    tokenizer: Any = None,
    vocab_size: int | None = None,
    top_logprobs: int = 20,
    concurrency: int = 8,
) -> VerificationReport:
    """Score every branch again, in one prefill each, and compare what was recorded.

    Values of a second pass are at temperature 1. A turn sampled at another one is compared through the likeliest
    tokens where these tell its values to within the tolerance, and is otherwise not comparable; under a grammar, a
    bias, a penalty or with images it never is. Prompt tokens are not compared.

    Args:
        record: An episode, or one branch.
        client: A client of a server with the weights that sampled it.
        tolerance: The largest difference that counts as agreement; below temperature 1 it is divided by that.
        tokenizer: Decodes the neighbourhood of a difference; its length is taken for the vocabulary's size where
            neither `vocab_size` nor the client knows it.
        vocab_size: How many ids the model has. A branch with others is not sent: they kill a server.
        top_logprobs: How many of the likeliest tokens are asked for where a turn was sampled at another temperature;
            0 for none.
        concurrency: Branches on their way at once.

    Returns:
        One report per turn, and totals.

    Raises:
        SGLangConfigError: If an argument cannot be meant.
        SGLangConnectionError: If the server gives no answer at all.
        SGLangAuthError: If it asks for a key.
    """
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise SGLangConfigError(f"tolerance must be a finite number of more than 0, got {tolerance}")
    if top_logprobs < 0 or concurrency < 1:
        raise SGLangConfigError("top_logprobs must be 0 or more, and concurrency 1 or more")
    if vocab_size is not None and vocab_size < 1:
        raise SGLangConfigError(f"vocab_size must be 1 or more, got {vocab_size}")
    trajectory = trajectory_of(record) if isinstance(record, Rollout) else record
    info = await _model_info(client)
    preferred = info.get("preferred_sampling_params")
    scoring = _Scoring(
        client=client,
        judge=Judge(tolerance=tolerance, vocab_size=vocab_size or client.vocab_size, tokenizer=tokenizer),
        vocab_size=vocab_size or client.vocab_size or (len(tokenizer) if hasattr(tokenizer, "__len__") else None),
        top_logprobs=top_logprobs,
        defaults=preferred if isinstance(preferred, Mapping) else {},
        weight_version=info.get("weight_version"),
        free=asyncio.Semaphore(concurrency),
    )
    reports = await asyncio.gather(*(scoring.reports(branch) for branch in passes(trajectory)))
    return VerificationReport(
        trajectory_id=trajectory.id,
        tolerance=tolerance,
        weight_version=info.get("weight_version"),
        branches=len(trajectory.leaves),
        turns=tuple(sorted(chain.from_iterable(reports), key=lambda report: report.turn)),
    )


async def _model_info(client: SGLangClient) -> Mapping[str, Any]:
    """Return what the server says of its model; nothing where it is none that says."""
    try:
        return await client.model_info()
    except (SGLangConnectionError, SGLangAuthError):
        raise
    except SGLangClientError:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scoring:
    """What all passes have in common."""

    client: SGLangClient
    judge: Judge
    vocab_size: int | None
    top_logprobs: int
    defaults: Mapping[str, Any]
    weight_version: str | None
    free: asyncio.Semaphore

    async def reports(self, branch: ScoringPass) -> list[TurnReport]:
        """Score one branch and report its turns."""
        conditions = [self._conditions(judged, branch) for judged in branch.judged]
        wanted = [one for one, under in zip(branch.judged, conditions, strict=True) if _is_wanted(one, under)]
        scores: Scores | None = None
        refused = ""
        if wanted:
            tempered = any(under.temperature != 1 for under in conditions)
            try:
                async with self.free:
                    scores = await self._scores(branch, wanted[0].begin, wanted[-1].end, tempered)
            except SGLangError as error:
                refused = f"{type(error).__name__}: {error}"
        return [
            self._report(judged, branch, under, scores, refused)
            for judged, under in zip(branch.judged, conditions, strict=True)
        ]

    def _conditions(self, judged: Judged, branch: ScoringPass) -> Conditions:
        if branch.has_images:
            return Conditions(obstacle="images stand in the branch, which the server expands to positions of its own")
        under = conditions_of(judged.turn, defaults=self.defaults)
        if under.temperature != 1 and not self.top_logprobs and under.obstacle is None:
            return Conditions(temperature=under.temperature, obstacle=f"sampled at temperature {under.temperature}")
        return under

    def _report(
        self, judged: Judged, branch: ScoringPass, under: Conditions, scores: Scores | None, refused: str
    ) -> TurnReport:
        tolerance, temperature = self.judge.tolerance, under.temperature
        if scores is not None and _is_wanted(judged, under):
            return self.judge.report(judged, branch, under, scores)
        if not len(judged.turn.sampled):
            verdict, reason = Verdict.AGREES, ""
        elif under.obstacle is None and refused:
            verdict, reason = Verdict.UNSCORED, refused
        elif under.obstacle is None:
            verdict, reason = Verdict.MISSING, "no log-probability was recorded"
        else:
            verdict, reason = Verdict.NOT_COMPARABLE, under.obstacle
        return without_comparison(judged, branch, verdict, reason, tolerance=tolerance, temperature=temperature)

    async def _scores(self, branch: ScoringPass, begin: int, end: int, tempered: bool) -> Scores:
        """Ask for the log-probabilities of the positions from `begin` to before `end`."""
        ids = branch.ids[:end]
        if self.vocab_size is not None and (highest := max(ids)) >= self.vocab_size:
            raise SGLangConfigError(
                f"the branch holds id {highest} at position {ids.index(highest)}, but the model has "
                f"{self.vocab_size} ids: it is another model's"
            )
        extra = {"top_logprobs_num": self.top_logprobs} if tempered and self.top_logprobs else {}
        # The first value of a span is always null, so the span begins one token early.
        request = GenerateRequest(
            input_ids=ids,
            sampling_params={"max_new_tokens": 0, "temperature": 1.0},
            logprob_start_len=begin - 1,
            extra=extra,
        )
        reply = await self.client.send(request)
        if reply.input_logprobs is None or len(reply.input_logprobs) != end - begin + 1:
            raise SGLangDecodingError("the server did not score the prompt", url=reply.url, rid=reply.rid)
        version = _meta(reply).get("weight_version", self.weight_version)
        return Scores(
            start=begin - 1,
            values=reply.input_logprobs,
            likeliest=_likeliest(reply, end - begin + 1) if extra else (),
            weight_version=None if version is None else str(version),
        )


def _is_wanted(judged: Judged, under: Conditions) -> bool:
    """Whether there is anything to compare in a turn."""
    return under.obstacle is None and any(value is not None for value in judged.turn.sampled.logprob_list())


def _meta(reply: GenerateReply) -> Mapping[str, Any]:
    return reply.raw.get("meta_info") or {}


def _likeliest(reply: GenerateReply, count: int) -> Sequence[Mapping[int, float]]:
    """Return the likeliest tokens of each position, empty where the server names none."""
    rows = _meta(reply).get("input_top_logprobs") or []
    if len(rows) != count:
        return ()
    return [{int(token): float(value) for value, token, *_ in row or () if value is not None} for row in rows]

"""From logits to a token and its log-probability, with SGLang's meaning.

Owns penalties, bias, temperature, truncation and the draw.
Invariant: log-probabilities are log_softmax(adjusted logits / temperature) over the whole vocabulary, taken before
top-k, top-p and min-p; greedy ones at temperature 1. Adjusted means after penalties, the ban on early stops, and bias.
A token outside the truncated support is never drawn.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from strands_sglang.engine.tiny.checkpoint import Array
from strands_sglang.engine.tiny.runner import log_softmax
from strands_sglang.engine.tiny.sampling import Sampling

LEAST = float(np.finfo(np.float32).min)
"""What minus infinity is reported as."""


def adjust(logits: Array, sampling: Sampling, output: Sequence[int], stop_tokens: Set[int]) -> Array:
    """Return the logits after penalties, the ban on early stops, and bias.

    Additive penalties come before the multiplicative one, as in SGLang's overlapped schedule, its default. In its other
    schedule the order of the two differs from one start of the server to the next.
    """
    if sampling.penalises:
        logits = _penalise(logits, sampling, output)
    if len(output) < sampling.min_new_tokens:
        logits = logits.copy()
        logits[list(stop_tokens | sampling.stop_token_ids)] = -np.inf
    if sampling.logit_bias:
        logits = logits.copy()
        logits[list(sampling.logit_bias)] += np.array(list(sampling.logit_bias.values()), np.float32)
    return logits


def _penalise(logits: Array, sampling: Sampling, output: Sequence[int]) -> Array:
    seen, times = np.unique(np.array(output, np.intp), return_counts=True)
    logits = logits.copy()
    logits[seen] -= (sampling.frequency_penalty * times + sampling.presence_penalty).astype(np.float32)
    scale = np.float32(sampling.repetition_penalty)
    logits[seen] = np.where(logits[seen] < 0, logits[seen] * scale, logits[seen] / scale)
    return logits


def log_probabilities(logits: Array, sampling: Sampling) -> Array:
    """Return the log-probabilities that are reported, and that the draw starts from."""
    return log_softmax(logits if sampling.greedy else logits / np.float32(sampling.temperature))


def draw(logprobs: Array, sampling: Sampling, rng: np.random.Generator) -> int:
    """Return one token."""
    if sampling.greedy:
        return int(logprobs.argmax())
    weights = np.exp(logprobs)
    if sampling.truncates:
        weights = truncate(weights, sampling)
    # The first index whose sum exceeds a number below the total: an index of weight zero can never be that one.
    sums = np.cumsum(weights, dtype=np.float64)
    drawn = min(rng.random() * sums[-1], np.nextafter(sums[-1], 0))
    return int(np.searchsorted(sums, drawn, side="right"))


def truncate(weights: Array, sampling: Sampling) -> Array:
    """Return the probabilities with those outside top-k, top-p and min-p set to zero, not normalised again."""
    order = np.argsort(-weights, kind="stable")
    ranked = weights[order]
    before = np.cumsum(ranked) - ranked
    keep = (np.arange(len(ranked)) < sampling.top_k) & (before <= sampling.top_p)
    keep &= ranked >= ranked[0] * np.float32(sampling.min_p)
    kept = np.zeros_like(weights)
    kept[order[keep]] = ranked[keep]
    return kept


def reported(logprob: float) -> float | None:
    """Return a log-probability as the wire has it: never minus infinity, and null where it is no number."""
    return None if np.isnan(logprob) else max(float(logprob), LEAST)


def top(logprobs: Array, count: int) -> list[tuple[float, int]]:
    """Return the `count` likeliest tokens with their log-probabilities, best first."""
    best = np.argsort(-logprobs, kind="stable")[:count]
    return [(max(float(logprobs[token]), LEAST), int(token)) for token in best]

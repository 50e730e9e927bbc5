from __future__ import annotations

import math
import random
import struct

import pytest

from strands_sglang.verification.tempered import bounds

TOKENS = 600


def single(value: float) -> float:
    """Round as a server does that computes in 32 bits."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def log_softmax(logits: list[float]) -> list[float]:
    total = math.log(math.fsum(map(math.exp, logits)))
    return [logit - total for logit in logits]


@pytest.mark.parametrize("temperature", [0.3, 0.6, 1.4, 3.0])
@pytest.mark.parametrize("named", [1, 5, 20, 300, TOKENS])
@pytest.mark.parametrize("vocab_size", [TOKENS, None])
@pytest.mark.parametrize("noise", [0.0, 1e-6, -1e-6])
def test_the_value_is_within_its_bounds_whatever_rounding_did(
    temperature: float, named: int, vocab_size: int | None, noise: float
) -> None:
    chance = random.Random(named)
    for scale in (1.0, 5.0, 12.0):
        logits = [chance.gauss(0, scale) for _ in range(TOKENS)]
        # All of them are off in one direction, as where the normaliser was rounded.
        told = [single(value + noise) for value in log_softmax(logits)]
        true = log_softmax([logit / temperature for logit in logits])
        order = sorted(range(TOKENS), key=told.__getitem__, reverse=True)
        likeliest = {token: told[token] for token in order[:named]}
        for token in (order[0], order[3], chance.randrange(TOKENS)):
            low, high = bounds(token, told[token], likeliest, temperature=temperature, vocab_size=vocab_size)
            assert low - 2e-5 <= true[token] <= high + 2e-5


def test_with_all_tokens_named_the_bounds_are_one_value() -> None:
    told = log_softmax([float(token % 7) for token in range(TOKENS)])
    low, high = bounds(3, told[3], dict(enumerate(told)), temperature=1.4, vocab_size=TOKENS)
    assert low == high

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


@pytest.mark.parametrize("temperature", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("vocab_size", [TOKENS, None])
def test_at_a_small_temperature_the_bounds_are_close(temperature: float, vocab_size: int | None) -> None:
    told = log_softmax([float(token % 7) for token in range(0, TOKENS - 1)] + [9.0])
    likeliest = {token: told[token] for token in sorted(range(TOKENS), key=told.__getitem__)[-20:]}

    for token, true in ((TOKENS - 1, 0.0), (6, -3.0 / temperature), (0, -9.0 / temperature)):
        low, high = bounds(token, told[token], likeliest, temperature=temperature, vocab_size=vocab_size)
        assert low <= high
        assert low == pytest.approx(true, rel=1e-6)
        assert high == pytest.approx(true, rel=1e-6)


ODD = (0.0, -1e-30, -1.0, -800.0, -3.4e38, 1.0, 1e10)


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 0.5, 2.0, 1e9, 2.0**62])
@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("told", [(0.0,), (-800.0,), (-3.4e38,), (1e10,), (-1.0, -3.4e38), ODD])
def test_no_value_that_a_server_may_give_is_a_crash(temperature: float, value: float, told: tuple[float, ...]) -> None:
    for vocab_size in (1, 7, None):
        low, high = bounds(99, value, dict(enumerate(told)), temperature=temperature, vocab_size=vocab_size)
        assert isinstance(low, float)
        assert isinstance(high, float)

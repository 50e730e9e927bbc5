"""The sampler: support, log-probabilities, penalties, bias, and the draw itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.engine.tiny.checkpoint import Array
from strands_sglang.engine.tiny.sampler import LEAST, adjust, draw, log_probabilities, reported, top, truncate
from strands_sglang.engine.tiny.sampling import Sampling

from . import reference

VOCABULARY = 12
LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=VOCABULARY, max_size=VOCABULARY).map(
    lambda values: np.array(values, np.float32)
)
TEMPERATURES = st.floats(0.1, 5)
SAMPLINGS = st.builds(
    Sampling,
    temperature=TEMPERATURES,
    top_p=st.floats(0.01, 1),
    top_k=st.integers(1, VOCABULARY + 2),
    min_p=st.floats(0, 1),
)


def drawn(logits: Array, sampling: Sampling, count: int) -> list[int]:
    rng = np.random.default_rng(0)
    logprobs = log_probabilities(logits, sampling)
    return [draw(logprobs, sampling, rng) for _ in range(count)]


@settings(max_examples=80, deadline=None)
@given(logits=LOGITS, sampling=SAMPLINGS)
def test_nothing_outside_top_k_top_p_and_min_p_is_drawn(logits: Array, sampling: Sampling) -> None:
    probabilities = np.exp(log_probabilities(logits, sampling).astype(np.float64))
    order = sorted(range(VOCABULARY), key=lambda token: -probabilities[token])

    for token in drawn(logits, sampling, 5):
        likelier = [other for other in order if probabilities[other] > probabilities[token]]
        assert len(likelier) < sampling.top_k
        assert probabilities[likelier].sum() <= sampling.top_p + 1e-5
        assert sampling.greedy or probabilities[token] >= sampling.min_p * probabilities.max() * (1 - 1e-5)


@settings(max_examples=50, deadline=None)
@given(logits=LOGITS, sampling=SAMPLINGS)
def test_the_likeliest_token_is_always_kept(logits: Array, sampling: Sampling) -> None:
    probabilities = np.exp(log_probabilities(logits, sampling))

    assert truncate(probabilities, sampling)[probabilities.argmax()] == probabilities.max()


@settings(max_examples=50, deadline=None)
@given(logits=LOGITS, sampling=SAMPLINGS)
def test_logprobs_are_those_of_the_full_tempered_distribution(logits: Array, sampling: Sampling) -> None:
    temperature = 1.0 if sampling.greedy else sampling.temperature

    expected = reference.log_softmax(logits.astype(np.float64) / temperature)

    assert log_probabilities(logits, sampling) == pytest.approx(expected, abs=1e-4)


def test_greedy_takes_the_likeliest_at_temperature_one() -> None:
    logits = np.array([0.0, 3.0, 1.0], np.float32)

    for sampling in (Sampling(temperature=0), Sampling(temperature=0.5, top_k=1)):
        assert drawn(logits, sampling, 3) == [1, 1, 1]
        assert log_probabilities(logits, sampling) == pytest.approx(reference.log_softmax(logits.astype(np.float64)))


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))

    shares = np.bincount(drawn(logits, Sampling(), 4000), minlength=4) / 4000

    assert shares == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)


def test_a_token_of_probability_zero_is_never_drawn_not_even_at_the_end() -> None:
    class Last(np.random.Generator):
        def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
            return float(np.nextafter(1, 0))

    logits = np.array([1.0, 2.0, -np.inf], np.float32)
    sampling = Sampling()

    assert draw(log_probabilities(logits, sampling), sampling, Last(np.random.PCG64(0))) == 1


def test_penalties_and_bias_are_applied_in_the_servers_order() -> None:
    logits = np.array([1.0, 2.0, -1.0, 0.5], np.float32)
    sampling = Sampling(
        frequency_penalty=0.5, presence_penalty=0.25, repetition_penalty=2.0, logit_bias={3: 4.0, 1: 1.0}
    )

    adjusted = adjust(logits, sampling, [1, 1, 2], frozenset())

    assert adjusted == pytest.approx([1.0, (2.0 - 0.5 * 2 - 0.25) / 2 + 1.0, (-1.0 - 0.5 - 0.25) * 2, 4.5])
    assert logits == pytest.approx([1.0, 2.0, -1.0, 0.5])


def test_stop_tokens_cannot_be_drawn_before_the_least_number_of_tokens() -> None:
    sampling = Sampling(min_new_tokens=2, stop_token_ids=frozenset({0}))

    early = adjust(np.zeros(4, np.float32), sampling, [3], frozenset({1}))
    late = adjust(np.zeros(4, np.float32), sampling, [3, 3], frozenset({1}))

    assert early.tolist() == [-np.inf, -np.inf, 0.0, 0.0]
    assert late.tolist() == [0.0] * 4


def test_reported_values_are_never_infinite_and_null_where_there_is_none() -> None:
    assert reported(-np.inf) == LEAST
    assert reported(np.nan) is None
    assert reported(-0.5) == -0.5


def test_the_likeliest_tokens_are_listed_best_first() -> None:
    assert top(np.array([-3.0, -1.0, -2.0], np.float32), 2) == [(-1.0, 1), (-2.0, 2)]

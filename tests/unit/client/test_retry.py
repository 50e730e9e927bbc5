"""`RetryPolicy`: what is tried again, when, and until when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.errors import (
    SGLangAuthError,
    SGLangBadRequestError,
    SGLangClientError,
    SGLangConfigError,
    SGLangConnectionError,
    SGLangContextLengthError,
    SGLangDecodingError,
    SGLangDuplicateRequestError,
    SGLangGenerationError,
    SGLangIncompleteAnswerError,
    SGLangNotFoundError,
    SGLangServerError,
    SGLangThrottledError,
    SGLangTimeoutError,
)
from strands_sglang.retry import RetryPolicy

REFUSED = SGLangConnectionError("refused")
CUT = SGLangIncompleteAnswerError("cut")
BUSY = SGLangThrottledError("busy", status=503)
CRASH = SGLangServerError("crash", status=500)
GATEWAY = SGLangServerError("no worker", status=502)
PLAIN = RetryPolicy(jitter=0.0, base_delay=1.0, max_delay=8.0)


@pytest.mark.parametrize(
    "error",
    [REFUSED, CUT, BUSY, CRASH, GATEWAY, SGLangTimeoutError("slow"), SGLangDuplicateRequestError("dup", status=400)],
)
def test_what_may_succeed_the_next_time_is_tried_again(error: SGLangClientError) -> None:
    assert PLAIN.next_delay([error]) == 1.0


@pytest.mark.parametrize(
    "error",
    [
        SGLangBadRequestError("bad", status=400),
        SGLangContextLengthError("long", status=400),
        SGLangAuthError("key", status=401),
        SGLangNotFoundError("where", status=404),
        SGLangDecodingError("what"),
        SGLangGenerationError("NaN"),
    ],
)
def test_what_is_wrong_with_the_request_or_the_answer_is_never_tried_again(error: SGLangClientError) -> None:
    assert PLAIN.next_delay([error]) is None


def test_delays_double_up_to_a_limit() -> None:
    assert [PLAIN.next_delay([BUSY] * attempts) for attempts in range(1, 6)] == [1, 2, 4, 8, 8]


def test_a_very_late_retry_has_a_finite_delay() -> None:
    assert RetryPolicy(max_retries=5000, jitter=0.0).next_delay([BUSY] * 4000) == RetryPolicy().max_delay


@given(st.floats(0, 1), st.integers(1, 20))
def test_jitter_only_shortens_a_delay(chance: float, attempts: int) -> None:
    policy = RetryPolicy(base_delay=1.0, max_delay=8.0, jitter=0.5)

    delay = policy.next_delay([BUSY] * attempts, chance=chance)
    longest = PLAIN.next_delay([BUSY] * attempts)
    assert delay is not None
    assert longest is not None
    assert longest / 2 <= delay <= longest


def test_the_servers_own_wish_counts_up_to_the_limit_and_is_never_shortened() -> None:
    asked = [SGLangThrottledError("busy", status=429, retry_after=seconds) for seconds in (3.0, 99.0)]

    assert [PLAIN.next_delay([error]) for error in asked] == [3.0, 8.0]
    late = RetryPolicy(jitter=0.5).next_delay(asked[:1], chance=1.0)
    assert late is not None
    assert late >= 3.0


@given(st.floats(0, 1), st.integers(1, 20), st.floats(0, 30))
def test_what_the_server_asks_for_never_shortens_a_delay(chance: float, attempts: int, seconds: float) -> None:
    policy = RetryPolicy(base_delay=1.0, max_delay=8.0)
    asked = SGLangThrottledError("busy", status=503, retry_after=seconds)

    delay = policy.next_delay([asked] * attempts, chance=chance)
    own = policy.next_delay([BUSY] * attempts, chance=chance)
    assert delay is not None
    assert own is not None
    assert delay >= max(own, min(seconds, 8.0))


def test_a_server_that_asks_for_no_time_at_all_gets_the_usual_one() -> None:
    now = SGLangThrottledError("busy", status=503, retry_after=0.0)

    assert [PLAIN.next_delay([now] * attempts) for attempts in range(1, 6)] == [1, 2, 4, 8, 8]


def test_the_number_of_retries_is_bounded() -> None:
    policy = RetryPolicy(max_retries=2)

    assert policy.next_delay([BUSY] * 2) is not None
    assert policy.next_delay([BUSY] * 3) is None
    assert RetryPolicy(max_retries=0).next_delay([BUSY]) is None


def test_a_delay_that_would_outlive_the_deadline_is_not_waited_for() -> None:
    assert PLAIN.next_delay([BUSY], remaining=1.5) == 1.0
    assert PLAIN.next_delay([BUSY], remaining=1.0) is None


@pytest.mark.parametrize("costly", [CRASH, CUT])
def test_what_costs_a_server_or_a_generation_is_repeated_few_times(costly: SGLangClientError) -> None:
    policy = RetryPolicy(max_costly=2)

    assert policy.next_delay([costly, BUSY, costly]) is not None
    assert policy.next_delay([costly, BUSY, costly, costly]) is None
    assert policy.next_delay([costly, costly, costly, BUSY]) is not None


@pytest.mark.parametrize("patient", [BUSY, GATEWAY, REFUSED])
def test_what_costs_nothing_is_repeated_patiently(patient: SGLangClientError) -> None:
    assert RetryPolicy(max_costly=2).next_delay([patient] * 30) is not None


def test_a_server_that_never_answered_gets_less_patience() -> None:
    policy = RetryPolicy(max_first_contacts=3)

    assert policy.next_delay([REFUSED] * 3, first_contacts=3) is not None
    assert policy.next_delay([REFUSED] * 4, first_contacts=4) is None
    assert policy.next_delay([REFUSED] * 4) is not None


def test_first_contacts_are_those_of_each_server_and_so_are_their_delays() -> None:
    assert [PLAIN.next_delay([REFUSED] * 12, first_contacts=n) for n in range(5)] == [1.0, 1.0, 2.0, 4.0, None]
    assert PLAIN.next_delay([BUSY] * 2, first_contacts=9) == 2.0


@pytest.mark.parametrize("field", ["max_retries", "base_delay", "max_delay", "max_costly", "max_first_contacts"])
def test_negative_values_are_refused(field: str) -> None:
    with pytest.raises(SGLangConfigError, match=field):
        RetryPolicy(**{field: -1})


@pytest.mark.parametrize("jitter", [-0.1, 1.1])
def test_jitter_is_a_share(jitter: float) -> None:
    with pytest.raises(SGLangConfigError, match="jitter"):
        RetryPolicy(jitter=jitter)

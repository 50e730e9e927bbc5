"""`RetryPolicy`: whether to send a request again, and when.

Pure: it is asked with the failures of a call so far and answers with a delay or None; it reads no clock, draws no
random number and sleeps nowhere. A call ends by whichever comes first: the number of retries, or the deadline over
all its attempts.

It never retries what was wrong with the request itself, and never what may be a different answer the second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import (
    SGLangClientError,
    SGLangConfigError,
    SGLangConnectionError,
    SGLangHTTPError,
    SGLangIncompleteAnswerError,
    SGLangServerError,
)

_BUSY_STATUSES = frozenset({502, 504})  # a gateway without a worker behind it: as patient as with 503


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long and how patiently to retry.

    Attributes:
        max_retries: Retries of one call at most; 0 for none.
        base_delay: Seconds before the first retry; doubled for each further one.
        max_delay: Upper limit of a delay, also of one that the server asks for with `Retry-After`. What it asks for
            makes a delay longer, never shorter.
        jitter: Share of a delay that is drawn at random, 0 to 1, so that many callers do not come back at once.
        max_costly: Retries at most after a server error (500) or an answer that broke off: a request that crashes a
            server should not be fed to it for ever, nor a long generation be made again and again.
        max_first_contacts: Retries of each server at most while none has ever answered at all: their addresses may be
            wrong.
    """

    max_retries: int = 60
    base_delay: float = 0.5
    max_delay: float = 15.0
    jitter: float = 0.5
    max_costly: int = 3
    max_first_contacts: int = 3

    def __post_init__(self) -> None:
        """Refuse values that cannot be meant."""
        for name in ("max_retries", "base_delay", "max_delay", "max_costly", "max_first_contacts"):
            if getattr(self, name) < 0:
                raise SGLangConfigError(f"RetryPolicy: {name} must be 0 or more, got {getattr(self, name)}")
        if not 0 <= self.jitter <= 1:
            raise SGLangConfigError(f"RetryPolicy: jitter must be between 0 and 1, got {self.jitter}")

    def next_delay(
        self,
        failures: Sequence[SGLangClientError],
        *,
        first_contacts: int | None = None,
        remaining: float | None = None,
        chance: float = 0.0,
    ) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up.

        Args:
            failures: The failures of this call so far, in order; the last one is to be decided about.
            first_contacts: Attempts of this call at each server, or at the one asked least; None once one of them has
                ever answered anything.
            remaining: Seconds until the deadline, or None without one.
            chance: A random number from 0 to 1.
        """
        last = failures[-1]
        if not last.retryable or len(failures) > self.max_retries:
            return None
        if _is_costly(last) and sum(map(_is_costly, failures)) > self.max_costly:
            return None
        attempts = len(failures)
        if first_contacts is not None and isinstance(last, SGLangConnectionError):
            if first_contacts > self.max_first_contacts:
                return None
            attempts = max(1, first_contacts)
        delay = self._delay(last, attempts, chance)
        return delay if remaining is None or delay < remaining else None

    def _delay(self, failure: SGLangClientError, attempts: int, chance: float) -> float:
        # 2.0**1000 still fits a float; beyond that the limit holds anyway.
        delay = min(self.base_delay * 2.0 ** min(attempts - 1, 1000), self.max_delay) * (1 - self.jitter * chance)
        asked = failure.retry_after if isinstance(failure, SGLangHTTPError) else None
        if asked is None:
            return delay
        # "0" is what some servers and proxies send for "soon": all retries would be used up at once.
        return max(delay, min(asked, self.max_delay) * (1 + self.jitter * chance))


def _is_costly(failure: SGLangClientError) -> bool:
    if isinstance(failure, SGLangServerError):
        return failure.status not in _BUSY_STATUSES
    return isinstance(failure, SGLangIncompleteAnswerError)

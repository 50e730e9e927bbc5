"""What a log-probability at temperature 1 must have been at another temperature.

It takes the logits of every token; a server gives the likeliest. What all the others can add is bounded from both
sides, so that the value lies in an interval, and where that is narrow the comparison is as good as exact.
Invariant: the true value is within the interval, whatever the tokens are that the server did not name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_LARGEST_VOCABULARY = 1 << 20
_ROUNDING = 1e-5
"""How far the probabilities of all tokens, from a server's 32-bit logarithms, may add up to something other than 1."""
_LARGEST_POWER = 700.0


def bounds(
    token: int, value: float, likeliest: Mapping[int, float], *, temperature: float, vocab_size: int | None
) -> tuple[float, float]:
    """Return the least and the greatest that the token's log-probability can be at a temperature.

    Args:
        token: The token's id.
        value: Its log-probability at temperature 1.
        likeliest: Log-probabilities at temperature 1 of the likeliest tokens, at least one.
        temperature: The other temperature.
        vocab_size: How many tokens there are; None where that is not known.
    """
    power = 1.0 / temperature
    named = {**likeliest, token: value}
    # Counted from the likeliest of them: at a small temperature the powers themselves are too small for a float.
    top, lowest = max(named.values()), min(likeliest.values())
    total = math.fsum(_exp((each - top) * power) for each in named.values())
    unnamed = max(0, (vocab_size or _LARGEST_VOCABULARY) - len(named))
    # What the named ones leave to 1 may be rounding alone: no token need have it, and tokens may have more.
    left = 1.0 - math.fsum(map(_exp, named.values()))
    mass_least, mass_most = (max(0.0, left - _ROUNDING), max(0.0, left) + _ROUNDING) if unnamed else (0.0, 0.0)
    # None of the unnamed is likelier than the least likely of those named.
    cap = _exp((lowest - top) * power - lowest)
    if power > 1:
        least, most = 0.0, cap * mass_most
    else:
        least, most = cap * mass_least, unnamed ** (1.0 - power) * mass_most**power * _exp(-top * power)
    above = (value - top) * power
    return above - math.log(total + most), above - math.log(total + least)


def _exp(value: float) -> float:
    """Return e to a power, infinite where a float cannot hold it: then nothing can be told, which is no crash."""
    return math.exp(value) if value < _LARGEST_POWER else math.inf

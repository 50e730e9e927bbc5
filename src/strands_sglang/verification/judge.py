"""Compares the recorded log-probabilities of one turn with those of a second pass.

Invariant: each sampled token is counted once: compared, missing or not comparable. Never asks a server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.trajectory import Turn

from .comparable import Conditions
from .plan import Judged, ScoringPass
from .report import Difference, TurnReport, Verdict
from .tempered import bounds

# Tokens of text shown before and after a difference.
_BEFORE, _AFTER = 12, 6
_UNTEMPERED = (
    "the recorded values are those of temperature 1, which a server that was started with "
    "SGLANG_RETURN_ORIGINAL_LOGPROB=1 gives for every temperature"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a second pass gave for the last positions of a branch.

    Attributes:
        start: Position of the first value.
        values: Log-probabilities at temperature 1; None where the server gave none.
        likeliest: The likeliest tokens with theirs, per position; empty where they were not asked for.
        weight_version: The server's name of the weights that scored; None where it does not say.
    """

    start: int
    values: Sequence[float | None]
    likeliest: Sequence[Mapping[int, float]] = ()
    weight_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How values are compared.

    Attributes:
        tolerance: The largest difference that counts as agreement, at temperature 1.
        vocab_size: How many ids there are, or None.
        tokenizer: Decodes the neighbourhood of a difference; None for no text.
    """

    tolerance: float
    vocab_size: int | None = None
    tokenizer: Any = None

    def report(self, judged: Judged, branch: ScoringPass, conditions: Conditions, scores: Scores) -> TurnReport:
        """Compare one turn.

        Args:
            judged: The turn and its place in the branch.
            branch: The pass that scored it.
            conditions: How it was sampled; without an obstacle.
            scores: What the pass gave.
        """
        turn = judged.turn
        # A logit's error is divided by the temperature with the logit.
        tolerance = self.tolerance * max(1.0, 1.0 / conditions.temperature)
        pairs: list[tuple[int, float, float]] = []
        missing = not_comparable = unscored = 0
        for offset, recorded in enumerate(turn.sampled.logprob_list()):
            if recorded is None:
                missing += 1
                continue
            at = judged.begin + offset
            if scores.values[at - scores.start] is None:
                unscored += 1
                continue
            again = self._again(at, branch.ids[at], recorded, scores, conditions.temperature, tolerance)
            if again is None:
                not_comparable += 1
            else:
                pairs.append((offset, recorded, again))
        first = next((pair for pair in pairs if not abs(pair[1] - pair[2]) <= tolerance), None)
        found = None if first is None else self._difference(judged, branch.ids, first)
        verdict, reason = _verdict(turn, scores, bool(pairs), found, missing, not_comparable, unscored)
        if verdict is Verdict.DIFFERS and conditions.temperature != 1 and self._is_untempered(judged, scores):
            reason = _UNTEMPERED
        return TurnReport(
            **identity(judged, branch),
            verdict=verdict,
            reason=reason,
            compared=len(pairs),
            missing=missing,
            not_comparable=not_comparable,
            unscored=unscored,
            **_statistics(pairs),
            tolerance=tolerance,
            first=found,
            temperature=conditions.temperature,
        )

    def _again(
        self, at: int, token: int, recorded: float, scores: Scores, temperature: float, tolerance: float
    ) -> float | None:
        """Return the scored value at the turn's temperature; None where it cannot be told closely enough."""
        value = scores.values[at - scores.start]
        if value is None or temperature == 1:
            return value
        likeliest = scores.likeliest[at - scores.start] if scores.likeliest else {}
        if not likeliest:
            return None
        least, most = bounds(token, value, likeliest, temperature=temperature, vocab_size=self.vocab_size)
        # The nearest value that it can have been. Bounds that contradict each other tell nothing.
        return min(max(recorded, least), most) if abs(most - least) <= tolerance else None

    def _is_untempered(self, judged: Judged, scores: Scores) -> bool:
        """Whether all values are those of temperature 1."""
        pairs = (
            (recorded, scores.values[judged.begin + offset - scores.start])
            for offset, recorded in enumerate(judged.turn.sampled.logprob_list())
        )
        return all(one is None or other is None or abs(one - other) <= self.tolerance for one, other in pairs)

    def _difference(self, judged: Judged, ids: Sequence[int], pair: tuple[int, float, float]) -> Difference:
        offset, recorded, again = pair
        at = judged.begin + offset
        return Difference(
            position=at,
            offset=offset,
            token_id=ids[at],
            recorded=recorded,
            rescored=again,
            before=self._text(ids[max(0, at - _BEFORE) : at]),
            token=self._text(ids[at : at + 1]),
            after=self._text(ids[at + 1 : at + 1 + _AFTER]),
        )

    def _text(self, ids: Sequence[int]) -> str | None:
        if self.tokenizer is None:
            return None
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False)) if ids else ""


def without_comparison(
    judged: Judged, branch: ScoringPass, verdict: Verdict, reason: str, *, tolerance: float, temperature: float = 1.0
) -> TurnReport:
    """Report a turn of which nothing was compared."""
    missing = sum(value is None for value in judged.turn.sampled.logprob_list())
    rest = len(judged.turn.sampled) - missing
    unmeasured = missing > 0 and not rest and verdict is not Verdict.UNSCORED
    return TurnReport(
        **identity(judged, branch),
        verdict=Verdict.MISSING if unmeasured else verdict,
        reason="no log-probability was recorded" if unmeasured else reason,
        missing=missing,
        not_comparable=rest if verdict is Verdict.NOT_COMPARABLE else 0,
        unscored=rest if verdict is not Verdict.NOT_COMPARABLE else 0,
        tolerance=tolerance,
        temperature=temperature,
    )


def identity(judged: Judged, branch: ScoringPass) -> dict[str, Any]:
    """Return which turn a report is of."""
    return {
        "turn": judged.turn.index,
        "leaf": branch.leaf.index,
        "position": judged.begin,
        "tokens": len(judged.turn.sampled),
        "weight_versions": tuple(dict.fromkeys(version for version, _, _ in judged.turn.sampled.weight_spans)),
    }


def _statistics(pairs: Sequence[tuple[int, float, float]]) -> dict[str, Any]:
    if not pairs:
        return {"largest": None, "mean": None, "kl": None}
    off = [again - recorded for _, recorded, again in pairs]
    return {
        "largest": max(map(abs, off)),
        "mean": math.fsum(map(abs, off)) / len(off),
        "kl": math.fsum(_k3(off)) / len(off),
    }


def _k3(off: Sequence[float]) -> Iterator[float]:
    for value in off:
        # A record that is off by hundreds of nats is off; its estimate need not be finite to say so.
        yield math.expm1(min(value, 700.0)) - value


def _verdict(
    turn: Turn, scores: Scores, compared: bool, found: Difference | None, missing: int, other: int, unscored: int
) -> tuple[Verdict, str]:
    """Say what the comparison means."""
    if found is None:
        if compared or not len(turn.sampled):
            return Verdict.AGREES, ""
        if unscored:
            return Verdict.UNSCORED, "the server gave null for every token"
        if other:
            return Verdict.NOT_COMPARABLE, "the likeliest tokens do not tell the values at its temperature"
        return Verdict.MISSING, "no log-probability was recorded"
    versions = {version for version, _, _ in turn.sampled.weight_spans}
    now = scores.weight_version
    if now is not None and versions and versions != {now}:
        return (
            Verdict.OTHER_WEIGHTS,
            f"sampled by weights {', '.join(map(repr, sorted(versions)))}; {now!r} are in place",
        )
    return Verdict.DIFFERS, ""

"""What a verification found: per turn, and in total.

Invariant: `compared + missing + not_comparable + unscored == tokens` for each turn; a number that was not measured is
None, never 0.0. Never decides what a finding means; the verdicts come from `judge.py` and `verify.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

FORMAT = "strands-sglang/verification"
VERSION = 1


class Verdict(StrEnum):
    """What became of a turn."""

    AGREES = "agrees"
    """Every value that could be compared is within the tolerance."""
    DIFFERS = "differs"
    """Some value is not, and nothing explains it: a failure."""
    OTHER_WEIGHTS = "other_weights"
    """Some value is not, and the turn was sampled by other weights than those in place."""
    NOT_COMPARABLE = "not_comparable"
    """A second pass gives values of another distribution: temperature, grammar, bias, penalties, images."""
    MISSING = "missing"
    """No log-probability was recorded."""
    UNSCORED = "unscored"
    """The server did not score the branch; `reason` says why. A failure."""


FAILURES = frozenset({Verdict.DIFFERS, Verdict.UNSCORED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first token of a turn whose value is off by more than the tolerance.

    Attributes:
        position: Its position in the branch.
        offset: Its position in the turn's sampled tokens.
        token_id: Its id.
        recorded: The recorded log-probability.
        rescored: That of the second pass, at the turn's temperature.
        before: Text of the tokens before it; None without a tokenizer, as the next two.
        token: Its own text.
        after: Text of the tokens after it.
    """

    position: int
    offset: int
    token_id: int
    recorded: float
    rescored: float
    before: str | None = None
    token: str | None = None
    after: str | None = None

    def __str__(self) -> str:
        text = "" if self.token is None else f"\n      {self.before!r} >> {self.token!r} << {self.after!r}"
        return (
            f"position {self.position} (sampled token {self.offset} of the turn), id {self.token_id}: "
            f"recorded {self.recorded:.6f}, scored {self.rescored:.6f}{text}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """One turn.

    Attributes:
        turn: `Turn.index`.
        leaf: Index of the turn with which the branch ends in which it was scored.
        position: Position of its first sampled token in that branch.
        verdict: What became of it.
        reason: What explains the verdict, in words; "" where nothing has to be explained.
        tokens: Sampled tokens.
        compared: Tokens whose value was compared.
        missing: Tokens without a recorded value.
        not_comparable: Tokens whose value is of another distribution.
        unscored: Tokens that the server did not score.
        largest: Largest absolute difference; None where nothing was compared.
        mean: Mean absolute difference; None where nothing was compared.
        kl: Mean of the k3 estimate `exp(d) - 1 - d`, `d` = scored - recorded: of KL(recorded || scored) in nats; None
            where nothing was compared.
        tolerance: What the differences were held against.
        first: The first difference above the tolerance, or None.
        temperature: The temperature of the recorded values.
        weight_versions: The weights that sampled it, as recorded; empty where unknown.
    """

    turn: int
    leaf: int
    position: int
    verdict: Verdict
    reason: str = ""
    tokens: int
    compared: int = 0
    missing: int = 0
    not_comparable: int = 0
    unscored: int = 0
    largest: float | None = None
    mean: float | None = None
    kl: float | None = None
    tolerance: float
    first: Difference | None = None
    temperature: float = 1.0
    weight_versions: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {"missing": self.missing, "not comparable": self.not_comparable, "not scored": self.unscored}
        beside = "".join(f", {count} {name}" for name, count in counts.items() if count)
        line = f"turn {self.turn}: {self.verdict.value}, {self.compared} of {self.tokens} tokens compared{beside}"
        if self.largest is not None:
            line += f"; largest difference {self.largest:.1e}, mean {self.mean:.1e}, KL {self.kl:.1e}"
        if self.reason:
            line += f"\n    {self.reason}"
        return line if self.first is None else f"{line}\n    {self.first}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """One episode.

    Attributes:
        trajectory_id: The episode's id.
        tolerance: The largest difference that counts as agreement, at temperature 1.
        weight_version: The server's name of the weights in place; None where it does not say.
        branches: How many branches the episode has.
        turns: One report per turn, in order of their index.
    """

    trajectory_id: str
    tolerance: float
    weight_version: str | None
    branches: int
    turns: tuple[TurnReport, ...]

    @property
    def ok(self) -> bool:
        """Whether no turn failed. True says nothing about turns that could not be compared; see `complete`."""
        return not self.failures

    @property
    def complete(self) -> bool:
        """Whether every sampled token was compared and agrees."""
        return all(turn.verdict is Verdict.AGREES and turn.compared == turn.tokens for turn in self.turns)

    @property
    def failures(self) -> list[TurnReport]:
        """The turns that failed."""
        return [turn for turn in self.turns if turn.verdict in FAILURES]

    def with_verdict(self, *verdicts: Verdict) -> list[TurnReport]:
        """Return the turns of these verdicts."""
        return [turn for turn in self.turns if turn.verdict in verdicts]

    @property
    def totals(self) -> Mapping[str, Any]:
        """Counts over all turns; `largest`, `mean` and `kl` over those that other weights do not explain."""
        names = ("tokens", "compared", "missing", "not_comparable", "unscored")
        counts = {name: sum(getattr(turn, name) for turn in self.turns) for name in names}
        judged = self.with_verdict(Verdict.AGREES, Verdict.DIFFERS)
        return {
            **counts,
            "largest": max((turn.largest for turn in judged if turn.largest is not None), default=None),
            "mean": _mean((turn.mean, turn.compared) for turn in judged),
            "kl": _mean((turn.kl, turn.compared) for turn in judged),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with its format and version."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "ok": self.ok,
            "complete": self.complete,
            "totals": dict(self.totals),
            **asdict(self),
        }

    def __str__(self) -> str:
        totals = self.totals
        lines = [
            f"episode {self.trajectory_id}: {_count(len(self.turns), 'turn', 'turns')} in "
            f"{_count(self.branches, 'branch', 'branches')}, "
            f"{totals['compared']} of {totals['tokens']} sampled tokens compared; weights in place: "
            f"{self.weight_version or 'not told'}"
        ]
        lines += [f"  {str(turn).replace(chr(10), chr(10) + '  ')}" for turn in self.turns]
        if totals["largest"] is not None:
            lines.append(
                f"  in total: largest difference {totals['largest']:.1e} (tolerance {self.tolerance:g}), "
                f"mean {totals['mean']:.1e}, KL {totals['kl']:.1e}"
            )
        lines.append(f"  {self.outcome()}")
        return "\n".join(lines)

    def outcome(self) -> str:
        """Say in a few words how it ended."""
        if self.failures:
            return f"FAILED: {len(self.failures)} of {len(self.turns)} turns"
        if self.complete:
            return "verified: every sampled token"
        kinds = {turn.verdict.value for turn in self.turns if turn.verdict is not Verdict.AGREES}
        rest = f" ({', '.join(sorted(kinds))})" if kinds else ""
        return f"no failure; {self.totals['compared']} of {self.totals['tokens']} sampled tokens compared{rest}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _mean(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """Return the mean of means, each of so many values."""
    known = [(value, count) for value, count in parts if value is not None]
    total = sum(count for _, count in known)
    return sum(value * count for value, count in known) / total if total else None

"""`Report`: what in an episode was not plain, for people who ask why a sample looks as it does.

Every fork with its reason, place and first differing token; answers that were thrown away or changed; tokens that the
template replaced; control tokens' text in content; cut turns, retries, resumptions, weight updates, calls that could
not be read. Only what the record holds is told, and nothing in it is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from .fork import Fork
from .turn import Turn, TurnFate

Decode = Callable[[Sequence[int]], str]

# How many tokens before and after a place are shown.
_BEFORE, _AFTER = 8, 16


class FindingKind(StrEnum):
    """What is told of a turn."""

    FORK = "fork"
    """It does not go on from the newest turn of its conversation."""
    DISCARDED = "discarded"
    """Its answer was thrown away."""
    EDITED = "edited"
    """The host went on from a changed text of its answer."""
    REPLACED_STOP = "replaced_stop"
    """Its prompt takes the place of the end of the sampled ids before it (`Segment.replaces`)."""
    GUARDED = "guarded"
    """Its prompt holds text of control tokens, which was encoded as plain text."""
    TRUNCATED = "truncated"
    """It was cut at its token budget."""
    RETRIED = "retried"
    """Requests for it failed before one was answered."""
    RESUMED = "resumed"
    """It was aborted and carried on from its own tokens."""
    RETRACTED = "retracted"
    """The server put it back into its queue and prefilled its tokens again."""
    MIXED_WEIGHTS = "mixed_weights"
    """More than one version of the weights sampled it."""
    WIDENED_VERSIONS = "widened_versions"
    """The server named one version for all of it, where tokens may be of an older one."""
    MISSING_LOGPROBS = "missing_logprobs"
    """The server gave no logprob for some of its tokens, though it was asked to."""
    UNPARSED_CALL = "unparsed_call"
    """A call in it could not be read, so nothing ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is told of a turn.

    Attributes:
        kind: What it is.
        turn: Index of the turn.
        words: What happened, in a sentence.
        token: Where in the branch, counted in tokens, or None.
        recorded: Decoded tokens around the place as they were, where `decode` was given.
        sent: For a fork, decoded tokens around the same place as they were sent next.
        fork: The fork with its reason, where it is one and the reason was kept.
    """

    kind: FindingKind
    turn: int
    words: str
    token: int | None = None
    recorded: str | None = None
    sent: str | None = None
    fork: Fork | None = None

    def __str__(self) -> str:
        shown = [f"    {name}: {text!r}" for name, text in (("recorded", self.recorded), ("sent", self.sent)) if text]
        return "\n".join([f"turn {self.turn}: {self.words}", *shown])


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What in an episode was not plain; printed, one line a finding.

    Attributes:
        findings: In order of the turns.
    """

    findings: tuple[Finding, ...]

    def of(self, kind: FindingKind) -> list[Finding]:
        """Return the findings of one kind."""
        return [finding for finding in self.findings if finding.kind is kind]

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "nothing to report"


def report(turns: Sequence[Turn], decode: Decode | None) -> Report:
    """Report on the turns of an episode; see `Trajectory.report`."""
    newest: dict[int, Turn] = {}
    findings: list[Finding] = []
    for turn in turns:
        before = newest.get(turn.conversation)
        if before is not None and turn.parent is not before:
            findings.append(_fork(turn, before, turns, decode))
        findings += _Looking(turn, decode).findings()
        newest[turn.conversation] = turn
    return Report(findings=tuple(findings))


def _fork(turn: Turn, before: Turn, turns: Sequence[Turn], decode: Decode | None) -> Finding:
    fork = Fork.of(turn.prompt)
    if fork is not None and 0 <= fork.after < turn.index:
        before = turns[fork.after]
    recorded, sent = before.rollout().token_ids, turn.rollout().token_ids
    pairs = zip_longest(recorded, sent[: len(sent) - len(turn.sampled)])
    token = next((at for at, (was, now) in enumerate(pairs) if was != now), None)
    start = "from a new start" if turn.parent is None else f"from turn {turn.parent.index}"
    why = f"{fork.reason.value}: {fork.change}" if fork else "the reason was not kept"
    at = "" if token is None else f"; token {token} is the first that differs"
    return Finding(
        kind=FindingKind.FORK,
        turn=turn.index,
        words=f"goes on {start}, not from turn {before.index} ({why}{at})",
        token=token,
        recorded=_around(recorded, token, decode),
        sent=_around(sent, token, decode),
        fork=fork,
    )


def _around(ids: Sequence[int], token: int | None, decode: Decode | None) -> str | None:
    if decode is None or token is None:
        return None
    return decode(ids[max(0, token - _BEFORE) : token + _AFTER])


class _Looking:
    """One turn being looked at."""

    def __init__(self, turn: Turn, decode: Decode | None) -> None:
        self._turn = turn
        self._decode = decode
        self._facts = turn.sampled.facts

    def findings(self) -> Iterator[Finding]:
        yield from self._prompt()
        yield from self._sampling()
        yield from self._answer()

    def _found(self, kind: FindingKind, words: str, **more: Any) -> Finding:
        return Finding(kind=kind, turn=self._turn.index, words=words, **more)

    def _prompt(self) -> Iterator[Finding]:
        turn, prompt = self._turn, self._turn.prompt
        if prompt.replaces and turn.parent is not None:
            replaced = turn.parent.sampled.ids[-prompt.replaces :]
            shown = (
                {} if self._decode is None else {"recorded": self._decode(replaced), "sent": self._shown(prompt.ids)}
            )
            words = f"its prompt takes the place of {replaced.tolist()}, sampled at the end of turn {turn.parent.index}"
            yield self._found(FindingKind.REPLACED_STOP, words, **shown)
        for literal in _objects(prompt.facts.get("guarded")):
            words = f"{literal.get('where')} holds {literal.get('literal')!r}, encoded as plain text"
            yield self._found(FindingKind.GUARDED, words)

    def _sampling(self) -> Iterator[Finding]:
        facts, sampled = self._facts, self._turn.sampled
        if count := facts.get("retries"):
            yield self._found(FindingKind.RETRIED, f"answered after {count} failed requests")
        if count := facts.get("resumptions"):
            yield self._found(FindingKind.RESUMED, f"aborted and carried on {count} times")
        if count := facts.get("retractions"):
            yield self._found(FindingKind.RETRACTED, f"put back into the server's queue {count} times")
        if len(versions := list(dict.fromkeys(version for version, _, _ in sampled.weight_spans))) > 1:
            yield self._found(FindingKind.MIXED_WEIGHTS, f"sampled by the weights {', '.join(versions)}")
        if spans := facts.get("weights_widened"):
            words = f"the server named one version for all of the tokens {spans}; some may be of an older one"
            yield self._found(FindingKind.WIDENED_VERSIONS, words)
        if sampled.logprobs is not None and (missing := sampled.logprob_list().count(None)):
            yield self._found(FindingKind.MISSING_LOGPROBS, f"{missing} of {len(sampled)} tokens have no logprob")

    def _answer(self) -> Iterator[Finding]:
        facts, sampled = self._facts, self._turn.sampled
        if facts.get("finish_reason") == "length":
            words = f"cut at {len(sampled)} tokens"
            yield self._found(FindingKind.TRUNCATED, words, recorded=self._shown(sampled.ids[-_AFTER:]))
        for call in _objects(facts.get("calls")):
            if call.get("status") not in (None, "ok"):
                words = f"the call of {call.get('name')} could not be read ({call['status']})"
                words += f": {call['reason']}" if call.get("reason") else ""
                start, end = _span(call.get("token_span"), len(sampled))
                yield self._found(FindingKind.UNPARSED_CALL, words, recorded=self._shown(sampled.ids[start:end]))
        if self._turn.fate is TurnFate.DISCARDED:
            yield self._found(FindingKind.DISCARDED, "its answer was thrown away", recorded=self._shown(sampled.ids))
        if self._turn.fate is TurnFate.EDITED:
            yield self._found(FindingKind.EDITED, "its answer was changed", recorded=self._shown(sampled.ids))

    def _shown(self, ids: Sequence[int]) -> str | None:
        if self._decode is None:
            return None
        return self._decode(list(ids[: _BEFORE + _AFTER]))


def _objects(fact: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; facts of other origin may have any shape."""
    if isinstance(fact, list | tuple):
        yield from (entry for entry in fact if isinstance(entry, Mapping))


def _span(fact: object, length: int) -> tuple[int, int]:
    """Return where a call stands within the turn; the whole turn where the fact does not say."""
    if not isinstance(fact, list | tuple) or len(fact) != 2 or not all(isinstance(place, int) for place in fact):
        return 0, length
    start, end = fact
    return max(0, start), max(0, end)  # negative before it: the call began in the cut turn

"""What a record holds beside tokens, mask and logprobs, so that an exporter can say what it leaves behind.

Owns `Held` and how much of each there is in rows and episodes. Each exporter names what it holds; the rest is counted
here, each part of an episode once. A number that is 0 (or a weight or temperature that is 1) is not counted: nothing is
lost there. An episode without rows is counted as a whole, elsewhere. What a record has and no `Held` names would be
lost in silence: `tests/unit/exporters/test_losses.py` holds that there is no such part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, Protocol

from strands_sglang.rollout import LogprobKind
from strands_sglang.trajectory import Lineage, Sample, Trajectory, Turn, TurnFate

from .result import LossBook
from .row import Row, told


class Held(StrEnum):
    """A part of the record that some trainers take and others do not."""

    ID = "id"
    """`Trajectory.id`, as it is written."""
    REWARD = "reward"
    """`Trajectory.reward`."""
    GROUP = "group"
    """`Trajectory.group_id`, as it is written."""
    GROUP_INDEX = "group_index"
    """`Trajectory.group_index`."""
    TERMINATION = "termination"
    """Why the episode ended: the reason, not only what kind of ending it is."""
    DETAIL = "termination.detail"
    """Why it ended, in words."""
    METADATA = "metadata"
    """`Trajectory.metadata`."""
    WEIGHT = "weight"
    """`Sample.weight`: that several samples of one episode count as one."""
    LINEAGE = "lineage"
    """That a sample is a side call's or another agent's."""
    WEIGHT_VERSIONS = "weight_versions"
    """Under which weights a trainable token was sampled."""
    CONTEXT_VERSIONS = "context_versions"
    """Under which weights a token was sampled that is trainable in no row."""
    TEMPERATURE = "temperature"
    """At which temperature a turn was sampled whose logprobs are after it."""
    LOGPROB_KIND = "logprob_kind"
    """That a turn's logprobs are not after the temperature that sampled it."""
    LOGPROBS = "logprobs"
    """Logprobs of trainable tokens; where `missing_logprob="omit"` leaves them out, that is noted apart."""
    CONTEXT_LOGPROBS = "context_logprobs"
    """Logprobs measured at tokens that are not trainable in a row."""
    ROUTED_EXPERTS = "routed_experts"
    """Which experts each token was routed to."""
    INDEXER_TOPK = "indexer_topk"
    """Which positions a sparse-attention indexer chose."""
    SAMPLING_MASK = "sampling_mask"
    """What top-k, top-p and min-p left each token to be chosen from."""
    IMAGES = "images"
    """Images of the prompts."""
    FACTS = "facts"
    """What else is known of a turn: the facts of its prompt and its answer (finish reason, call attempts, guarded text,
    forks ...), messages, conversation, fate."""


def temperature_of(facts: Mapping[str, Any]) -> float | None:
    """Return the temperature at which a turn was sampled, None where its facts tell none."""
    params = facts.get("sampling_params")
    sent = params.get("temperature") if isinstance(params, Mapping) else None
    for value in (sent, facts.get("temperature")):
        # Beyond that it is no temperature at which anything can have been sampled.
        if not isinstance(value, bool) and isinstance(value, int | float) and abs(value) < 2**63:
            return float(value)
    return None


def is_tempered(facts: Mapping[str, Any]) -> bool:
    """Say whether a turn's logprobs are after its temperature; where the facts do not tell, they are, as SGLang's.

    With top_k 1 the provider does not tell: SGLang leaves the temperature out if all that it samples at once is greedy.
    """
    kind, sampling = facts.get("logprob_kind"), facts.get("sampling_params")
    if kind is None and isinstance(sampling, Mapping):
        return sampling.get("top_k") != 1 or facts.get("temperature") == 1
    return kind != LogprobKind.UNTEMPERED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What of one episode stands in rows.

    Attributes:
        episode: The episode.
        rows: Its rows, at least one.
        lengths: Each turn that stands in a row, with the most of its sampled ids that stand in one.
        trained: The turns that have a trainable token in a row.
    """

    episode: Trajectory
    rows: list[Row]
    lengths: list[tuple[Turn, int]]
    trained: list[Turn]

    @classmethod
    def of(cls, episode: Trajectory, rows: list[Row]) -> _Cut:
        lengths: dict[int, tuple[Turn, int]] = {}
        for row in rows:
            for span in row.spans():
                known = lengths.get(id(span.turn), (span.turn, 0))[1]
                lengths[id(span.turn)] = span.turn, max(known, span.end - span.start)
        trained = {id(piece.turn): piece.turn for row in rows for piece in row.trained_pieces()}
        return cls(episode=episode, rows=rows, lengths=list(lengths.values()), trained=list(trained.values()))

    def with_fact(self, fact: str) -> int:
        """Count the turns that have a fact of that name."""
        return sum(turn.sampled.facts.get(fact) is not None for turn, _ in self.lengths)

    def trained_versions(self) -> int:
        """Count the trainable tokens whose weight version is told."""
        return sum(told(row.trained(row.versions)) for row in self.rows)

    def context_versions(self) -> int:
        """Count the other tokens whose weight version is told."""
        return (
            sum(told(turn.sampled.version_list()[:length]) for turn, length in self.lengths) - self.trained_versions()
        )

    def trained_logprobs(self) -> int:
        """Count the trainable tokens that have a logprob."""
        return sum(row.trainable - row.trained(row.logprobs).count(None) for row in self.rows)

    def context_logprobs(self) -> int:
        """Count the tokens that are not trainable and have a logprob, in all rows."""
        columns = (zip(row.logprobs, row.mask, strict=True) for row in self.rows)
        return sum(value is not None and not mask for column in columns for value, mask in column)

    def at_other_temperatures(self, *, tempered: bool) -> int:
        """Count the trained turns sampled at another temperature than 1, by whether their logprobs are after it."""
        facts = [turn.sampled.facts for turn in self.trained if is_tempered(turn.sampled.facts) is tempered]
        return sum(temperature_of(known) not in (None, 1) for known in facts)

    def with_facts(self) -> int:
        """Count the turns of which more is known than their tokens."""
        own = {id(turn): row.sample.lineage for row in self.rows for turn in row.sample.turns}
        return sum(_has_facts(turn) or turn.lineage is not own[id(turn)] for turn, _ in self.lengths)


def _has_facts(turn: Turn) -> bool:
    told_of_it = bool(turn.sampled.facts or turn.prompt.facts) or turn.sampled.message_index is not None
    return told_of_it or turn.fate is not TurnFate.KEPT or turn.conversation != 0


_COUNTS: dict[Held, tuple[str, Callable[[_Cut], int]]] = {
    Held.ID: ("episodes", lambda cut: 1),
    Held.REWARD: ("episodes", lambda cut: cut.episode.reward is not None),
    Held.GROUP: ("episodes", lambda cut: cut.episode.group_id is not None),
    Held.GROUP_INDEX: ("episodes", lambda cut: cut.episode.group_index is not None),
    Held.TERMINATION: ("episodes", lambda cut: cut.episode.termination is not None),
    Held.DETAIL: ("episodes", lambda cut: cut.episode.termination is not None and bool(cut.episode.termination.detail)),
    Held.METADATA: ("entries", lambda cut: len(cut.episode.metadata)),
    Held.WEIGHT: ("rows", lambda cut: sum(row.siblings > 1 for row in cut.rows)),
    Held.LINEAGE: ("rows", lambda cut: sum(row.sample.lineage is not Lineage.MAIN for row in cut.rows)),
    Held.WEIGHT_VERSIONS: ("tokens", _Cut.trained_versions),
    Held.CONTEXT_VERSIONS: ("tokens", _Cut.context_versions),
    Held.TEMPERATURE: ("turns", lambda cut: cut.at_other_temperatures(tempered=True)),
    Held.LOGPROB_KIND: ("turns", lambda cut: cut.at_other_temperatures(tempered=False)),
    Held.LOGPROBS: ("tokens", _Cut.trained_logprobs),
    Held.CONTEXT_LOGPROBS: ("tokens", _Cut.context_logprobs),
    Held.ROUTED_EXPERTS: ("turns", lambda cut: cut.with_fact("routed_experts")),
    Held.INDEXER_TOPK: ("turns", lambda cut: cut.with_fact("indexer_topk")),
    Held.SAMPLING_MASK: ("turns", lambda cut: cut.with_fact("sampling_mask")),
    Held.IMAGES: ("images", lambda cut: sum(len(turn.images) for turn, _ in cut.lengths)),
    Held.FACTS: ("turns", _Cut.with_facts),
}
_WHY = {
    Held.SAMPLING_MASK: "the trainer's logprobs are of the whole vocabulary, as the exported ones",
    Held.WEIGHT: "several samples of one episode count as several",
    Held.TEMPERATURE: "the logprobs are after temperature: the trainer has to divide its logits by the same one",
    Held.LOGPROB_KIND: "the logprobs are those of temperature 1, which is not the one that sampled",
    Held.CONTEXT_VERSIONS: "the trainer's type has no place for it where nothing is trained",
}


class Holder(Protocol):
    """What an exporter says of itself."""

    def _held_of(self, episode: Trajectory) -> frozenset[Held]:
        """Return what it holds of an episode."""

    def _holds_credit(self, name: str) -> bool:
        """Say whether it exports the per-turn number of that name."""

    def _credited(self, row: Row) -> Iterable[Turn]:
        """Return the turns whose per-turn numbers stand in a row."""

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        """Note what it does not hold of metadata that it holds."""


def note_not_held(losses: LossBook, rows: Iterable[Row], holder: Holder) -> None:
    """Count what the rows and their episodes have and the exporter does not hold.

    Args:
        losses: Where to note it.
        rows: All rows, those of an episode one after another.
        holder: The exporter.
    """
    for _, group in groupby(rows, key=lambda row: id(row.episode)):
        of_episode = list(group)
        cut = _Cut.of(of_episode[0].episode, of_episode)
        held = holder._held_of(cut.episode)
        for kind, (unit, count) in _COUNTS.items():
            if kind not in held:
                losses.note(kind, count(cut), unit, _WHY.get(kind, "the trainer's type has no place for it"))
        if Held.METADATA in held:
            holder._note_metadata(cut.episode, losses)
        _note_credit(losses, cut, holder)
        placed = {id(turn) for turn, _ in cut.lengths}
        empty = [turn for turn in cut.episode.turns if not len(turn.sampled) and id(turn) not in placed]
        losses.note("turns", len(empty), "turns", "nothing was sampled in them, and they stand in no row")


def _note_credit(losses: LossBook, cut: _Cut, holder: Holder) -> None:
    """Count the per-turn numbers of an episode that stand in none of its rows, whatever became of their turn."""
    credited = {id(turn) for row in cut.rows for turn in holder._credited(row)}
    for turn in cut.episode.turns:
        for name in turn.credit:
            if not holder._holds_credit(name):
                losses.note(f"credit.{name}", 1, "turns", "it was not asked for, or has no place")
            elif id(turn) not in credited:
                losses.note(f"credit.{name}", 1, "turns", "nothing of its turn is trained in the rows")


def note_left_out(
    losses: LossBook, episode: Trajectory, samples: list[Sample], *, side_calls: bool, discarded: bool
) -> None:
    """Count sampled tokens that are trainable in no sample."""
    chosen = 0
    for turn in episode.turns:
        if turn.lineage is not Lineage.MAIN and not side_calls:
            losses.note("side_calls", len(turn.sampled), "tokens", "sampled outside the main loop; include_side_calls")
        elif turn.fate is TurnFate.DISCARDED and not discarded:
            losses.note("discarded", len(turn.sampled), "tokens", "the host threw the answer away; include_discarded")
        else:
            chosen += len(turn.sampled)
    replaced = chosen - sum(sum(sample.loss_mask) for sample in samples)
    losses.note("replaced", replaced, "tokens", "stop tokens that the template replaces: they are in no context")

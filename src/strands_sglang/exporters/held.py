"""What a record holds beside tokens, mask and logprobs, so that an exporter can say what it leaves behind.

Owns `Held` and how much of each there is in rows and episodes. Each exporter names what it holds; the rest is counted
here. A number that is 0 (or a weight or temperature that is 1) is not counted: nothing is lost there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from strands_sglang.trajectory import Lineage, Sample, Trajectory, TurnFate

from .result import LossBook
from .row import Row


class Held(StrEnum):
    """A part of the record that some trainers take and others do not."""

    REWARD = "reward"
    """`Trajectory.reward`."""
    GROUP = "group"
    """`Trajectory.group_id` and `group_index`."""
    TERMINATION = "termination"
    """Why the episode ended."""
    METADATA = "metadata"
    """`Trajectory.metadata`."""
    WEIGHT = "weight"
    """`Sample.weight`: that several samples of one episode count as one."""
    LINEAGE = "lineage"
    """That a sample is a side call's or another agent's."""
    WEIGHT_VERSIONS = "weight_versions"
    """Under which weights a token was sampled."""
    TEMPERATURE = "temperature"
    """At which temperature a turn was sampled; SGLang's logprobs are after it."""
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
    """What else is known of a turn: finish reason, call attempts, cached tokens, latency ..."""


_OF_EPISODE: dict[Held, tuple[str, Callable[[Trajectory], int]]] = {
    Held.REWARD: ("episodes", lambda episode: episode.reward is not None),
    Held.GROUP: ("episodes", lambda episode: episode.group_id is not None),
    Held.TERMINATION: ("episodes", lambda episode: episode.termination is not None),
    Held.METADATA: ("entries", lambda episode: len(episode.metadata)),
}
_OF_ROW: dict[Held, tuple[str, Callable[[Row], int]]] = {
    Held.WEIGHT: ("rows", lambda row: row.siblings > 1),
    Held.LINEAGE: ("rows", lambda row: row.sample.lineage is not Lineage.MAIN),
    Held.WEIGHT_VERSIONS: ("tokens", lambda row: sum(value is not None for value in row.trained(row.versions))),
    Held.TEMPERATURE: (
        "turns",
        lambda row: sum(temperature_of(piece.turn.sampled.facts) not in (None, 1) for piece in row.trained_pieces()),
    ),
    Held.CONTEXT_LOGPROBS: (
        "tokens",
        lambda row: sum(value is not None and not mask for value, mask in zip(row.logprobs, row.mask, strict=True)),
    ),
    Held.ROUTED_EXPERTS: ("turns", lambda row: _turns_with(row, "routed_experts")),
    Held.INDEXER_TOPK: ("turns", lambda row: _turns_with(row, "indexer_topk")),
    Held.SAMPLING_MASK: ("turns", lambda row: _turns_with(row, "sampling_mask")),
    Held.IMAGES: ("images", lambda row: len(row.sample.rollout.image_data)),
    Held.FACTS: ("turns", lambda row: sum(bool(piece.turn.sampled.facts) for piece in row.trained_pieces())),
}
_WHY = {
    Held.SAMPLING_MASK: "the trainer's logprobs are of the whole vocabulary, as the exported ones",
    Held.WEIGHT: "several samples of one episode count as several",
    Held.TEMPERATURE: "the logprobs are after temperature: the trainer has to divide its logits by the same one",
}


def temperature_of(facts: object) -> float | None:
    """Return the temperature that a turn's facts tell, None where they do not."""
    params = facts.get("sampling_params") if hasattr(facts, "get") else None
    value = params.get("temperature") if isinstance(params, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
        return None  # no temperature at which anything can have been sampled
    return float(value)


def note_not_held(
    losses: LossBook,
    episodes: Iterable[Trajectory],
    rows: Iterable[Row],
    held: frozenset[Held],
    holds_credit: Callable[[str], bool],
) -> None:
    """Count what the rows and their episodes have and the exporter does not hold.

    Args:
        losses: Where to note it.
        episodes: The episodes that have rows.
        rows: The rows.
        held: What the exporter holds.
        holds_credit: Whether it exports the per-turn number of a name.
    """
    for kind, (unit, of_episode) in _OF_EPISODE.items():
        if kind not in held:
            losses.note(kind, sum(map(of_episode, episodes)), unit, _why(kind))
    known = list(rows)
    for kind, (unit, of_row) in _OF_ROW.items():
        if kind not in held:
            losses.note(kind, sum(map(of_row, known)), unit, _why(kind))
    for row in known:
        for piece in row.trained_pieces():
            for name in piece.turn.credit:
                losses.note(f"credit.{name}", not holds_credit(name), "turns", "it was not asked for, or has no place")


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


def _turns_with(row: Row, fact: str) -> int:
    return sum(piece.turn.sampled.facts.get(fact) is not None for piece in row.trained_pieces())


def _why(kind: Held) -> str:
    return _WHY.get(kind, "the trainer's type has no place for it")

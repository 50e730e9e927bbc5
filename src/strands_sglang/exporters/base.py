"""What all exporters share: which samples become rows, and what happens to tokens that cannot be trained as they are.

Owns `Exporter`, the base of every exporter. For all rows of one export together, each token that is trainable in the
episodes' samples is trainable in exactly one row (guarantee G10), but for those that an option masks or drops, which
the losses count. An exporter never fills in a number that was not measured for a token it lets train, never drops
anything without saying so, and imports no trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

from strands_sglang.errors import ExportError
from strands_sglang.routing import Missing, RoutedExperts
from strands_sglang.trajectory import Trajectory, Turn

from .episode import check_episode
from .held import Held, note_left_out, note_not_held
from .options import check_options
from .result import Exported, LossBook
from .row import Row
from .stitching import stitched


class Alignment(StrEnum):
    """Over which tokens a trainer's columns run."""

    FULL = "full"
    """Every token, the initial prompt included."""
    RESPONSE = "response-only"
    """Every token after the initial prompt, those of tools and users included."""
    SHIFTED = "shifted"
    """Every token but the first, aligned to the targets of the model's inputs."""
    TURN = "per turn"
    """The sampled tokens of each turn on their own."""


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """Turns episodes into the rows of one trainer. Subclasses give `_rows`.

    Attributes:
        missing_logprob: What becomes of a trainable token whose logprob was not measured. "raise": an `ExportError`.
            "mask": it is not trained. "omit": the logprobs of the whole export are left out, for trainers that compute
            their own. "keep": it stays trainable and its logprob is the trainer's own missing value. Each exporter
            takes only those of the last two that its trainer has a form for.
        untrainable: What becomes of an episode whose ending says nothing about the policy
            (`Termination.trainable` is false). "mask": its rows stay, and nothing in them is trained. "drop": it has no
            rows. "keep": it is trained as any other. An episode without a termination counts as trainable.
    """

    name: ClassVar[str]
    alignment: ClassVar[Alignment]
    held: ClassVar[frozenset[Held]] = frozenset()
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "missing_logprob": ("raise", "mask"),
        "untrainable": ("mask", "drop", "keep"),
    }

    missing_logprob: Literal["raise", "mask", "omit", "keep"] = "raise"
    untrainable: Literal["mask", "drop", "keep"] = "mask"

    def __post_init__(self) -> None:
        """Refuse options that cannot be meant."""
        check_options(self)

    def export(
        self,
        trajectories: Trajectory | Iterable[Trajectory],
        *,
        include_side_calls: bool = False,
        include_discarded: bool = False,
    ) -> Exported:
        """Export one episode or several.

        Args:
            trajectories: The episodes. Their rows come in the order of the episodes.
            include_side_calls: Also the branches of side calls and of other agents' loops.
            include_discarded: Also answers that the host threw away.

        Raises:
            ExportError: If a row would be untrue, or the trainer requires something that the record does not have.
            RoutingError: If routing rows were asked for and do not fit.
        """
        losses = LossBook()
        rows: list[Row] = []
        for episode in _checked(trajectories):
            samples = episode.samples(include_side_calls=include_side_calls, include_discarded=include_discarded)
            note_left_out(losses, episode, samples, side_calls=include_side_calls, discarded=include_discarded)
            cut = [Row.of(episode, sample, len(samples)) for sample in samples]
            rows += self._taken(episode, cut, losses)
        note_not_held(losses, rows, self)
        return Exported(rows=tuple(self._rows(rows, losses)) if rows else (), losses=tuple(losses))

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterable[dict[str, Any]]:
        """Return the trainer's rows; `rows` is not empty."""
        raise NotImplementedError

    def _held(self) -> frozenset[Held]:
        """Return what the exporter holds, given its options."""
        return self.held

    def _held_of(self, episode: Trajectory) -> frozenset[Held]:
        """Return what the exporter holds of one episode, where that is not the same for all."""
        return self._held()

    def _holds_credit(self, name: str) -> bool:
        """Say whether it exports the per-turn number of that name."""
        return False

    def _credited(self, row: Row) -> Iterable[Turn]:
        """Return the turns whose per-turn numbers stand in a row, of the names that are exported."""
        return (piece.turn for piece in row.trained_pieces())

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        """Note what is lost of an episode's metadata, where the exporter holds metadata."""

    def _taken(self, episode: Trajectory, rows: list[Row], losses: LossBook) -> list[Row]:
        """Return the rows of one episode in which whatever is trainable can be trained as it is.

        What is masked is masked first: which of several samples is the longest, and whether there is one at all, is
        about what is left to train.
        """
        ending = episode.termination
        if ending is not None and not ending.trainable and self.untrainable != "keep":
            why = f"the episode ended with {ending.reason.value}; untrainable='keep' trains it all the same"
            losses.note("loss_mask", sum(row.trainable for row in rows), "tokens", why)
            if self.untrainable == "drop":
                losses.note("episodes", 1, "episodes", "their ending is not trainable; untrainable='drop'")
                return []
            rows = [row.with_mask([0] * len(row.mask)) for row in rows]
        if self.missing_logprob == "mask":
            rows = [self._without_unmeasured(row, losses) for row in rows]
        chosen = self._chosen(episode, rows, losses)
        for row in chosen:
            self._check_logprobs(row, losses)
        return chosen

    def _chosen(self, episode: Trajectory, rows: list[Row], losses: LossBook) -> list[Row]:
        """Return those rows of one episode that the trainer takes."""
        if not rows:
            losses.note("episodes", 1, "episodes", "no token of them is trainable")
        return rows

    def _without_unmeasured(self, row: Row, losses: LossBook) -> Row:
        """Return a row in which no token without a logprob is trainable."""
        mask = [int(mask and value is not None) for value, mask in zip(row.logprobs, row.mask, strict=True)]
        losses.note("loss_mask", row.trainable - sum(mask), "tokens", "they have no logprob; missing_logprob='mask'")
        return row.with_mask(mask)

    def _check_logprobs(self, row: Row, losses: LossBook) -> None:
        """Refuse a row with a trainable token without logprob, where that was not allowed."""
        missing = row.trained(row.logprobs).count(None)
        if self.omits_logprobs:
            losses.note("logprobs", row.trainable - missing, "tokens", "missing_logprob='omit' leaves them all out")
        elif missing and self.missing_logprob == "raise":
            raise ExportError(
                f"{row.name}: {missing} of {row.trainable} trainable tokens have no logprob",
                hint="sample with return_logprob=True, or say what becomes of them with missing_logprob=",
            )

    @property
    def omits_logprobs(self) -> bool:
        """Whether the logprobs of the whole export are left out."""
        return self.missing_logprob == "omit"


@dataclass(frozen=True, kw_only=True)
class OneRowExporter(Exporter):
    """An exporter for trainers that take one row per episode.

    Attributes:
        several: What becomes of an episode with several samples (compaction, edits, sub-agents). "raise": an
            `ExportError`. "last": the sample of the newest branch. "longest": the one with the most trainable tokens,
            the newest of equals. "all": every sample, in order; for callers that can place more than one.
        empty: What becomes of an episode with nothing to train, for which the trainer still expects a row: "raise" an
            `ExportError`, or "skip" it.
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Exporter.choices,
        "several": ("raise", "last", "longest", "all"),
        "empty": ("raise", "skip"),
    }

    several: Literal["raise", "last", "longest", "all"] = "raise"
    empty: Literal["raise", "skip"] = "raise"

    def _chosen(self, episode: Trajectory, rows: list[Row], losses: LossBook) -> list[Row]:
        if not rows and self.empty == "raise":
            raise ExportError(
                f"episode {episode.id} has no trainable token, but {self.name} expects a row for it",
                hint="leave the episode out of its batch, or export with empty='skip' and fill its place",
            )
        if len(rows) <= 1 or self.several == "all":
            return super()._chosen(episode, rows, losses)
        if self.several == "raise":
            raise ExportError(
                f"episode {episode.id} has {len(rows)} samples, but {self.name} takes one per episode",
                hint="several='last' or 'longest' keeps one and reports the rest, several='all' gives them all",
            )
        kept = rows[-1] if self.several == "last" else max(reversed(rows), key=lambda row: row.trainable)
        for row in rows:
            if row is not kept:
                # A sample of which nothing is left to train is none the less not in the rows.
                count, unit = (row.trainable, "tokens") if row.trainable else (1, "rows")
                losses.note("samples", count, unit, f"several={self.several!r} keeps one sample an episode")
        return [kept]


@dataclass(frozen=True, kw_only=True)
class RoutedExporter(Exporter):
    """An exporter for trainers that replay the routing of a mixture of experts.

    Attributes:
        num_layers: Hidden layers of the model; see `strands_sglang.routing.routing_shape`.
        top_k: Experts per token. With either of the two, routing rows are exported, and required; with neither they
            are not.
        missing_routing: What becomes of a token (other than the last) whose row the server never gave: "raise" a
            `RoutingError`, "zero", or "mark" it with -1.
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Exporter.choices,
        "missing_routing": ("raise", "zero", "mark"),
    }

    num_layers: int | None = None
    top_k: int | None = None
    missing_routing: Missing = "raise"

    def _held(self) -> frozenset[Held]:
        return self.held | {Held.ROUTED_EXPERTS} if self._takes_routing else self.held

    @property
    def _takes_routing(self) -> bool:
        return self.num_layers is not None or self.top_k is not None

    def _routing(self, row: Row, take: Callable[[RoutedExperts], Any]) -> Any:
        """Return what `take` makes of the row's routing, or None where it was not asked for."""
        if not self._takes_routing:
            return None
        return take(stitched(row, "routed_experts", self.num_layers, self.top_k))


def _checked(trajectories: Trajectory | Iterable[Trajectory]) -> list[Trajectory]:
    """Return the episodes, each of them one, and once."""
    episodes = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
    seen: set[str] = set()
    for episode in episodes:
        if not isinstance(episode, Trajectory):
            raise ExportError(
                f"a {type(episode).__name__} cannot be exported, only a Trajectory",
                hint="an agent's record is model.trajectory; samples are cut from it by the exporter",
            )
        check_episode(episode)
        if episode.id in seen:
            raise ExportError(f"episode {episode.id} was given twice; its tokens would be trained twice")
        seen.add(episode.id)
    return episodes

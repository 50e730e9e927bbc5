"""ART: a `Trajectory`'s own fields, and its histories as `TokenizedHistory` has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from strands_sglang.rollout import LogprobKind
from strands_sglang.trajectory import Trajectory

from .base import Alignment, RoutedExporter
from .ending import ending_of
from .held import Held
from .record import KEY, OF_EPISODE, note_taken, of_episode
from .result import LossBook
from .row import Piece, Row, integers_of, told

_OWN = {f"{KEY}.{name}" for name in ("episode", "ending", "termination", "detail", "group_id", "group_index")}
_KINDS = {LogprobKind.TEMPERED.value: "PROCESSED_LOGPROBS", LogprobKind.UNTEMPERED.value: "RAW_LOGPROBS"}


@dataclass(frozen=True, kw_only=True)
class ARTExporter(RoutedExporter):
    """ART's trajectory (`art/trajectories`), one row per episode with a tokenized history per sample.

    Alignment: full; `tokens`, `logprobs` and `flags` have one length. A token with no measured logprob has NaN, also a
    trainable one with `missing_logprob="keep"`; else it is refused or masked. `flags` lists the names of `TokenFlag`,
    whose bits differ between releases of ART: EXACT for every token; ASSISTANT, OUTPUT and, where it is trainable in
    this history, SAMPLED for a sampled one; STOP for the stop token that ended a turn; at a logprob PROCESSED_LOGPROBS
    where the record says that it is after temperature ("tempered"), RAW_LOGPROBS where it says that it is before it
    ("untempered", as for greedy sampling and prompts), and neither where it says nothing. Make the flags with
    `functools.reduce(operator.or_, (TokenFlag[name] for name in names))`.

    `trajectory` has `reward`, which is required, the first and last policy version where those of all trained tokens
    are told and integers, `metrics` (turns, histories), and as metadata what of `Trajectory.metadata` is a plain value,
    and ids and ending as the record has them, each under `strands_sglang.` and its name.

    Routing: `[tokens, layers, top_k]`, -1 for the last token; `missing_routing` decides about any other without a row.
    Cannot hold: per-turn credit, images, temperature, and which token has which weight version.

    Attributes:
        model: Name of the model in each history.
    """

    name: ClassVar[str] = "art"
    alignment: ClassVar[Alignment] = Alignment.FULL
    held: ClassVar[frozenset[Held]] = OF_EPISODE | {
        Held.LOGPROBS,
        Held.REWARD,
        Held.METADATA,
        Held.WEIGHT_VERSIONS,
        Held.CONTEXT_LOGPROBS,
        Held.LOGPROB_KIND,
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RoutedExporter.choices,
        "missing_logprob": ("raise", "mask", "keep"),
    }

    model: str = ""

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for _, group in groupby(rows, key=lambda row: id(row.episode)):
            of_episode = list(group)
            yield {
                "trajectory": self._trajectory(of_episode, losses),
                "tokenized_histories": [self._history(row) for row in of_episode],
            }

    def _trajectory(self, rows: list[Row], losses: LossBook) -> dict[str, Any]:
        episode = rows[0].episode
        versions = [version for row in rows for version in row.trained(row.versions)]
        numbers = integers_of(versions)
        if not numbers or len(set(numbers)) > 1:
            why = "ART takes the first and last, as integers, where all are told; which token has which is not held"
            losses.note(Held.WEIGHT_VERSIONS, told(versions), "tokens", why)
        return {
            "reward": rows[0].reward(),
            "initial_policy_version": min(numbers, default=None),
            "final_policy_version": max(numbers, default=None),
            "metrics": {"turns": len(episode.turns), "histories": len(rows)},
            "metadata": {**_plain(episode), **_own(rows[0])},
        }

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        plain = _plain(episode)
        losses.note(Held.METADATA, len(episode.metadata) - len(plain), "entries", "ART takes plain values only")
        note_taken(episode, plain.keys() & _OWN, losses)

    def _history(self, row: Row) -> dict[str, Any]:
        routed = self._routing(row, lambda found: found.padded_rows(missing=self.missing_routing).tolist())
        if routed:
            # The last token was never fed to the model: no choice of `missing_routing` is about it.
            routed[-1] = [[-1] * len(experts) for experts in routed[-1]]
        return {
            "model": self.model,
            "tokens": row.token_ids,
            "logprobs": [math.nan if value is None else value for value in row.logprobs],
            "flags": _flags(row),
            "routed_experts": routed,
            "top_k": len(routed[0][0]) if routed else None,
        }


def _plain(episode: Trajectory) -> dict[str, bool | int | float | str]:
    """Return what of an episode's metadata ART takes."""
    return {name: value for name, value in episode.metadata.items() if isinstance(value, bool | int | float | str)}


def _own(row: Row) -> dict[str, str | int]:
    """Return what is written beside it, each entry on its own, since ART's metadata is flat."""
    own = {**of_episode(row.episode), "ending": ending_of(row).value}
    return {f"{KEY}.{name}": value for name, value in own.items()}


def _flags(row: Row) -> list[list[str]]:
    """Return the names of each token's flags."""
    flags = [["EXACT"] for _ in row.token_ids]
    for piece in row.pieces():
        if not piece.sampled:
            continue
        for position in range(piece.start, piece.end):
            flags[position] += ["ASSISTANT", "OUTPUT"] + ["SAMPLED"] * row.mask[position]
        if _ends_with_stop(piece):
            flags[piece.end - 1].append("STOP")
    for piece in row.pieces():
        for position in range(piece.start, piece.end):
            if row.logprobs[position] is not None:
                flags[position] += _kind_of(piece)
    return flags


def _kind_of(piece: Piece) -> list[str]:
    """Return the flag of a piece's logprobs, none where the record does not tell of which distribution they are."""
    segment = piece.turn.sampled if piece.sampled else piece.turn.prompt
    kind = segment.facts.get("logprob_kind")
    return [_KINDS[kind]] if isinstance(kind, str) and kind in _KINDS else []


def _ends_with_stop(piece: Piece) -> bool:
    """Say whether the last token of a sampled piece is the stop token that ended the turn."""
    sampled = piece.turn.sampled
    return piece.end - piece.start == len(sampled) and sampled.facts.get("matched") == sampled.ids[-1]

"""What the record says of a row that a trainer has no field for, for those that take free entries beside it.

Owns `KEY`, under which it stands, so that it never mixes with the entries of an episode's metadata.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from strands_sglang.trajectory import Trajectory

from .held import Held
from .result import LossBook
from .row import Row

KEY = "strands_sglang"

OF_EPISODE = frozenset({Held.ID, Held.GROUP, Held.GROUP_INDEX, Held.TERMINATION, Held.DETAIL})
"""What `of_episode` holds."""
OF_SAMPLE = OF_EPISODE | {Held.WEIGHT, Held.LINEAGE}
"""What `of_sample` holds."""


def of_episode(episode: Trajectory) -> dict[str, Any]:
    """Return what is known of an episode, without what is not."""
    ending = episode.termination
    known = {
        "episode": episode.id,
        "termination": ending.reason.value if ending is not None else None,
        "detail": ending.detail if ending is not None else None,
        "group_id": episode.group_id,
        "group_index": episode.group_index,
    }
    return {name: value for name, value in known.items() if value is not None}


def of_sample(row: Row) -> dict[str, Any]:
    """Return what is known of a sample and its episode."""
    sample = row.sample
    place = {"sample": sample.index, "lineage": sample.lineage.value, "weight": sample.weight}
    return {**of_episode(row.episode), **place}


def note_taken(episode: Trajectory, keys: Collection[str], losses: LossBook) -> None:
    """Note the entries of an episode's metadata in whose places the exporter writes its own."""
    taken = sorted(episode.metadata.keys() & set(keys))
    losses.note(Held.METADATA, len(taken), "entries", f"the exporter's own stand in their place: {', '.join(taken)}")

"""Whether an episode's own values can stand in a row: identities are strings, rewards and credits finite numbers.

Looked at once, before any row is made, so that no exporter has to. A reward that is not finite would turn a whole batch
into not-a-number without anyone saying so.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from strands_sglang.errors import ExportError, RecordError
from strands_sglang.rollout.values import identities, identity, name_of, optional, shown, whole
from strands_sglang.trajectory import Trajectory


def check_episode(episode: Trajectory) -> None:
    """Refuse an episode whose values no row can hold.

    Raises:
        ExportError: It names the episode and the field.
    """
    name = f"episode {shown(episode.id)}" if not _is_written(episode.id) else f"episode {episode.id}"
    try:
        identity(episode.id, "id")
        optional(identity)(episode.group_id, "group_id")
        optional(whole)(episode.group_index, "group_index")
        optional(_finite)(episode.reward, "reward")
        for at, turn in enumerate(episode.turns):
            identities(turn.images, f"turns[{at}].images")
            for version, _, _ in turn.sampled.weight_spans:
                identity(version, f"turns[{at}].sampled.weight_spans")
            for credit, value in turn.credit.items():
                _finite(value, f"turns[{at}].credit.{name_of(credit, f'turns[{at}].credit')}")
    except ExportError:
        raise
    except RecordError as error:
        raise ExportError(f"{name}: {error}", hint="set it anew on the trajectory before the export") from error


def _is_written(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable()


def _finite(value: Any, place: str) -> None:
    """Refuse what is no finite number; NumPy's scalars are numbers."""
    if not isinstance(value, Real):
        raise RecordError(f"{place} is a {type(value).__name__}, not a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise RecordError(f"{place} is {shown(value)}, which is not a finite number")

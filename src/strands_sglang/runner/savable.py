"""What somebody wrote into a record that JSON cannot hold, such as a NumPy number: taken out before it is saved.

Looked at is what a reward, a hook or a tool may write: metadata, credit and reward. Tokens are never touched.
"""

from __future__ import annotations

from typing import Any

from strands_sglang.errors import RecordError
from strands_sglang.trajectory import Trajectory

from .prompts import jsonable


def make_savable(trajectory: Trajectory) -> str:
    """Take out what cannot be saved; metadata stays as text where it has one.

    Returns:
        What was found, in words; empty where nothing was.
    """
    found = []
    if not isinstance(trajectory.metadata, dict):
        found.append(f"metadata is a {type(trajectory.metadata).__name__}")
        trajectory.metadata = {}
    for name, value in list(trajectory.metadata.items()):
        if why := _fault(metadata={name: value}):
            found.append(why)
            del trajectory.metadata[name]
            trajectory.metadata[str(name)] = _as_text(value)
    for turn in trajectory.turns:
        for name, value in list(turn.credit.items()):
            if not isinstance(name, str) or _fault(reward=value):
                found.append(f"turns[{turn.index}].credit[{name!r}] is {value!r}")
                del turn.credit[name]
    if why := _fault(reward=trajectory.reward):
        found.append(why)
        trajectory.reward = None
    return "; ".join(found)


def _fault(**part: Any) -> str:
    """Return why a part of a record cannot be saved; empty where it can."""
    try:
        Trajectory(**part).to_dict()
    except RecordError as error:
        return str(error)
    except RecursionError:
        return f"{next(iter(part))} holds itself"
    return ""


def _as_text(value: Any) -> Any:
    try:
        return jsonable(value)
    except RecursionError:
        return repr(value)

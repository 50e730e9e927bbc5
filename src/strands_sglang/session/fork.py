"""Why a history is not the one that the newest turn stands in, in words and as a reason.

Looked into only where it is not: on linear history nothing is done. What the host did cannot be known, only what its
history shows; the reasons say no more than that.
"""

from __future__ import annotations

from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.trajectory import Fork, ForkReason, TurnFate

from .agreement import Agreement, Node
from .history import HostHistory


def fork_of(newest: Node, history: HostHistory, agreed: Agreement, rendering: ChatTokenizer) -> Fork:
    """Describe how a history departs from the branch of the newest turn.

    Args:
        newest: The node of the newest turn, which the history does not go on from.
        history: What the host holds now.
        agreed: How far it agrees with the recorded turns; their fates are already noted.
        rendering: What the next prompt will be rendered by.
    """
    if newest.root != history.root:
        return _fork(newest, ForkReason.RENDERING, None, "system prompt or tools")
    if newest.path()[0].rendering is not rendering:
        return _fork(newest, ForkReason.RENDERING, None, "options of the chat template")
    index, change = _first_difference(newest, history)
    if agreed.instead_of is not None:
        return _fork(newest, ForkReason.RETRY, index, change)
    if any(node.depth == index and node.turn.fate is TurnFate.EDITED for node in newest.path()):
        return _fork(newest, ForkReason.EDITED_ANSWER, index, change)
    held = _position(newest, history)
    if held is None:
        return _fork(newest, ForkReason.REWIND, index, change)
    if held < newest.depth:
        words = f"{change}; {held} messages before the newest answer, {newest.depth} were recorded"
        return _fork(newest, ForkReason.COMPACTION, index, words)
    return _fork(newest, ForkReason.EDITED_HISTORY, index, change)


def _fork(newest: Node, reason: ForkReason, index: int | None, change: str) -> Fork:
    return Fork(reason=reason, after=newest.turn.index, message_index=index, change=change)


def _first_difference(newest: Node, history: HostHistory) -> tuple[int | None, str]:
    """Return the index of the first message that is not the recorded one, and how it differs."""
    expected = newest.expected()
    for index, forms in enumerate(expected):
        if index >= len(history.digests):
            return index, f"the history ends after {index} messages, {len(expected)} were recorded"
        if history.digests[index] not in forms:
            return index, f"message {index} ({history.role(index)}) is not the one recorded"
    # Not the newest turn, but one as deep: the host went back to an answer that it had replaced.
    return None, "an older answer"


def _position(newest: Node, history: HostHistory) -> int | None:
    """Return where the newest answer stands in the history, None where it does not."""
    places = (at for at, digest in enumerate(history.digests) if digest in newest.answers)
    return max(places, default=None)

"""How far a history agrees with the recorded turns, and what became of the answers that it no longer holds.

Only what can be compared decides, never a count. Two things are told apart that both leave an answer out: a context
that was cut down (a window, a summary, deleted messages) keeps the newest answer, and earlier ones stay what they were;
a host that goes back (a retry, a snapshot) drops the newest answer too, and everything since the question that it asks
again was thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.trajectory import Turn, TurnFate

from .history import HostHistory


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A committed turn with what is needed to recognise it in a history.

    Attributes:
        turn: The recorded turn.
        parent: The node before it, or None.
        root: Fingerprint of system prompt and tools.
        rendering: What its prompt was rendered by; a root is recognised only under the same.
        given: Fingerprints of the messages that were new in its prompt.
        depth: Number of messages before its answer.
        question: Identity of the last of those messages, where the host says.
        answers: Fingerprints of the forms in which the host may hold its answer.
        finish_reason: How the engine says that it ended.
        instead_of: The node whose answer was thrown away for this one, or None.
        origin: What the prompt of its root was rendered by.
    """

    turn: Turn
    parent: Node | None
    root: bytes
    rendering: ChatTokenizer
    given: tuple[bytes, ...]
    depth: int
    question: str | None
    answers: frozenset[bytes]
    finish_reason: str
    instead_of: Node | None
    origin: ChatTokenizer

    @property
    def start(self) -> int:
        """Index of the first message that was new in its prompt."""
        return self.depth - len(self.given)

    def path(self) -> list[Node]:
        """Return the nodes from the root to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def whole_answer(self) -> list[Node]:
        """Return the nodes of one answer: this one, and before it those that it went on with after a cut."""
        nodes = [self]
        while nodes[0].parent is not None and not nodes[0].turn.prompt.ids:
            nodes.insert(0, nodes[0].parent)
        return nodes

    def expected(self) -> list[frozenset[bytes]]:
        """Return, for each message of a history that goes on from this turn, the fingerprints it may have."""
        forms: list[frozenset[bytes]] = []
        for node in self.path():
            forms += [*(frozenset((digest,)) for digest in node.given), node.answers]
        return forms

    def was_asked(self, history: HostHistory, rendering: ChatTokenizer, parent_agrees: bool) -> bool:
        """Whether the history still begins with the messages that this turn answered."""
        if self.parent is None:
            parent_agrees = self.root == history.root and self.rendering is rendering
        return parent_agrees and tuple(history.digests[self.start : self.depth]) == self.given

    def was_answered(self, history: HostHistory) -> bool:
        """Whether the message after those is this turn's answer."""
        return len(history.digests) > self.depth and history.digests[self.depth] in self.answers

    def is_held(self, history: HostHistory) -> bool:
        """Whether the history holds this turn's answer anywhere."""
        return not self.answers.isdisjoint(history.digests)

    def is_asked_again(self, history: HostHistory) -> bool:
        """Whether the question in the history is the very one this turn answered, as far as the host says."""
        now = history.identity(self.depth - 1)
        return now is None or self.question is None or now == self.question


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far a history agrees with a conversation.

    Attributes:
        parent: The deepest turn whose answer the history still holds, or None; of equally deep ones the newest.
        fates: What became of answers, where it is not what is recorded of them.
        instead_of: The turn whose answer was thrown away to be replaced by the next one, or None.
    """

    parent: Node | None
    fates: tuple[tuple[Node, TurnFate], ...] = ()
    instead_of: Node | None = None


def kept(parent: Node | None) -> tuple[tuple[Node, TurnFate], ...]:
    """Return the turns of a branch that is gone on with, where they are not known to be kept."""
    path = parent.path() if parent else []
    return tuple((node, TurnFate.KEPT) for node in path if node.turn.fate is not TurnFate.KEPT)


def agreement(
    nodes: Sequence[Node], history: HostHistory, rendering: ChatTokenizer, stand_ins: Set[bytes] = frozenset()
) -> Agreement:
    """Compare a history with the recorded turns of a conversation.

    Args:
        nodes: The turns, in order of commit.
        history: What the host holds now.
        rendering: What the next prompt will be rendered by.
        stand_ins: Fingerprints of what the host writes in the place of an answer that it threw away.
    """
    asked: set[int] = set()
    agreeing: set[int] = set()
    parent: Node | None = None
    for node in nodes:
        if not node.was_asked(history, rendering, id(node.parent) in agreeing):
            continue
        asked.add(id(node))
        if node.was_answered(history):
            agreeing.add(id(node))
            if parent is None or node.depth >= parent.depth:
                parent = node
    fates = [(node, TurnFate.KEPT) for node in parent.path()] if parent else []
    instead_of = None
    if nodes and id(nodes[-1]) not in agreeing:
        left = next(node for node in nodes[-1].path() if id(node) not in agreeing)
        open_questions = asked - agreeing
        if _was_edited(left, nodes, history, open_questions, stand_ins):
            fates.append((left, TurnFate.EDITED))
        elif not nodes[-1].is_held(history):
            again = (n for n in _alternatives(left) if id(n) in open_questions and n.is_asked_again(history))
            if (instead_of := next(again, None)) is not None:
                path = nodes[-1].path()
                fates += [(node, TurnFate.DISCARDED) for node in path[path.index(left) :]]
    changed = tuple((node, fate) for node, fate in fates if node.turn.fate is not fate)
    return Agreement(parent=parent, fates=changed, instead_of=instead_of)


def _was_edited(
    left: Node, nodes: Sequence[Node], history: HostHistory, open_questions: Set[int], stand_ins: Set[bytes]
) -> bool:
    """Whether another text stands in the place of an answer: none that was recorded, nor one that means "none"."""
    if id(left) not in open_questions or left.turn.fate is TurnFate.DISCARDED or left.is_held(history):
        return False
    if history.role(left.depth) != "assistant":
        return False
    digest = history.digests[left.depth]
    return digest not in stand_ins and not any(digest in node.answers for node in nodes)


def _alternatives(node: Node | None) -> Iterator[Node]:
    """Yield a node and those whose answers were thrown away before it in the same place."""
    while node is not None:
        yield node
        node = node.instead_of

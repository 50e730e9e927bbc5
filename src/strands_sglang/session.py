"""One conversation: from the host's history to a request, and from the reply to the record.

`prepare` changes nothing; it returns a `PendingTurn` whose request begins with exactly the tokens recorded so far.
`PendingTurn.commit` is the only writer, one step without an await (guarantee G8). What the host holds is compared
message by message with what was sent (G3): equal history is extended, changed history goes on from the deepest turn
that still agrees. Messages of the host are opaque here: they are fingerprinted, and their chat form is asked for only
where it is needed. No I/O, no Strands.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .errors import HistoryDivergedError, StaleTurnError
from .rollout import Segment, SegmentKind
from .tokenization import ChatTokenizer, PromptTokens, SampledTurn
from .trajectory import Lineage, Trajectory, Turn, TurnFate
from .wire import GenerateReply, GenerateRequest, PromptIds

ChatMessage = Mapping[str, Any]
"""A message in chat-template form; see `strands_sglang.tokenization`."""


class OnDivergence(StrEnum):
    """What to do when the host's history is no longer the recorded one."""

    BRANCH = "branch"
    """Go on from the deepest turn that still agrees."""
    RAISE = "raise"
    """Raise `HistoryDivergedError`."""


def fingerprint(message: Any) -> bytes:
    """Return 16 bytes that are equal for equal messages of equal types, in the same key order.

    `==` is not enough: it holds `1`, `1.0` and `True` for the same, which a template renders differently.
    """
    try:
        # Version 2 has no references and no interning, so that equal values always give equal bytes.
        encoded = marshal.dumps(message, 2)
    except ValueError:  # a value that is not a plain built-in, such as an enum member
        encoded = repr(message).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHistory:
    """What the host asks to have continued.

    Attributes:
        messages: The host's own messages, opaque; index 0 is the oldest.
        system: The system prompt in whatever form the host has it; compared by value.
        tools: Tool definitions in chat-template form, or None; compared by value, order included.
        chat: `chat(start, stop)` gives the chat form of `messages[start:stop]`; with `start` 0 it begins with the
            system message, if there is one.
        images: `images(start, stop)` gives the images of those messages as data URLs, in order.
    """

    messages: Sequence[Any]
    system: Any
    tools: Sequence[Mapping[str, Any]] | None
    chat: Callable[[int, int], list[ChatMessage]]
    images: Callable[[int, int], tuple[str, ...]]


@dataclass(slots=True, kw_only=True, eq=False)
class _Node:
    """A committed turn with what is needed to recognise it in a history.

    Attributes:
        turn: The recorded turn.
        parent: The node before it, or None.
        root: Fingerprint of system prompt and tools.
        given: Fingerprints of the messages that were new in its prompt.
        depth: Number of messages before its answer.
        answers: Fingerprints of the forms in which the host may hold its answer.
        finish_reason: How the engine says that it ended.
    """

    turn: Turn
    parent: _Node | None
    root: bytes
    given: tuple[bytes, ...]
    depth: int
    answers: frozenset[bytes]
    finish_reason: str

    @property
    def start(self) -> int:
        """Index of the first message that was new in its prompt."""
        return self.depth - len(self.given)

    def expected(self) -> list[frozenset[bytes]]:
        """Return, for each message of a history that goes on from this turn, the fingerprints it may have."""
        before = self.parent.expected() if self.parent else []
        return [*before, *(frozenset((digest,)) for digest in self.given), self.answers]

    def was_asked(self, digests: Sequence[bytes], root: bytes, parent_agrees: bool) -> bool:
        """Whether the history still begins with the messages that this turn answered."""
        if self.parent is None:
            parent_agrees = self.root == root
        return parent_agrees and tuple(digests[self.start : self.depth]) == self.given

    def was_answered(self, digests: Sequence[bytes]) -> bool:
        """Whether the message after those is this turn's answer."""
        return len(digests) > self.depth and digests[self.depth] in self.answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Agreement:
    """How far a history agrees with a conversation.

    Attributes:
        parent: The deepest turn whose answer the history still holds, or None.
        superseded: The newest kept turn whose question the history holds, but not its answer, or None.
        superseded_fate: What became of that answer.
    """

    parent: _Node | None
    superseded: _Node | None
    superseded_fate: TurnFate


class Conversation:
    """The turns of one agent's loop, or of one chain of side calls."""

    def __init__(
        self,
        *,
        chat_tokenizer: ChatTokenizer,
        trajectory: Trajectory,
        number: int,
        lineage: Lineage,
    ) -> None:
        """Create an empty conversation.

        Args:
            chat_tokenizer: Turns messages into ids.
            trajectory: Where committed turns go.
            number: Number of the conversation within the trajectory.
            lineage: Whose loop it is.
        """
        self.chat_tokenizer = chat_tokenizer
        self.trajectory = trajectory
        self.number = number
        self._lineage = lineage
        self._nodes: list[_Node] = []
        # The ids up to and including the newest turn, so that a linear episode never gathers or encodes them again.
        self._context = PromptIds()
        self._context_node: _Node | None = None

    @property
    def lineage(self) -> Lineage:
        """Whose loop it is; setting it relabels the turns that are already there."""
        return self._lineage

    @lineage.setter
    def lineage(self, lineage: Lineage) -> None:
        self._lineage = lineage
        for node in self._nodes:
            node.turn.lineage = lineage

    @property
    def last_turn(self) -> Turn | None:
        """The turn committed last; its path is the active branch."""
        return self._nodes[-1].turn if self._nodes else None

    def holds(self, history: HostHistory) -> bool:
        """Whether the history goes on from a turn of this conversation."""
        digests, root = self._fingerprints(history)
        return self._agreement(history, digests, root).parent is not None

    def prepare(
        self,
        history: HostHistory,
        *,
        on_divergence: OnDivergence = OnDivergence.BRANCH,
        **options: Any,
    ) -> PendingTurn:
        """Turn a history into a request, changing nothing.

        Args:
            history: What the host asks to have continued.
            on_divergence: What to do when the history is not the recorded one.
            **options: Fields of `GenerateRequest` other than the ids. `return_prompt_logprob` and
                `return_routed_experts` are translated to the spans of what is new.

        Raises:
            HistoryDivergedError: If the history was changed and `on_divergence` is "raise".
            TokenizationError: If the messages cannot be turned into ids without guessing.
        """
        digests, root = self._fingerprints(history)
        agreement = self._agreement(history, digests, root)
        parent = agreement.parent
        if on_divergence is OnDivergence.RAISE and self._nodes and parent is not self._nodes[-1]:
            raise self._divergence(history, digests, root)
        start = parent.depth + 1 if parent else 0
        prompt = self._prompt(history, parent, start)
        context = self._context_of(parent)
        if prompt.trimmed:
            context = PromptIds(context[: -prompt.trimmed])
        input_ids = context.extended(prompt.ids)
        images = history.images(start, len(history.messages))
        earlier_images = [image for turn in parent.turn.path() for image in turn.images] if parent else []
        return PendingTurn(
            conversation=self,
            parent=parent,
            root=root,
            given=tuple(digests[start:]),
            prompt=prompt,
            images=images,
            superseded=agreement.superseded,
            superseded_fate=agreement.superseded_fate,
            reasoning_open=self.chat_tokenizer.reasoning_open(input_ids),
            request=self._request(input_ids, len(context), [*earlier_images, *images], options),
        )

    def _fingerprints(self, history: HostHistory) -> tuple[list[bytes], bytes]:
        """Return the fingerprint of each message, and that of system prompt and tools."""
        return [fingerprint(message) for message in history.messages], fingerprint([history.system, history.tools])

    def _agreement(self, history: HostHistory, digests: Sequence[bytes], root: bytes) -> _Agreement:
        """Find the deepest turn that still agrees; of equally deep ones the newest."""
        agreeing: set[int] = set()
        answered_depths: set[int] = set()
        parent: _Node | None = None
        superseded: _Node | None = None
        for node in self._nodes:
            if not node.was_asked(digests, root, id(node.parent) in agreeing):
                continue
            if node.was_answered(digests):
                agreeing.add(id(node))
                answered_depths.add(node.depth)
                if parent is None or node.depth >= parent.depth:
                    parent = node
            elif node.turn.fate is TurnFate.KEPT:
                superseded = node
        fate = TurnFate.DISCARDED
        if superseded is not None and superseded.depth not in answered_depths:
            follows = history.messages[superseded.depth] if superseded.depth < len(history.messages) else None
            fate = TurnFate.EDITED if _role(follows) == "assistant" else TurnFate.DISCARDED
        return _Agreement(parent=parent, superseded=superseded, superseded_fate=fate)

    def _prompt(self, history: HostHistory, parent: _Node | None, start: int) -> PromptTokens:
        """Return the ids of what is new: the whole first prompt, or what the template puts after a turn."""
        end = len(history.messages)
        if parent is None:
            return self.chat_tokenizer.first(history.chat(0, end), history.tools)
        turn = SampledTurn(
            prompt_ids=parent.turn.prompt.ids,
            ids=parent.turn.sampled.ids,
            message=history.chat(parent.depth, start)[-1],
            finish_reason=parent.finish_reason,
        )
        context = history.chat(0, parent.depth)
        return self.chat_tokenizer.bridge(context, turn, history.chat(start, end), history.tools)

    def _context_of(self, node: _Node | None) -> PromptIds:
        """Return the ids up to and including a turn."""
        if node is None:
            return PromptIds()
        if node is self._context_node:
            return self._context
        return PromptIds(node.turn.rollout().token_ids)

    def _request(
        self, input_ids: PromptIds, known: int, images: list[str], options: Mapping[str, Any]
    ) -> GenerateRequest:
        """Build the request; `known` is the number of ids that were recorded before."""
        fields = dict(options)
        if fields.pop("return_prompt_logprob", False):
            # The first entry of the span asked for never has a value, so the span begins one token early.
            fields["logprob_start_len"] = max(0, known - 1)
        if fields.get("return_routed_experts"):
            # The last sampled token had no row in its own turn: it was never fed to the model.
            fields["routed_experts_start_len"] = max(0, known - 1)
        return GenerateRequest(
            input_ids=input_ids,
            image_data=images,
            conversation_id=f"{self.trajectory.id}-{self.number}",
            **fields,
        )

    def _divergence(self, history: HostHistory, digests: Sequence[bytes], root: bytes) -> HistoryDivergedError:
        """Say what differs from the newest branch."""
        newest = self._nodes[-1]
        if newest.root != root:
            return HistoryDivergedError(
                "the system prompt or the tools are not those of the recorded turns", change="system prompt or tools"
            )
        expected = newest.expected()
        for index, forms in enumerate(expected):
            if index >= len(digests):
                change = f"the history ends after {len(digests)} messages, {len(expected)} were recorded"
            elif digests[index] not in forms:
                change = f"message {index} ({_role(history.messages[index])}) is not the one recorded"
            else:
                continue
            return HistoryDivergedError(
                f"the host's history was changed: {change}; on_divergence='branch' would start a branch here",
                message_index=index,
                change=change,
            )
        # Not the newest turn, but one as deep: the host went back to an answer that it had replaced.
        return HistoryDivergedError("the host's history goes on from an older answer", change="an older answer")

    def _commit(
        self, pending: PendingTurn, reply: GenerateReply, answers: Sequence[Any], facts: Mapping[str, Any]
    ) -> Turn:
        """Append a turn; only `PendingTurn.commit` calls this."""
        depth = (pending.parent.depth + 1 if pending.parent else 0) + len(pending.given)
        turn = Turn(
            index=len(self.trajectory.turns),
            parent=pending.parent.turn if pending.parent else None,
            prompt=_prompt_segment(pending, reply),
            sampled=Segment.of(
                SegmentKind.SAMPLED,
                reply.output_ids,
                reply.output_logprobs,
                weight_spans=tuple((span.version, span.start, span.end) for span in reply.weight_versions),
                message_index=depth,
                facts=facts,
            ),
            conversation=self.number,
            lineage=self.lineage,
            images=pending.images,
        )
        node = _Node(
            turn=turn,
            parent=pending.parent,
            root=pending.root,
            given=pending.given,
            depth=depth,
            answers=frozenset(fingerprint(answer) for answer in answers),
            finish_reason=reply.finish_reason.type.value,
        )
        context = pending.request.prompt.extended(reply.output_ids)
        # Nothing below can fail, so that a turn is recorded whole or not at all.
        if pending.superseded is not None:
            pending.superseded.turn.fate = pending.superseded_fate
        self.trajectory.add(turn)
        self._nodes.append(node)
        self._context, self._context_node = context, node
        return turn


@dataclass(slots=True, kw_only=True, eq=False)
class PendingTurn:
    """A turn that was prepared and not yet committed.

    Attributes:
        conversation: Where it will be appended.
        request: What to send.
        prompt: The new prompt ids and what is known of them.
        images: Images that belong to the new prompt ids, as data URLs.
        reasoning_open: Whether the prompt ends inside an open reasoning block.
    """

    conversation: Conversation
    request: GenerateRequest
    prompt: PromptTokens
    images: tuple[str, ...]
    reasoning_open: bool
    parent: _Node | None
    root: bytes
    given: tuple[bytes, ...]
    superseded: _Node | None
    superseded_fate: TurnFate
    _committed: bool = field(default=False)

    def commit(self, reply: GenerateReply, *, answers: Sequence[Any], facts: Mapping[str, Any]) -> Turn:
        """Append the reply to the record, in one step.

        Args:
            reply: The validated reply to `request`.
            answers: The forms in which the host may hold the answer in its history from now on.
            facts: What is known of the turn, as JSON values.

        Returns:
            The committed turn.

        Raises:
            StaleTurnError: If this turn was committed before.
        """
        if self._committed:
            raise StaleTurnError("this turn was committed before; prepare it again for another answer")
        turn = self.conversation._commit(self, reply, answers, facts)
        self._committed = True
        return turn


def _role(message: Any) -> str | None:
    """Return a message's role where it has one."""
    return message.get("role") if isinstance(message, Mapping) else None


def _prompt_segment(pending: PendingTurn, reply: GenerateReply) -> Segment:
    """Return the prompt's segment, with logprobs where the server was asked for them."""
    ids = pending.prompt.ids
    values = None
    if reply.input_logprobs:
        newest = list(reply.input_logprobs)[-len(ids) :] if ids else []
        values = [None] * (len(ids) - len(newest)) + newest
    facts = {"guarded": [literal.literal for literal in pending.prompt.guarded]} if pending.prompt.guarded else {}
    return Segment.of(SegmentKind.PROMPT, ids, values, replaces=pending.prompt.trimmed, facts=facts)

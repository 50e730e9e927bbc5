"""One conversation: prepare, commit, and the ids in between.

`prepare` returns a `PendingTurn` whose request begins with exactly the tokens recorded so far. It changes no token and
no turn; it only notes what became of earlier answers, which the host's history shows whatever becomes of the call.
`PendingTurn.commit` is the only writer, one step without an await (guarantee G8). The chat form of messages is asked
for only where it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import Any

from strands_sglang.errors import HistoryDivergedError, StaleTurnError
from strands_sglang.rollout import LogprobKind, Segment, SegmentKind
from strands_sglang.tokenization import ChatTokenizer, PromptTokens, SampledTurn
from strands_sglang.trajectory import Fork, ForkReason, Lineage, Trajectory, Turn
from strands_sglang.wire import GenerateReply, GenerateRequest, PromptIds

from .agreement import Agreement, Node, agreement, kept
from .fork import fork_of
from .history import HostHistory, OnDivergence, fingerprint


class Conversation:
    """The turns of one agent's loop, or of one chain of side calls."""

    def __init__(
        self,
        *,
        chat_tokenizer: ChatTokenizer,
        trajectory: Trajectory,
        number: int,
        lineage: Lineage,
        stand_ins: Set[bytes] = frozenset(),
        lock: threading.Lock | None = None,
    ) -> None:
        """Create an empty conversation.

        Args:
            chat_tokenizer: Turns messages into ids; may be replaced between calls, and then renders the next prompt.
            trajectory: Where committed turns go.
            number: Number of the conversation within the trajectory.
            lineage: Whose loop it is.
            stand_ins: Fingerprints of messages that the host writes in the place of an answer that it threw away.
            lock: Held while a turn is added to the trajectory; all its conversations share one.
        """
        self.chat_tokenizer = chat_tokenizer
        self.trajectory = trajectory
        self.number = number
        self._lineage = lineage
        self._stand_ins = stand_ins
        self._lock = lock if lock is not None else threading.Lock()
        self._nodes: list[Node] = []
        self._newest = _Newest()

    @property
    def lineage(self) -> Lineage:
        """Whose loop it is; setting it relabels the turns that are already there."""
        return self._lineage

    @lineage.setter
    def lineage(self, lineage: Lineage) -> None:
        with self._lock:
            self._lineage = lineage
            for node in self._nodes:
                node.turn.lineage = lineage

    @property
    def last_turn(self) -> Turn | None:
        """The turn committed last; its path is the active branch."""
        return self._nodes[-1].turn if self._nodes else None

    def is_continued_by(self, history: HostHistory, *, newest: bool = True) -> bool:
        """Whether a history goes on from the newest turn; or from any turn, if `newest` is false."""
        parent = self._compare(history).parent
        return parent is not None and (not newest or parent is self._nodes[-1])

    def prepare(
        self,
        history: HostHistory,
        *,
        on_divergence: OnDivergence = OnDivergence.BRANCH,
        continue_truncated: bool = False,
        **options: Any,
    ) -> PendingTurn:
        """Turn a history into a request, adding nothing to the record.

        Args:
            history: What the host asks to have continued.
            on_divergence: What to do when the history is not the recorded one.
            continue_truncated: Where the history ends with an answer that was cut by length, sample on from its tokens
                instead of closing the turn and beginning another.
            **options: Fields of `GenerateRequest` other than the ids. `return_prompt_logprob` and
                `return_routed_experts` are translated to the spans of what is new.

        Raises:
            HistoryDivergedError: If the history was changed and `on_divergence` is "raise".
            TokenizationError: If the messages cannot be turned into ids without guessing.
        """
        agreed = self._compare(history)
        parent = agreed.parent
        for node, fate in agreed.fates:
            node.turn.fate = fate
        newest = self._nodes[-1] if self._nodes else None
        fork = fork_of(newest, history, agreed, self.chat_tokenizer) if newest and parent is not newest else None
        if fork is not None and on_divergence is OnDivergence.RAISE:
            raise _diverged(fork)
        start = parent.depth + 1 if parent else 0
        unfinished: list[int] = []
        if continue_truncated and parent and parent.finish_reason == "length" and start == len(history.messages):
            prompt = PromptTokens(ids=[])
            unfinished = [token for node in parent.whole_answer() for token in node.turn.sampled.ids]
        else:
            prompt = self._prompt(history, parent, start)
        context = self._context_of(parent)
        if prompt.trimmed:
            context = PromptIds(context[: -prompt.trimmed])
        input_ids = context.extended(prompt.ids)
        images = history.images(start, len(history.messages))
        earlier_images = [image for turn in parent.turn.path() for image in turn.images] if parent else []
        return PendingTurn(
            conversation=self,
            agreed=agreed,
            fork=fork,
            history=history,
            rendering=self.chat_tokenizer,
            prompt=prompt,
            images=images,
            unfinished=unfinished,
            reasoning_open=self.chat_tokenizer.reasoning_open(_without(input_ids, len(unfinished))),
            request=self._request(input_ids, len(context), [*earlier_images, *images], options),
        )

    def _compare(self, history: HostHistory) -> Agreement:
        """Compare a history with the recorded turns."""
        if (node := self._newest.continued_by(history, self.chat_tokenizer)) is not None:
            return Agreement(parent=node, fates=kept(node))
        return agreement(tuple(self._nodes), history, self.chat_tokenizer, self._stand_ins)

    def _prompt(self, history: HostHistory, parent: Node | None, start: int) -> PromptTokens:
        """Return the ids of what is new: the whole first prompt, or what the template puts after a turn."""
        end = len(history.messages)
        if parent is None:
            return self.chat_tokenizer.first(history.chat(0, end), history.tools)
        answer = parent.whole_answer()
        turn = SampledTurn(
            prompt_ids=answer[0].turn.prompt.ids,
            ids=[token for node in answer for token in node.turn.sampled.ids],
            message=history.chat(parent.depth, start)[-1],
            finish_reason=parent.finish_reason,
        )
        context = history.chat(0, answer[0].depth)
        return self.chat_tokenizer.bridge(context, turn, history.chat(start, end), history.tools)

    def _context_of(self, node: Node | None) -> PromptIds:
        """Return the ids up to and including a turn."""
        if node is None:
            return PromptIds()
        newest = self._newest
        if node is newest.node:
            return newest.context
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

    def _commit(
        self, pending: PendingTurn, reply: GenerateReply, answers: Sequence[Any], facts: Mapping[str, Any]
    ) -> Turn:
        """Append a turn; only `PendingTurn.commit` calls this."""
        history, parent = pending.history, pending.agreed.parent
        start, depth = parent.depth + 1 if parent else 0, len(history.messages)
        prompt = _prompt_segment(pending, reply)
        context = pending.request.prompt.extended(reply.output_ids)
        sampled = Segment.of(
            SegmentKind.SAMPLED,
            context.newest if reply.output_ids else (),  # one array for the record and for the next prompt
            reply.output_logprobs,
            weight_spans=tuple((span.version, span.start, span.end) for span in reply.weight_versions),
            message_index=depth,
            facts=facts,
        )
        forms = frozenset(fingerprint(answer) for answer in answers)
        with self._lock:
            # Nothing below can fail, so that a turn is recorded whole or not at all.
            turn = Turn(
                index=len(self.trajectory.turns),
                parent=parent.turn if parent else None,
                prompt=prompt,
                sampled=sampled,
                conversation=self.number,
                lineage=self._lineage,
                images=pending.images,
            )
            node = Node(
                turn=turn,
                parent=parent,
                root=history.root,
                rendering=pending.rendering,
                given=tuple(history.digests[start:]),
                depth=depth,
                question=history.identity(depth - 1),
                answers=forms,
                finish_reason=reply.finish_reason.type.value,
                instead_of=pending.agreed.instead_of,
                origin=parent.origin if parent else pending.rendering,
            )
            self.trajectory.add(turn)
            self._nodes.append(node)
            deepest = max(depth, self._newest.deepest)
            self._newest = _Newest(node=node, context=context, given=history.digests[:depth], deepest=deepest)
        return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    """What is known of the newest turn, so that a linear episode never compares, gathers or encodes it again.

    One object: threads that share a conversation never see a part of it without the rest.

    Attributes:
        node: The newest turn, or None.
        context: The ids up to and including it.
        given: Fingerprints of the messages before its answer.
        deepest: The largest depth of any turn.
    """

    node: Node | None = None
    context: PromptIds = field(default_factory=PromptIds)
    given: list[bytes] = field(default_factory=list)
    deepest: int = -1

    def continued_by(self, history: HostHistory, rendering: ChatTokenizer) -> Node | None:
        """Return the newest turn if a history goes on from it and no other turn can be as deep or deeper."""
        node, digests = self.node, history.digests
        if node is None or node.depth < self.deepest or len(digests) <= node.depth:
            return None
        if node.origin is not rendering or node.root != history.root or digests[node.depth] not in node.answers:
            return None
        return node if digests[: node.depth] == self.given else None


@dataclass(slots=True, kw_only=True, eq=False)
class PendingTurn:
    """A turn that was prepared and not yet committed.

    Attributes:
        conversation: Where it will be appended.
        request: What to send.
        prompt: The new prompt ids and what is known of them.
        images: Images that belong to the new prompt ids, as data URLs.
        unfinished: Sampled ids of the truncated answer that this turn goes on with; empty for a turn of its own.
        reasoning_open: Whether the prompt, before `unfinished`, ends inside an open reasoning block.
        history: What the host asked to have continued.
        agreed: How far it agrees with the recorded turns.
        fork: Why it does not go on from the newest turn; None where it does.
        rendering: What the prompt was rendered by.
    """

    conversation: Conversation
    request: GenerateRequest
    prompt: PromptTokens
    images: tuple[str, ...]
    unfinished: list[int]
    reasoning_open: bool
    history: HostHistory
    agreed: Agreement
    fork: Fork | None
    rendering: ChatTokenizer
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


def _without(ids: PromptIds, count: int) -> Sequence[int]:
    """Return ids without the last `count`."""
    return ids[: len(ids) - count] if count else ids


def _diverged(fork: Fork) -> HistoryDivergedError:
    """Say what differs from the newest branch."""
    if fork.reason is ForkReason.RENDERING:
        message = f"the {fork.change} are not those of the recorded turns"
    elif fork.message_index is None:
        message = f"the host's history goes on from {fork.change}"
    else:
        message = f"the host's history was changed: {fork.change}; on_divergence='branch' would start a branch here"
    return HistoryDivergedError(message, message_index=fork.message_index, change=fork.change)


def _prompt_segment(pending: PendingTurn, reply: GenerateReply) -> Segment:
    """Return the prompt's segment, with logprobs where the server was asked for them."""
    ids = pending.prompt.ids
    values = None
    if reply.input_logprobs:
        newest = list(reply.input_logprobs)[-len(ids) :] if ids else []
        values = [None] * (len(ids) - len(newest)) + newest
    # One array for the record and for the prompts to come.
    shared = pending.request.prompt.newest if ids else ()
    facts = _prompt_facts(pending, measured=values is not None)
    return Segment.of(SegmentKind.PROMPT, shared, values, replaces=pending.prompt.trimmed, facts=facts)


def _prompt_facts(pending: PendingTurn, *, measured: bool) -> dict[str, Any]:
    """Return what is known of the prompt beside its tokens; docs/record.md lists the keys."""
    parent, prompt = pending.agreed.parent, pending.prompt
    facts: dict[str, Any] = {"messages": [parent.depth + 1 if parent else 0, len(pending.history.messages)]}
    if prompt.guarded:
        facts["guarded"] = [asdict(literal) for literal in prompt.guarded]
    if prompt.trimmed and parent:
        facts["trimmed"] = parent.turn.sampled.ids[-prompt.trimmed :].tolist()
    if measured:
        facts["logprob_kind"] = LogprobKind.UNTEMPERED.value
    if pending.fork is not None:
        facts["fork"] = pending.fork.to_dict()
    return facts

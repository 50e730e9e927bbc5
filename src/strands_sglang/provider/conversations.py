"""Which conversation a call of the provider belongs to.

An agent's own loop is told by its `cancel_signal`, one object for the agent's life; `invocation_state["agent"]` is not
reliable where agents run at once, and is believed only where it owns that signal. An agent that takes over where
another left off (a restored session, a snapshot loaded elsewhere, two agents on one list) goes on in its conversation.
Calls outside any loop (summaries, legacy structured output) carry no signal: each goes on from a side conversation that
it continues, or begins a new one, and never touches an agent's. Nothing here depends on when objects are collected.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from strands_sglang.session import Conversation, HostHistory, fingerprint
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.trajectory import Lineage, Trajectory, Turn

from .history import Converted

# What Strands writes in the place of an answer when the invocation is cancelled while the answer arrives.
_STAND_INS = frozenset([fingerprint({"role": "assistant", "content": [{"text": "Cancelled by user"}]})])


class Conversations:
    """All conversations of one episode.

    Attributes:
        trajectory: Where their turns go.
        converted: The chat form of the messages that agents' loops were given.
    """

    def __init__(self) -> None:
        """Begin an episode without conversations."""
        self.trajectory = Trajectory()
        self._owners: weakref.WeakKeyDictionary[threading.Event, Conversation] = weakref.WeakKeyDictionary()
        self._of_agents: list[Conversation] = []
        self._aside: list[Conversation] = []
        self._sessions: dict[int, str | None] = {}
        self._taken: dict[int, Turn | None] = {}
        self.converted: Converted = {}
        # Synchronous tools run in threads of their own: agents in them may share the provider at the same time.
        self._lock = threading.Lock()
        self._commit_lock = threading.Lock()

    @property
    def main(self) -> Conversation | None:
        """The first agent's conversation; without an agent, the first one; None before any call."""
        return next((first for first in (*self._of_agents[:1], *self._aside[:1])), None)

    def of_agent(
        self,
        cancel_signal: threading.Event,
        chat_tokenizer: ChatTokenizer,
        history: HostHistory | None = None,
        session_id: str | None = None,
    ) -> Conversation:
        """Return the conversation of the agent that owns a cancel signal.

        Args:
            cancel_signal: The agent's own event.
            chat_tokenizer: Renders the next prompt.
            history: What is to be continued; tells whether an agent that is new here takes over from another.
            session_id: The agent's saved session, or None.
        """
        with self._lock:
            conversation = self._owners.get(cancel_signal)
            if conversation is None:
                conversation = self._taken_over(history, session_id) if history is not None else None
            if conversation is None:
                conversation = self._new(chat_tokenizer, Lineage.AGENT if self._of_agents else Lineage.MAIN)
                if not self._of_agents and self._aside:
                    # What looked like the episode's own conversation was a side call before it.
                    self._aside[0].lineage = Lineage.SIDE_CALL
                self._of_agents.append(conversation)
                self._sessions[conversation.number] = session_id
            self._owners[cancel_signal] = conversation
            conversation.chat_tokenizer = chat_tokenizer  # options that were changed take effect
            return conversation

    def aside(self, history: HostHistory, chat_tokenizer: ChatTokenizer) -> Conversation:
        """Return the side conversation that a history goes on from, or a new one."""
        with self._lock:
            for conversation in reversed(self._aside):
                if conversation.chat_tokenizer is chat_tokenizer and conversation.is_continued_by(history):
                    return conversation
            conversation = self._new(chat_tokenizer, Lineage.SIDE_CALL if self.main else Lineage.MAIN)
            self._aside.append(conversation)
            return conversation

    def _taken_over(self, history: HostHistory, session_id: str | None) -> Conversation | None:
        """Return the agent's conversation that a new agent goes on with, if there is one.

        That is one whose newest turn ended a loop and is continued, by the first agent that does so; or any turn of
        which is continued in the same saved session. Further agents from one point are others, and so is one that is
        given the history of a loop still running, as a sub-agent in a tool may be.
        """
        for conversation in reversed(self._of_agents):
            number, newest = conversation.number, conversation.last_turn
            same_session = session_id is not None and self._sessions[number] == session_id
            free = _is_idle(conversation) and self._taken.get(number) is not newest
            if (same_session or free) and conversation.is_continued_by(history, newest=not same_session):
                self._taken[number] = newest
                return conversation
        return None

    def _new(self, chat_tokenizer: ChatTokenizer, lineage: Lineage) -> Conversation:
        """Make a conversation with the next number."""
        return Conversation(
            chat_tokenizer=chat_tokenizer,
            trajectory=self.trajectory,
            number=len(self._of_agents) + len(self._aside),
            lineage=lineage,
            stand_ins=_STAND_INS,
            lock=self._commit_lock,
        )


def _is_idle(conversation: Conversation) -> bool:
    """Whether the newest turn ended its agent's loop: it asked for no tool."""
    turn = conversation.last_turn
    return turn is not None and not turn.sampled.facts.get("calls")


def tracking_ids(
    messages: Sequence[Any], cancel_signal: threading.Event | None, invocation_state: Mapping[str, Any] | None
) -> list[str | None] | None:
    """Return the ids that Strands gives to the messages of an agent's history, or None where they cannot be had.

    Strands takes them off the messages that it hands to a provider, so they are read from the agent itself.

    Args:
        messages: The messages as they were handed to the provider.
        cancel_signal: The signal of the agent that calls.
        invocation_state: What may name that agent.
    """
    agent = (invocation_state or {}).get("agent")
    held = getattr(agent, "messages", None)
    if cancel_signal is None or held is None or getattr(agent, "cancel_signal", None) is not cancel_signal:
        return None
    if len(held) != len(messages):  # middleware changed the messages of this call
        return None
    return [message.get("tracking_id") for message in held]

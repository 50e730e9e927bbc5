"""Which conversation a call of the provider belongs to.

An agent's own loop is told by its `cancel_signal`, one object for the agent's life; `invocation_state["agent"]` is not
reliable where agents run at once. Calls outside any loop (summaries, legacy structured output) carry none: each goes on
from a side conversation that holds its history, or begins a new one, and never touches an agent's.
"""

from __future__ import annotations

import threading
import weakref

from strands_sglang.session import Conversation, HostHistory
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.trajectory import Lineage, Trajectory


class Conversations:
    """All conversations of one episode."""

    def __init__(self) -> None:
        """Begin an episode without conversations."""
        self.trajectory = Trajectory()
        self._of_agent: weakref.WeakKeyDictionary[threading.Event, Conversation] = weakref.WeakKeyDictionary()
        self._aside: list[Conversation] = []
        self._main: Conversation | None = None
        self._count = 0

    @property
    def main(self) -> Conversation | None:
        """The first agent's conversation; without an agent, the first one; None before any call."""
        return self._main

    def of_agent(self, cancel_signal: threading.Event, chat_tokenizer: ChatTokenizer) -> Conversation:
        """Return the conversation of the agent that owns a cancel signal."""
        conversation = self._of_agent.get(cancel_signal)
        if conversation is None:
            first = not self._of_agent and (self._main is None or self._main in self._aside)
            conversation = self._new(chat_tokenizer, Lineage.MAIN if first else Lineage.AGENT)
            if first:
                if self._main is not None:
                    self._main.lineage = Lineage.SIDE_CALL
                self._main = conversation
            self._of_agent[cancel_signal] = conversation
        return conversation

    def aside(self, history: HostHistory, chat_tokenizer: ChatTokenizer) -> Conversation:
        """Return the side conversation that holds a history, or a new one."""
        for conversation in reversed(self._aside):
            if conversation.holds(history):
                return conversation
        conversation = self._new(chat_tokenizer, Lineage.SIDE_CALL if self._main else Lineage.MAIN)
        self._aside.append(conversation)
        self._main = self._main or conversation
        return conversation

    def _new(self, chat_tokenizer: ChatTokenizer, lineage: Lineage) -> Conversation:
        """Make a conversation with the next number."""
        conversation = Conversation(
            chat_tokenizer=chat_tokenizer, trajectory=self.trajectory, number=self._count, lineage=lineage
        )
        self._count += 1
        return conversation

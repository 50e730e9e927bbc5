"""Which step of a script answers which request.

Owns the two orders: by arrival, and by conversation. Invariant: a step is handed out exactly once.
Never plays a step, and never wraps around: a script that is played to its end has no more answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from strands_sglang.engine.scripted.script import Step, Turn
from strands_sglang.errors import SGLangConfigError


def exhausted(prompt: Sequence[int], why: str) -> SGLangConfigError:
    """Return the error for a request that has no step, naming the prompt by its length and its last ids."""
    tail = f"{len(prompt)} ids ending in {list(prompt[-8:])}" if prompt else "no input_ids"
    return SGLangConfigError(
        f"ScriptedEngine: no step for a request with {tail}: {why}",
        hint="add a step, or look at engine.requests for a request that was not expected (a retry, a summary)",
    )


def prompt_of(body: dict[str, Any]) -> list[int]:
    """Return the prompt ids of a request; empty where it has none."""
    ids = body.get("input_ids")
    return ids if isinstance(ids, list) else []


class InOrder:
    """Steps for the requests in order of arrival."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Take the steps."""
        self._steps = list(steps)
        self._played = 0

    def step(self, body: dict[str, Any]) -> Step:
        """Return the next step."""
        if self._played == len(self._steps):
            raise exhausted(prompt_of(body), f"all {self._played} steps were played")
        self._played += 1
        return self._steps[self._played - 1]


class _Conversation:
    """One list of steps, and the ids by which its next request is recognised."""

    def __init__(self, number: int, steps: Sequence[Step]) -> None:
        self.number = number
        self.context: list[int] = []
        self.retried = False
        self._steps = InOrder(steps)

    def continued_by(self, prompt: list[int]) -> bool:
        """A retry sends the same prompt, the turn after an answer a longer one."""
        begins = prompt[: len(self.context)] == self.context
        return begins and (self.retried or len(prompt) > len(self.context))

    def step(self, body: dict[str, Any], ids_of: Callable[[Turn], list[int]]) -> Step:
        step = self._steps.step(body)
        self.retried = not isinstance(step, Turn) or step.finish == "abort"
        # The last id may be replaced by the template (a stop token that is another role's header).
        sampled = ids_of(step)[:-1] if isinstance(step, Turn) else []
        self.context = prompt_of(body) + sampled * (not self.retried)
        return step


class Conversations:
    """One list of steps per conversation, told apart by their prompts."""

    def __init__(self, scripts: Sequence[Sequence[Step]], *, ids_of: Callable[[Turn], list[int]]) -> None:
        """Take the scripts; `ids_of` says which ids a turn samples."""
        self._waiting = [_Conversation(number, steps) for number, steps in enumerate(scripts)]
        self._begun: list[_Conversation] = []
        self._ids_of = ids_of

    def step(self, body: dict[str, Any]) -> Step:
        """Return the next step of the conversation that this request belongs to."""
        prompt = prompt_of(body)
        known = [conversation for conversation in self._begun if conversation.continued_by(prompt)]
        conversation = max(known, key=lambda one: len(one.context)) if known else self._begin(prompt)
        try:
            return conversation.step(body, self._ids_of)
        except SGLangConfigError as error:
            error.add_note(f"it continues conversation {conversation.number} (counted from 0)")
            raise

    def _begin(self, prompt: list[int]) -> _Conversation:
        if not self._waiting:
            raise exhausted(
                prompt, f"it continues none of the {len(self._begun)} conversations, all of which have begun"
            )
        self._begun.append(self._waiting.pop(0))
        return self._begun[-1]

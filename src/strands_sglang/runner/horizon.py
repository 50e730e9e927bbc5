"""Long episodes: one invocation after another, so that no episode ends by Python's recursion limit.

Strands' loop nests one level deeper with every tool turn and ends at some 320. An invocation is therefore ended after
some turns, at a message boundary and with nothing added, and the next one goes on exactly there: one history, one
record without branches. Hooks see an invocation begin and end at each seam; the agent's conversation manager does not,
since what it would cut there would not have been cut in one long invocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strands import Agent
from strands.agent import AgentResult
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import HookRegistry

_SEAM = "limit_turns"


async def invoke(
    agent: Agent,
    prompt: Any,
    *,
    turns: int | None,
    invocation_state: dict[str, Any],
    structured_output_model: Any = None,
    on_invocation: Callable[[], object] = lambda: None,
) -> AgentResult:
    """Run an agent to its end, however many turns that takes.

    Args:
        agent: The agent.
        prompt: What it is asked.
        turns: Turns of one invocation at most; None for one invocation. An agent that gives structured output has one
            invocation in any case: a seam may fall before the forced answer, which another could not continue.
        invocation_state: Passed to every invocation, the same object.
        structured_output_model: See `Agent.invoke_async`.
        on_invocation: Called before each invocation.

    Returns:
        The result of the last invocation.

    Raises:
        Exception: Whatever ends an invocation.
    """
    wants_model = structured_output_model or getattr(agent, "_default_structured_output_model", None)
    if turns is None or wants_model is not None:
        on_invocation()
        return await agent.invoke_async(
            prompt, invocation_state=invocation_state, structured_output_model=structured_output_model
        )
    original = agent.conversation_manager
    agent.conversation_manager = _UndisturbedBySeams(original)
    try:
        while True:
            on_invocation()
            result = await agent.invoke_async(prompt, invocation_state=invocation_state, limits={"turns": turns})
            if result.stop_reason != _SEAM:
                return result
            prompt = None
    finally:
        agent.conversation_manager = original


class _UndisturbedBySeams(ConversationManager):
    """A conversation manager that does all of another's work but the one at the end of an invocation."""

    def __init__(self, original: ConversationManager) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        self._original.register_hooks(registry, **kwargs)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Cut nothing at a seam."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        self._original.reduce_context(agent, e, **kwargs)

    def get_state(self) -> dict[str, Any]:
        return self._original.get_state()

    def restore_from_session(self, state: dict[str, Any]) -> Any:
        return self._original.restore_from_session(state)

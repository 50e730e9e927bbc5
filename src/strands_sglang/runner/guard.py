"""What watches the tools of one episode: counts them, and holds what would escape from them.

Strands turns an `Exception` of a tool into an error result. Anything else gets past it: a `SystemExit`, or a
`KeyboardInterrupt` that is not Ctrl-C's, ends the event loop and with it every other episode; a cancelled future inside
a tool leaves a tool message without results, and the model goes on from it. Held here, it becomes an error result too,
and the episode ends after that tool turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from strands import Agent
from strands.hooks.events import AfterModelCallEvent
from strands.middleware import ExecuteToolContext, ExecuteToolStage, ToolResultEvent

from strands_sglang.provider.ending import described
from strands_sglang.termination import Termination, TerminationReason

from .interrupts import is_from_sigint
from .tally import Tally


@dataclass(slots=True, kw_only=True, eq=False)
class ToolGuard:
    """Watches one agent.

    Attributes:
        tally: The run's counters, told of each call and each answer as they come.
        calls: Calls executed so far.
        failed: Those of them with an error result.
        escaped: What escaped from a tool; None as long as nothing did.
    """

    tally: Tally = field(default_factory=Tally)
    calls: int = 0
    failed: int = 0
    escaped: BaseException | None = None

    def watch(self, agent: Agent) -> None:
        """Begin to watch an agent."""
        agent.add_middleware(ExecuteToolStage, self._run_tool)
        agent.add_hook(self._after_model_call, AfterModelCallEvent)

    @property
    def termination(self) -> Termination | None:
        """Why the episode ended, where something escaped."""
        if self.escaped is None:
            return None
        return Termination(reason=TerminationReason.TOOL_ERROR, detail=described(self.escaped))

    async def _run_tool(self, context: ExecuteToolContext, run: Any) -> AsyncGenerator[Any, None]:
        self.calls += 1
        self.tally.tool_calls += 1
        try:
            async with aclosing(run(context)) as events:
                async for event in events:
                    if isinstance(event, ToolResultEvent):
                        self.failed += event.tool_result.get("status") == "error"
                    yield event
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and is_from_sigint(error):
                raise
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the episode is cancelled
            self.escaped = error
            context.agent.cancel(after_current_tools=True)
            raise RuntimeError(f"the tool ended by {described(error)}") from error

    def _after_model_call(self, event: AfterModelCallEvent) -> None:
        if event.stop_response is not None:
            usage = event.stop_response.message.get("metadata", {}).get("usage", {})
            self.tally.sampled_tokens += usage.get("outputTokens", 0)
            self.tally.turns += 1

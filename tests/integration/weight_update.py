"""Fifty episodes of an agent over a weight update, with what goes wrong on the way, for a checkpoint of any kind.

Histories are cut while they are played, requests are refused, answers are lost, and some answers are begun by one
version of the weights and ended by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from httpx_aiohttp import AiohttpTransport
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager

from strands_sglang import LoopLimiter, SGLangClient, SGLangModel, Trajectory
from strands_sglang.records import RecordWriter, read_records
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.trajectory import Turn

from .episodes import CUT_SHORT, calculator
from .watching import PATIENCE, load_of, until_load

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EPISODES = 50
THIRD = EPISODES // 3
QUESTIONS = ("What is 25 * 17?", "What is 81 / 9?", "What is 12 + 30?")
SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 60}
TALKATIVE: dict[str, Any] = {"max_new_tokens": 500, "ignore_eos": True}
"""An answer that is still being sampled when the weights change."""
OLD, NEW = "0", "1"
"""Names of the weights: integers, which trainers count in."""


class Faulty(httpx.AsyncBaseTransport):
    """The library's own transport; every seventh generation is refused, and the answer of every eleventh is lost."""

    def __init__(self) -> None:
        self._inner = AiohttpTransport()
        self._generations = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/generate":
            return await self._inner.handle_async_request(request)
        self._generations += 1
        number = self._generations
        if number % 7 == 0:
            return httpx.Response(503, json={"object": "error", "message": "The request queue is full."})
        response = await self._inner.handle_async_request(request)
        if number % 11 == 0:
            await response.aread()
            raise httpx.ReadError("the connection was lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A server, and how agents are played on it.

    Attributes:
        url: The server's base URL.
        tokenizer: The tokenizer of its model.
        weights: The checkpoints by name; it serves `OLD` at first.
        config: More of the configuration of `SGLangModel`.
    """

    url: str
    tokenizer: PreTrainedTokenizerBase
    weights: dict[str, Path]
    config: dict[str, Any] = field(default_factory=dict)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[SGLangClient]:
        """A client that has to send again now and then."""
        async with Faulty() as transport, SGLangClient(self.url, transport=transport, retry_delay=0.01) as client:
            yield client

    def model(self, client: SGLangClient, **sampling: Any) -> SGLangModel:
        """A model for one episode."""
        return SGLangModel(
            client=client,
            tokenizer=self.tokenizer,
            tool_parser=get_tool_parser("hermes"),
            sampling_params={**SAMPLED, **sampling},
            **self.config,
        )

    async def play(self, client: SGLangClient, **sampling: Any) -> Trajectory:
        """Play one episode."""
        model = self.model(client, **sampling)
        await ask(model)
        return model.trajectory

    async def play_many(self, client: SGLangClient, count: int) -> list[Trajectory]:
        """Play episodes at once, under the weights in place."""
        return await asyncio.gather(*(self.play(client) for _ in range(count)))

    async def play_over_update(self, client: SGLangClient, count: int) -> list[Trajectory]:
        """Play episodes at once, and change the weights while at least two of them are in the middle of an answer."""
        async with httpx.AsyncClient(base_url=self.url, timeout=PATIENCE) as watcher:
            tasks = [asyncio.create_task(self.play(client, **TALKATIVE))]
            await until_load(lambda: load_of(watcher), lambda load: load.running > 0)
            tasks += [asyncio.create_task(self.play(client)) for _ in range(count - 1)]
            await until_load(lambda: load_of(watcher), lambda load: load.running > 1)
            await client.pause_generation("abort")
            await self.update(client, NEW)
            await client.continue_generation()
            return await asyncio.gather(*tasks)

    async def update(self, client: SGLangClient, version: str) -> None:
        """Load other weights, under which nothing of the old ones is left in the cache."""
        await client.update_weights_from_disk(str(self.weights[version]), weight_version=version, flush_cache=True)


async def ask(model: SGLangModel) -> None:
    """The agent's code: questions with a tool, over a history that is cut to its newest messages."""
    agent = Agent(
        model=model,
        tools=[calculator],
        hooks=[LoopLimiter(max_tool_iters=3, on_limit="stop")],
        conversation_manager=SlidingWindowConversationManager(window_size=4),
        callback_handler=None,
    )
    for question in QUESTIONS:
        with suppress(*CUT_SHORT):
            await agent.invoke_async(question)


def saved_and_read(played: Sequence[Trajectory], path: Path) -> list[Trajectory]:
    """Give each episode what trainers ask for, and send it through a file of records."""
    with RecordWriter(path) as writer:
        for number, trajectory in enumerate(played):
            trajectory.reward = float(number % 2)
            trajectory.metadata["env_name"] = "arithmetic"
            for turn in trajectory.turns:
                turn.credit["advantage"] = number / EPISODES
            writer.write(trajectory)
    return list(read_records(path))


def assert_all_of_it_happened(trajectories: Sequence[Trajectory]) -> str:
    """Check that the record has seen compaction, retries, and both weights, within turns too; return it in words."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    seen = [{version for turn in trajectory.turns for version in versions_of(turn)} for trajectory in trajectories]
    crossing = [turn for turn in turns if len(set(versions_of(turn))) > 1]
    retries = sum(turn.sampled.facts.get("retries") or 0 for turn in turns)
    leaves = sum(len(trajectory.leaves) for trajectory in trajectories)
    assert len(trajectories) == EPISODES
    assert leaves > EPISODES, "no history was cut"
    assert retries > 0, "nothing was retried"
    assert [versions_of(turn) for turn in crossing] == [[OLD, NEW]] * len(crossing)
    assert crossing, "no answer was begun by one version and ended by the other"
    assert all(turn.sampled.facts["resumptions"] for turn in crossing)
    assert {frozenset(versions) for versions in seen} >= {frozenset({OLD}), frozenset({NEW})}
    return f"{leaves} branches, {len(turns)} turns, {retries} retries, {len(crossing)} turns over the update"


def versions_of(turn: Turn) -> list[str]:
    """The weights that sampled a turn's tokens, in order."""
    return [version for version, start, end in turn.sampled.weight_spans if end > start]

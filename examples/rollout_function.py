"""A rollout function as RL trainers call it: several episodes of one prompt at once, each with an ending and samples.

One client and one tokenizer serve all episodes; each episode has a model and an agent of its own. What infrastructure
did to an episode is told apart from what the policy did.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from quick_start import calculator
from strands import Agent

from strands_sglang import LoopLimiter, SGLangClient, SGLangModel, classify, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, TinyEngine
from strands_sglang.termination import Termination
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.trajectory import Sample

TOKENIZER = get_tokenizer(TINY_MODEL)
TOOL_PARSER = get_tool_parser("hermes")


@dataclass(frozen=True, kw_only=True)
class Episode:
    """What a trainer needs of one episode."""

    samples: list[Sample]
    reward: float
    ending: Termination


async def rollout(client: SGLangClient, prompt: str, label: str, sampling_params: dict[str, Any]) -> Episode:
    """Run one episode and reward it."""
    model = SGLangModel(client=client, tokenizer=TOKENIZER, tool_parser=TOOL_PARSER, sampling_params=sampling_params)
    agent = Agent(model=model, tools=[calculator], hooks=[LoopLimiter(max_tool_iters=4)], callback_handler=None)
    answer = ""
    try:
        result = await agent.invoke_async(prompt)
        answer, ending = str(result), classify(result)
    except Exception as error:
        ending = classify(error)
    reward = float(label in answer)
    return Episode(samples=model.trajectory.samples() if ending.trainable else [], reward=reward, ending=ending)


async def main() -> None:
    """Sample a group of episodes and print what a GRPO-style trainer would take."""
    async with SGLangClient("http://engine", transport=EngineTransport(TinyEngine())) as client:
        group = await asyncio.gather(
            *(rollout(client, "What is 128 + 256?", "384", {"temperature": 1.0}) for _ in range(8))
        )
    baseline = sum(episode.reward for episode in group) / len(group)
    for episode in group:
        for sample in episode.samples:
            trained = sum(sample.loss_mask)
            advantage = (episode.reward - baseline) * sample.weight
            print(
                f"{len(sample.rollout)} tokens, {trained} trained, advantage {advantage:+.2f}, {episode.ending.reason}"
            )


if __name__ == "__main__":
    asyncio.run(main())

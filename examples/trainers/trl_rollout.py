"""TRL: `GRPOTrainer(..., rollout_func=rollout_func)`, with an SGLang server beside the trainer.

TRL brings the weights to vLLM only: bring them to SGLang in a callback, with `client.control.update_weights_from_disk`.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from task import play, policy

from strands_sglang import SGLangClient
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("trl", several="longest")


def rollout_func(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Run an episode for each prompt and return the batch; TRL repeats the prompts of a group itself."""
    return asyncio.run(rollouts(prompts, SGLangClient(os.environ["SGLANG_BASE_URL"])))


def reward_func(episode_reward: list[float], **_: Any) -> list[float]:
    """Give TRL the rewards of the episodes: `GRPOTrainer(..., reward_funcs=reward_func)`."""
    return episode_reward


async def rollouts(prompts: list[str], client: SGLangClient) -> dict[str, Any]:
    """Run the episodes at once."""
    rows = [{"prompt": prompt, "label": label_of(prompt)} for prompt in prompts]
    async with client:
        trajectories = await asyncio.gather(*(play(client, row, {"temperature": 1.0}) for row in rows))
    return EXPORTER.export(trajectories).row


def label_of(prompt: str) -> str:
    """The right answer; TRL gives a rollout function the prompts alone, the reward functions get the other columns."""
    a, b = (int(word.strip("?")) for word in prompt.split() if word.strip("?").isdigit())
    return str(a * b)


async def main() -> None:
    """Play two prompts and print what TRL gets."""
    batch = await rollouts(["What is 12 * 11?"] * 2, policy())
    for ids, mask, worth in zip(batch["completion_ids"], batch["env_mask"], batch["episode_reward"], strict=True):
        print(f"{len(ids)} completion tokens, {sum(mask)} the model's, reward {worth}")


if __name__ == "__main__":
    asyncio.run(main())

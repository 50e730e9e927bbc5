"""Atropos: an environment's `collect_trajectories`, from the SGLang server that its configuration names."""

from __future__ import annotations

import asyncio
from typing import Any

from task import play, policy

from strands_sglang import SGLangClient
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("atropos", several="longest", empty="skip")


async def collect_trajectories(client: SGLangClient, item: dict[str, Any], size: int) -> tuple[Any, list[Any]]:
    """Run a group of episodes of one item; return the group, or None where nothing was sampled, and no backlog."""
    group = await asyncio.gather(*(play(client, item, {"temperature": 1.0}) for _ in range(size)))
    for number, trajectory in enumerate(group):
        trajectory.group_id, trajectory.group_index = str(item["id"]), number
    rows = EXPORTER.export(group).rows
    return (rows[0] if rows else None), []


def environment() -> type[Any]:
    """Make the environment's class; Atropos is imported here and nowhere else."""
    from atroposlib.envs.base import BaseEnv

    class StrandsEnv(BaseEnv):
        async def collect_trajectories(self, item: Any) -> Any:
            client = SGLangClient(self.server.servers[0].config.base_url.removesuffix("/v1"))
            async with client:
                return await collect_trajectories(client, item, self.config.group_size)

    return StrandsEnv


async def main() -> None:
    """Play a group of two and print what Atropos gets."""
    async with policy() as client:
        group, _ = await collect_trajectories(client, {"prompt": "What is 12 * 11?", "label": "132", "id": 7}, 2)
    for tokens, masks, score in zip(group["tokens"], group["masks"], group["scores"], strict=True):
        print(f"{len(tokens)} tokens, {sum(mask != -100 for mask in masks)} trained, score {score}")


if __name__ == "__main__":
    asyncio.run(main())

"""prime-rl: the training samples of a group of episodes, advantages included."""

from __future__ import annotations

import asyncio
from typing import Any

from task import play, policy

from strands_sglang import SGLangClient
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("prime_rl", env_name="multiply")


async def rollout_group(client: SGLangClient, row: dict[str, Any], size: int, temperature: float) -> list[Any]:
    """Run a group of episodes of one row; each token's advantage is its episode's, over the group's mean."""
    params = {"temperature": temperature}
    group = await asyncio.gather(*(play(client, row, params) for _ in range(size)))
    mean = sum(trajectory.reward or 0.0 for trajectory in group) / size
    for trajectory in group:
        for turn in trajectory.turns:
            turn.credit["advantage"] = (trajectory.reward or 0.0) - mean
    return list(EXPORTER.export(group).rows)


def training_samples(rows: list[dict[str, Any]]) -> list[Any]:
    """Make prime-rl's own samples; it is imported here and nowhere else."""
    from prime_rl.transports.rollouts.types import RoutedExperts, TrainingSample

    def sample(row: dict[str, Any]) -> Any:
        routed = row["routed_experts"]
        return TrainingSample(**{**row, "routed_experts": RoutedExperts(**routed) if routed else None})

    return [sample(row) for row in rows]


async def main() -> None:
    """Play a group of two and print what prime-rl gets."""
    async with policy() as client:
        rows = await rollout_group(client, {"prompt": "What is 12 * 11?", "label": "132"}, 2, temperature=0.8)
    for row in rows:
        advantage = max(row["advantages"], key=abs)
        print(f"{len(row['token_ids'])} tokens, {sum(row['mask'])} trained, advantage {advantage:+.2f}")


if __name__ == "__main__":
    asyncio.run(main())

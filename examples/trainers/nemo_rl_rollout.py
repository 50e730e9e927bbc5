"""NeMo-RL: the message logs of a batch, from an SGLang server that has the policy's weights."""

from __future__ import annotations

import asyncio
from typing import Any

from task import TOKENIZER, play, policy

from strands_sglang import SGLangClient
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("nemo_rl", decode=TOKENIZER.decode, arrays="numpy")


async def rollouts(client: SGLangClient, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run an episode for each `DatumSpec` of a batch and return them with their message logs."""
    played = await asyncio.gather(*(play(client, datum["extra_env_info"], {"temperature": 1.0}) for datum in batch))
    for trajectory, datum in zip(played, batch, strict=True):
        trajectory.group_id = str(datum["idx"])
    return list(EXPORTER.export(played).rows)


def with_tensors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the tensors; torch is imported here and nowhere else."""
    import torch

    columns = ("token_ids", "generation_logprobs", "routed_experts")
    for row in rows:
        for message in row["message_log"]:
            message.update({name: torch.from_numpy(message[name]) for name in columns if name in message})
    return rows


async def main() -> None:
    """Play a batch of two and print what NeMo-RL gets."""
    datum = {"extra_env_info": {"prompt": "What is 12 * 11?", "label": "132"}, "idx": 7}
    async with policy() as client:
        rows = await rollouts(client, [datum, datum])
    for row in rows:
        log = [f"{message['role']} {len(message['token_ids'])}" for message in row["message_log"]]
        print(f"datum {row['idx']}: {', '.join(log)} tokens, reward {row['total_reward']}")


if __name__ == "__main__":
    asyncio.run(main())

"""ART: a rollout function for `gather_trajectory_groups`, from an SGLang server that has the policy's weights."""

from __future__ import annotations

import asyncio
from typing import Any

from task import play, policy

from strands_sglang import SGLangClient
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("art", model="policy")


async def rollout(client: SGLangClient, scenario: dict[str, Any]) -> dict[str, Any]:
    """Run one episode of a scenario and return the trajectory's fields with its tokenized histories."""
    return EXPORTER.export(await play(client, scenario, {"temperature": 1.0})).row


def trajectory(row: dict[str, Any]) -> Any:
    """Make ART's own trajectory; it is imported here and nowhere else.

    The tokens go beside it, as `TokenizedHistory`: releases that tokenize messages themselves take no tokens.
    """
    import art

    return art.Trajectory(messages_and_choices=[], **row["trajectory"])


async def main() -> None:
    """Play one scenario and print what ART gets."""
    async with policy() as client:
        row = await rollout(client, {"prompt": "What is 12 * 11?", "label": "132"})
    (history,) = row["tokenized_histories"]
    sampled = sum("SAMPLED" in flags for flags in history["flags"])
    print(f"reward {row['trajectory']['reward']}, {len(history['tokens'])} tokens, {sampled} sampled")


if __name__ == "__main__":
    asyncio.run(main())

"""miles: `--custom-generate-function-path miles_rollout.generate`, called as slime calls it."""

from __future__ import annotations

import asyncio
from typing import Any

from slime_rollout import Stub
from task import TOKENIZER, play, policy

from strands_sglang import SGLangClient, get_client_from_slime_args
from strands_sglang.exporters import get_exporter

# For a mixture of experts: num_layers= and top_k= of the model, and return_routed_experts=True in the model's options.
EXPORTER = get_exporter("miles", decode=TOKENIZER.decode)


async def generate(
    args: Any, sample: Any, sampling_params: dict[str, Any], *, client: SGLangClient | None = None
) -> list[Any]:
    """Run one episode for a sample of miles' and return it filled in, once for each branch."""
    row = {"prompt": sample.prompt, "label": sample.label, "id": str(sample.index)}
    trajectory = await play(client or get_client_from_slime_args(args), row, sampling_params)
    trajectory.id, trajectory.group_id = str(sample.index), str(sample.group_index)
    return [type(sample).from_dict(row) for row in EXPORTER.export(trajectory).rows]


async def main() -> None:
    """Play one sample and print what miles gets."""
    asked = Stub(index=12, group_index=3, prompt="What is 12 * 11?", label="132")
    async with policy() as client:
        for sample in await generate(None, asked, {"temperature": 1.0}, client=client):
            print(f"sample {sample.index} of group {sample.group_index}: {sample.status}, reward {sample.reward}")


if __name__ == "__main__":
    asyncio.run(main())

"""slime: `--custom-generate-function-path slime_rollout.generate`.

slime calls it for each sample of a group, and takes one sample or several of one execution, which share a rollout id.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from task import TOKENIZER, play, policy

from strands_sglang import SGLangClient, get_client_from_slime_args
from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("slime", decode=TOKENIZER.decode)


async def generate(
    args: Any, sample: Any, sampling_params: dict[str, Any], *, client: SGLangClient | None = None
) -> list[Any]:
    """Run one episode for a sample of slime's and return it filled in, once for each branch."""
    row = {"prompt": sample.prompt, "label": sample.label, "id": str(sample.index)}
    trajectory = await play(client or get_client_from_slime_args(args), row, sampling_params)
    given = {
        "index": sample.index,
        "rollout_id": sample.index,
        "group_index": sample.group_index,
        "prompt": sample.prompt,
        "label": sample.label,
    }
    rows = EXPORTER.export(trajectory).rows
    if not rows:  # it ended before anything was sampled
        empty = {"tokens": TOKENIZER.encode(str(sample.prompt)), "status": "aborted", "remove_sample": True}
        rows = ({**empty, "reward": 0.0},)
    return [type(sample).from_dict({**row, **given}) for row in rows]


class Stub(SimpleNamespace):
    """slime's `Sample`, as far as this example looks at it."""

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Stub:
        """Make one of its fields."""
        return Stub(**fields)


async def main() -> None:
    """Play one sample and print what slime gets."""
    asked = Stub(index=12, group_index=3, prompt="What is 12 * 11?", label="132")
    async with policy() as client:
        for sample in await generate(None, asked, {"temperature": 1.0}, client=client):
            print(
                f"sample {sample.index} of group {sample.group_index}: {sample.status}, reward {sample.reward}, "
                f"{sum(sample.loss_mask)} of {sample.response_length} response tokens trained"
            )


if __name__ == "__main__":
    asyncio.run(main())

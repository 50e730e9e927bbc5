"""Tinker: data for a training step from agents that run on a sampling client.

The agent runs on the client through `SamplerEngine`; the log-probabilities are the service's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from task import TOKENIZER, Sampled, play, sample_here, sampler_client

from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("tinker", mask=False)  # the service's loss functions take no mask

Sampler = Callable[[str, list[int], dict[str, Any]], Awaitable[Sampled]]


async def rollout_group(sample: Sampler, row: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """Run a group of episodes of one row; each token's advantage is its episode's, over the group's mean."""
    async with sampler_client(sample) as client:
        group = await asyncio.gather(*(play(client, row, {"temperature": 1.0}) for _ in range(size)))
    mean = sum(trajectory.reward or 0.0 for trajectory in group) / size
    for trajectory in group:
        for turn in trajectory.turns:
            turn.credit["advantage"] = (trajectory.reward or 0.0) - mean
    return list(EXPORTER.export(group).rows)


def sampler(sampling_client: Any) -> Sampler:
    """Sample with Tinker; it is imported here and in `data`, and nowhere else."""
    import tinker

    async def sample(rid: str, ids: list[int], params: dict[str, Any]) -> Sampled:
        asked = tinker.SamplingParams(
            max_tokens=params.get("max_new_tokens", 1024),
            temperature=params.get("temperature", 1.0),
            stop=[TOKENIZER.eos_token_id],
        )
        answer = await sampling_client.sample_async(tinker.ModelInput.from_ints(ids), 1, asked)
        (sequence,) = answer.sequences
        return Sampled(ids=sequence.tokens, logprobs=sequence.logprobs, finish=sequence.stop_reason)

    return sample


def data(rows: list[dict[str, Any]]) -> list[Any]:
    """Make Tinker's data of the exporter's rows."""
    import tinker

    def tensor(name: str, values: list[Any]) -> Any:
        dtype = "int64" if name == "target_tokens" else "float32"
        return tinker.TensorData(data=values, dtype=dtype, shape=[len(values)])

    return [
        tinker.Datum(
            model_input=tinker.ModelInput.from_ints(row["model_input"]),
            loss_fn_inputs={name: tensor(name, values) for name, values in row["loss_fn_inputs"].items()},
        )
        for row in rows
    ]


async def stand_in(rid: str, ids: list[int], params: dict[str, Any]) -> Sampled:
    """Sample from the small model."""
    answer = await sample_here(ids, params)
    meta = answer["meta_info"]
    return Sampled(
        ids=answer["output_ids"],
        logprobs=[value for value, *_ in meta["output_token_logprobs"]],
        finish=meta["finish_reason"]["type"],
    )


async def main() -> None:
    """Play a group of two and print what Tinker gets."""
    for row in await rollout_group(stand_in, {"prompt": "What is 12 * 11?", "label": "132"}, 2):
        inputs = row["loss_fn_inputs"]
        print(f"{len(row['model_input'])} inputs, {len(inputs['target_tokens'])} targets, {sorted(inputs)}")


if __name__ == "__main__":
    asyncio.run(main())

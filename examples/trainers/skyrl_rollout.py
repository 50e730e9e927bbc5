"""SkyRL: a generator for the trainer's batches.

SkyRL hands its generator a client of its inference engines; the agent runs on it through `SamplerEngine`.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from task import Sampled, play, sample_here, sampler_client

from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("skyrl", several="longest")


async def generate(engines: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Run an episode for each prompt of a `GeneratorInput` and return the fields of `GeneratorOutput`."""

    async def sample(rid: str, ids: list[int], params: dict[str, Any]) -> Sampled:
        asked = {"prompts": None, "prompt_token_ids": [ids], "sampling_params": params, "session_ids": [rid]}
        output = await engines.generate(asked)
        finish = {"stop": "stop", "length": "length"}.get(output["stop_reasons"][0], "abort")
        return Sampled(ids=output["response_ids"][0], logprobs=output["response_logprobs"][0], finish=finish)

    async with sampler_client(sample) as client:
        trajectories = await asyncio.gather(
            *(
                play(client, {"prompt": prompt[-1]["content"], **extras}, batch["sampling_params"])
                for prompt, extras in zip(batch["prompts"], batch["env_extras"], strict=True)
            )
        )
    for trajectory, asked in zip(trajectories, batch["trajectory_ids"], strict=True):
        trajectory.group_id, trajectory.group_index = asked.instance_id, asked.repetition_id
    output = EXPORTER.export(trajectories).row
    return {**output, "trajectory_ids": batch["trajectory_ids"]}


def generator(engines: Any) -> Any:
    """Make the generator; SkyRL is imported here and nowhere else."""
    from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput

    class StrandsGenerator(GeneratorInterface):
        async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
            return GeneratorOutput(**await generate(engines, input_batch))

    return StrandsGenerator()


class Engines:
    """SkyRL's client of its inference engines, as far as this example looks at it."""

    async def generate(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Sample from the small model."""
        answer = await sample_here(asked["prompt_token_ids"][0], asked["sampling_params"])
        return {
            "response_ids": [answer["output_ids"]],
            "response_logprobs": [[value for value, *_ in answer["meta_info"]["output_token_logprobs"]]],
            "stop_reasons": [answer["meta_info"]["finish_reason"]["type"]],
        }


async def main() -> None:
    """Play a batch of two and print what SkyRL gets."""
    batch = {
        "prompts": [[{"role": "user", "content": "What is 12 * 11?"}]] * 2,
        "env_extras": [{"label": "132"}] * 2,
        "sampling_params": {"temperature": 1.0},
        "trajectory_ids": [SimpleNamespace(instance_id="0", repetition_id=number) for number in range(2)],
    }
    output = await generate(Engines(), batch)
    for mask, worth, stop in zip(output["loss_masks"], output["rewards"], output["stop_reasons"], strict=True):
        print(f"{len(mask)} response tokens, {sum(mask)} trained, reward {worth}, stop reason {stop}")


if __name__ == "__main__":
    asyncio.run(main())

"""verl: an agent loop, registered under a name that a row's `agent_name` gives.

verl hands its loops an object to sample with instead of a server's address; the agent runs on it through
`SamplerEngine`.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from task import Sampled, play, sample_here, sampler_client

from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("verl", several="longest")


async def run_row(server: Any, row: dict[str, Any], sampling_params: dict[str, Any]) -> dict[str, Any]:
    """Run one episode of a row on verl's server and return the fields of `AgentLoopOutput`."""

    async def sample(rid: str, ids: list[int], params: dict[str, Any]) -> Sampled:
        output = await server.generate(rid, prompt_ids=ids, sampling_params={**params, "logprobs": True})
        budget = params.get("max_new_tokens")
        finish = "abort" if output.stop_reason == "aborted" else "stop"
        if finish == "stop" and budget and len(output.token_ids) >= budget:
            finish = "length"
        version = output.extra_fields.get("global_steps")
        versions = [version] * len(output.token_ids) if version is not None else None
        return Sampled(ids=output.token_ids, logprobs=output.log_probs, finish=finish, versions=versions)

    async with sampler_client(sample) as client:
        trajectory = await play(client, row, sampling_params)
    return EXPORTER.export(trajectory).row


def agent_loop() -> type[Any]:
    """Make the agent loop; verl is imported here and nowhere else."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

    @register("strands_agent")
    class StrandsAgentLoop(AgentLoopBase):
        async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
            row = {"prompt": kwargs["raw_prompt"][-1]["content"], "label": kwargs["reward_model"]["ground_truth"]}
            return AgentLoopOutput(**await run_row(self.server_manager, row, sampling_params))

    return StrandsAgentLoop


class Server:
    """verl's server, as far as this example looks at it."""

    async def generate(self, rid: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        """Sample from the small model."""
        params = {name: value for name, value in sampling_params.items() if name != "logprobs"}
        answer = await sample_here(prompt_ids, params)
        return SimpleNamespace(
            token_ids=answer["output_ids"],
            log_probs=[value for value, *_ in answer["meta_info"]["output_token_logprobs"]],
            stop_reason="completed",
            extra_fields={"global_steps": 5},
        )


async def main() -> None:
    """Play one row and print what verl gets."""
    row = await run_row(Server(), {"prompt": "What is 12 * 11?", "label": "132"}, {"temperature": 1.0})
    print(
        f"{len(row['prompt_ids'])} prompt and {len(row['response_ids'])} response tokens, "
        f"{sum(row['response_mask'])} trained, reward {row['reward_score']}, {row['extra_fields']}"
    )


if __name__ == "__main__":
    asyncio.run(main())

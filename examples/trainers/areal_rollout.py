"""AReaL: a workflow whose episodes are agents.

AReaL's engine interrupts and resumes generations when weights change, and tells the weight version of every token; the
agent runs on it through `SamplerEngine`, and the versions come back out with the tokens.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from task import Sampled, play, sample_here, sampler_client

from strands_sglang.exporters import get_exporter

EXPORTER = get_exporter("areal")


async def episode(engine: Any, request: Any, row: dict[str, Any], sampling_params: dict[str, Any]) -> list[Any]:
    """Run one episode of a row on AReaL's engine and return its samples as nested lists."""

    async def sample(rid: str, ids: list[int], params: dict[str, Any]) -> Sampled:
        response = await engine.agenerate(request(rid, ids, params))
        finish = {"length": "length", "abort": "abort"}.get(response.stop_reason, "stop")
        return Sampled(
            ids=response.output_tokens,
            logprobs=response.output_logprobs,
            finish=finish,
            versions=response.output_versions,
        )

    async with sampler_client(sample) as client:
        trajectory = await play(client, row, sampling_params)
    return list(EXPORTER.export(trajectory).rows)


def workflow(gconfig: Any, tokenizer: Any) -> Any:
    """Make the workflow; AReaL and torch are imported here and nowhere else."""
    import torch
    from areal.api import ModelRequest, RolloutWorkflow
    from areal.utils.data import concat_padded_tensors

    def request(rid: str, ids: list[int], params: dict[str, Any]) -> Any:
        return ModelRequest(rid=rid, input_ids=ids, gconfig=gconfig.new(n_samples=1), tokenizer=tokenizer)

    class StrandsWorkflow(RolloutWorkflow):
        async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
            row = {"prompt": data["messages"][-1]["content"], "label": data["answer"]}
            rows = await episode(engine, request, row, {"temperature": gconfig.temperature})
            tensors = [{name: torch.tensor(values) for name, values in row.items()} for row in rows]
            return concat_padded_tensors(tensors) if tensors else None

    return StrandsWorkflow()


class Engine:
    """AReaL's engine, as far as this example looks at it."""

    async def agenerate(self, request: Any) -> Any:
        """Sample from the small model."""
        answer = await sample_here(request.input_ids, request.params)
        ids = answer["output_ids"]
        return SimpleNamespace(
            output_tokens=ids,
            output_logprobs=[value for value, *_ in answer["meta_info"]["output_token_logprobs"]],
            output_versions=[3] * (len(ids) // 2) + [4] * (len(ids) - len(ids) // 2),
            stop_reason=answer["meta_info"]["finish_reason"]["type"],
        )


def request_of(rid: str, ids: list[int], params: dict[str, Any]) -> Any:
    """Stand in for `ModelRequest`."""
    return SimpleNamespace(rid=rid, input_ids=ids, params=params)


async def main() -> None:
    """Play one row and print what AReaL gets."""
    row = {"prompt": "What is 12 * 11?", "label": "132"}
    for columns in await episode(Engine(), request_of, row, {"temperature": 1.0}):
        versions = sorted(set(columns["versions"][0]) - {-1})
        print(
            f"[1, {len(columns['input_ids'][0])}] tokens, {sum(columns['loss_mask'][0])} trained, "
            f"reward {columns['rewards']}, weight versions {versions}"
        )


if __name__ == "__main__":
    asyncio.run(main())

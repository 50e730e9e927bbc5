"""What the examples of this folder share: an agent with one tool, its reward, and two ways to reach a policy.

`play` runs one episode and gives its trajectory. A trainer that serves SGLang over HTTP needs no more than its URL; one
that hands out an object to sample with goes through `SamplerEngine`, which answers `/generate` with that object.
"""

from __future__ import annotations

import ast
import functools
import json
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands import Agent, tool

from strands_sglang import Episode, SGLangClient, SGLangModel, Trajectory, get_tokenizer, run_episode
from strands_sglang.engine import TINY_MODEL, EngineRequest, EngineResponse, EngineTransport, TinyEngine
from strands_sglang.tool_parsers import get_tool_parser

TOKENIZER = get_tokenizer(TINY_MODEL)  # in training: get_tokenizer of the model that is trained
TOOL_PARSER = get_tool_parser("hermes")


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node: ast.expr) -> float:
    """Return the value of an arithmetic syntax tree; nothing else is run."""
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value(node.left), value(node.right))
    number: float = ast.literal_eval(node)
    return number


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    return str(value(ast.parse(expression, mode="eval").body))


def reward(episode: Episode) -> float:
    """1 for the right answer."""
    return float(str(episode.prompt.row["label"]) in episode.answer)


async def play(client: SGLangClient, row: Mapping[str, Any], sampling_params: Mapping[str, Any]) -> Trajectory:
    """Run one episode of a row `{"prompt", "label", "id"}`, reward it, and return its record, however it ended."""

    def agent_factory() -> Agent:
        model = SGLangModel(
            client=client, tokenizer=TOKENIZER, tool_parser=TOOL_PARSER, sampling_params=dict(sampling_params)
        )
        return Agent(model=model, tools=[calculator], callback_handler=None, retry_strategy=None)

    episode = await run_episode(
        agent_factory, dict(row), limits={"max_tool_iters": 4}, timeout=600, retries=1, reward=reward
    )
    trajectory = episode.trajectory
    if trajectory.reward is None:  # it was not the policy that ended it: nothing of it is trained
        trajectory.reward = 0.0
    return trajectory


@functools.cache
def engine() -> TinyEngine:
    """Return the small model that stands in for the policy, loaded once."""
    return TinyEngine()


def policy() -> SGLangClient:
    """Return a client of the examples' policy. In training: `SGLangClient(base_url)`."""
    return SGLangClient("http://engine", transport=EngineTransport(engine()))


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What a trainer's own sampler gave for one prompt.

    Attributes:
        ids: The sampled ids, the stop token included.
        logprobs: One for each.
        finish: "stop", "length" or "abort".
        versions: The weight version of each id; None where it is not told.
    """

    ids: Sequence[int]
    logprobs: Sequence[float]
    finish: str = "stop"
    versions: Sequence[int] | None = None


class SamplerEngine:
    """Answers SGLang's `/generate` with a trainer's own sampler, so that an agent can run on it."""

    def __init__(self, sample: Callable[[str, list[int], dict[str, Any]], Awaitable[Sampled]]) -> None:
        """Take the sampler: `await sample(request_id, input_ids, sampling_params)`."""
        self._sample = sample

    async def handle(self, request: EngineRequest) -> EngineResponse:
        """Answer one request."""
        if request.path != "/generate":
            return EngineResponse(status=404, body=b'{"detail": "Not Found"}')
        body = json.loads(request.body)
        found = await self._sample(body["rid"], body["input_ids"], body.get("sampling_params", {}))
        ids = list(found.ids)
        finish: dict[str, Any] = {"type": found.finish}
        if found.finish == "stop":
            finish["matched"] = ids[-1]
        elif found.finish == "length":
            finish["length"] = len(ids)
        meta: dict[str, Any] = {
            "id": body["rid"],
            "finish_reason": finish,
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(ids),
            "output_token_logprobs": [[value, token, None] for value, token in zip(found.logprobs, ids, strict=True)],
        }
        if found.versions:
            meta["weight_version"] = str(found.versions[-1])
            meta["weight_versions"] = spans(found.versions)
        return EngineResponse(body=json.dumps({"output_ids": ids, "meta_info": meta}).encode())


def spans(versions: Sequence[int]) -> list[dict[str, Any]]:
    """Return weight versions as SGLang tells them."""
    found: list[dict[str, Any]] = []
    for position, version in enumerate(versions):
        if not found or found[-1]["version"] != str(version):
            found.append({"version": str(version), "start": position, "end": position})
        found[-1]["end"] = position + 1
    return found


def sampler_client(sample: Callable[[str, list[int], dict[str, Any]], Awaitable[Sampled]]) -> SGLangClient:
    """Return a client whose server is a trainer's own sampler."""
    return SGLangClient("http://sampler", transport=EngineTransport(SamplerEngine(sample)))


async def sample_here(ids: Sequence[int], sampling_params: Mapping[str, Any]) -> dict[str, Any]:
    """Stand in for a trainer's sampler: sample from the small model, and return SGLang's own answer."""
    async with policy() as client:
        return await client.generate(list(ids), sampling_params=dict(sampling_params), return_logprob=True)

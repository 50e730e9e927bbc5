"""slime's custom generate function, with endings told apart.

slime calls `generate(args, sample, sampling_params)` once for each sample of its groups. Whatever happens, it returns
samples with a status that says what happened: a tool that hangs, a server that restarts and an answer that is too long
are three different things, and only one of them may be trained as a failure.

Without slime installed, a stand-in with the same fields shows what it would get.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from quick_start import calculator
from strands import Agent

from strands_sglang import Episode, SGLangClient, SGLangModel, get_tokenizer, get_tool_parser, run_episode
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn
from strands_sglang.engine.scripted.script import Refusal
from strands_sglang.exporters import get_exporter

TOKENIZER = get_tokenizer(TINY_MODEL)
TOOL_PARSER = get_tool_parser("hermes")
EXPORTER = get_exporter("slime", decode=TOKENIZER.decode)


def reward(episode: Episode) -> float:
    """1 for the right answer; slime may also call a reward model of its own."""
    return float(str(episode.prompt.row["label"]) in episode.answer)


async def generate(args: Any, sample: Any, sampling_params: Mapping[str, Any]) -> Any:
    """Run one episode for a sample of slime's and fill it in."""

    def agent_factory() -> Agent:
        model = SGLangModel(
            client=args.client, tokenizer=TOKENIZER, tool_parser=TOOL_PARSER, sampling_params=dict(sampling_params)
        )
        return Agent(model=model, tools=[calculator], callback_handler=None, retry_strategy=None)

    episode = await run_episode(
        agent_factory,
        {"prompt": sample.prompt, "id": sample.index, "label": sample.label},
        limits={"max_tool_iters": 8},
        timeout=600,
        retries=1,
        retry_delay=0.1,
        reward=reward,
    )
    episode.trajectory.id = str(sample.index)
    rows = EXPORTER.export(episode.trajectory).rows
    if not rows:  # nothing was sampled: slime drops or samples again what is aborted
        sample.status, sample.remove_sample, sample.reward = "aborted", True, 0.0
        return sample
    row = rows[0]  # an agent that branches has several: slime takes a list of samples with one rollout_id
    for name in ("tokens", "response", "response_length", "loss_mask", "rollout_log_probs", "reward", "status"):
        setattr(sample, name, row[name])
    sample.remove_sample = row["remove_sample"] or not episode.samples()
    sample.metadata = {**sample.metadata, "ending": episode.termination.reason.value}
    return sample


CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6 * 7"}}\n</tool_call><|im_end|>'
# What the engine of this example plays: an answer, a cut, and a server that fails after a turn and again at the retry.
SCRIPTS = {
    "answered": [Turn(text=CALL), Turn(text="It is 42.<|im_end|>")],
    "cut": [Turn(text=CALL), Turn(text="Well, as we know", finish="length")],
    "failed": [Turn(text=CALL), Refusal(status=500, body="x"), Turn(text=CALL), Refusal(status=500, body="x")],
}


async def main() -> None:
    """Play three samples and print what slime gets."""
    for name, script in SCRIPTS.items():
        engine = ScriptedEngine(script, tokenizer=TOKENIZER)
        client = SGLangClient("http://engine", transport=EngineTransport(engine), max_retries=0)
        asked = SimpleNamespace(index=7, prompt="What is 6 * 7?", label=42, metadata={}, reward=None)
        sample = await generate(SimpleNamespace(client=client), asked, {"temperature": 1.0})
        print(
            f"{name}: status {sample.status}, ending {sample.metadata['ending']}, reward {sample.reward}, "
            f"trained {sum(sample.loss_mask)} of {len(sample.tokens)} tokens, removed {sample.remove_sample}"
        )


if __name__ == "__main__":
    asyncio.run(main())

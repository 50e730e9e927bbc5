"""A GRPO-style batch: groups of episodes of one prompt each, a baseline for each group.

More groups are begun than are needed; once enough are whole, the rest is ended. Episodes that infrastructure or the
set-up spoilt have no part in a baseline.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from quick_start import calculator
from strands import Agent

from strands_sglang import Episode, SGLangClient, SGLangModel, get_tokenizer, get_tool_parser, run_episodes
from strands_sglang.engine import TINY_MODEL, EngineTransport, TinyEngine

TOKENIZER = get_tokenizer(TINY_MODEL)
TOOL_PARSER = get_tool_parser("hermes")
ROWS = [{"prompt": f"What is {a} * {b}?", "label": str(a * b)} for a, b in ((25, 17), (12, 12), (31, 8), (19, 6))]
GROUP_SIZE, GROUPS = 4, 2


def reward(episode: Episode) -> float:
    """1 for the right answer."""
    return float(episode.prompt.row["label"] in episode.answer)


def baseline(group: list[Episode]) -> float:
    """Return the mean reward of a group."""
    return sum(episode.reward or 0.0 for episode in group) / len(group)


async def main() -> None:
    """Sample a batch and print what the trainer would take."""
    async with SGLangClient("http://engine", transport=EngineTransport(TinyEngine())) as client:

        def agent_factory() -> Agent:
            model = SGLangModel(
                client=client, tokenizer=TOKENIZER, tool_parser=TOOL_PARSER, sampling_params={"temperature": 1.0}
            )
            return Agent(model=model, tools=[calculator], callback_handler=None)

        run = run_episodes(
            agent_factory,
            ROWS,
            group_size=GROUP_SIZE,
            concurrency=2 * GROUP_SIZE,
            limits={"max_tool_iters": 4},
            timeout=120,
            retries=1,
            reward=reward,
            min_groups=GROUPS,
        )
        groups: dict[str | None, list[Episode]] = defaultdict(list)
        async for episode in run:
            groups[episode.group_id].append(episode)

    for group in groups.values():
        finished = [episode for episode in group if episode.finished]
        if len(finished) < GROUP_SIZE:
            continue  # it was still being sampled when there were enough
        print(f"{finished[0].prompt.content} rewards {[episode.reward for episode in finished]}")
        for episode in finished:
            advantage = (episode.reward or 0.0) - baseline(finished)
            for sample in episode.samples():  # none where the ending says nothing about the policy
                tokens, trained = len(sample.rollout), sum(sample.loss_mask)
                print(f"  {tokens} tokens, {trained} trained, advantage {advantage * sample.weight:+.2f}")
    print({name: value for name, value in run.metrics().items() if name.startswith("ended/")})


if __name__ == "__main__":
    asyncio.run(main())

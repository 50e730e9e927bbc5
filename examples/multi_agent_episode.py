"""An episode of several agents: one agent asks another, and a third judges. One record, every agent's turns told apart.

The agents share one model provider, so that all their turns are in one trajectory; the agent that is asked first is the
episode's own. The judge has a provider of its own: its turns are none of the policy's.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from strands import Agent, tool

from strands_sglang import Episode, SGLangClient, SGLangModel, get_tokenizer, get_tool_parser, run_episodes
from strands_sglang.engine import TINY_MODEL, EngineTransport, TinyEngine
from strands_sglang.trajectory import Lineage

TOKENIZER = get_tokenizer(TINY_MODEL)
TOOL_PARSER = get_tool_parser("hermes")


def new_model(client: SGLangClient) -> SGLangModel:
    """Make a provider: one for each episode, and one for each judge."""
    return SGLangModel(
        client=client,
        tokenizer=TOKENIZER,
        tool_parser=TOOL_PARSER,
        sampling_params={"temperature": 0, "max_new_tokens": 64},
    )


def team(client: SGLangClient) -> Agent:
    """Make the agents of one episode; the one that is returned is invoked."""
    model = new_model(client)

    @tool
    async def calculator(expression: str) -> str:
        """Ask a colleague to evaluate an arithmetic expression."""
        colleague = Agent(model=model, system_prompt="You check sums.", callback_handler=None)
        answer = await colleague.invoke_async(f"What is {expression}?")
        return str(answer).strip()

    return Agent(model=model, tools=[calculator], callback_handler=None)


async def main() -> None:
    """Run two episodes and print whose turns were recorded and which are trained."""
    async with SGLangClient("http://engine", transport=EngineTransport(TinyEngine())) as client:

        async def judged(episode: Episode) -> float:
            judge = Agent(model=new_model(client), system_prompt="You judge answers.", callback_handler=None)
            verdict = await judge.invoke_async(f"Is this short: {episode.answer}")
            return 1.0 / (1 + len(str(verdict)))

        run = run_episodes(
            lambda: team(client),
            ["What is 25 * 17?", "What is 31 * 8?"],
            limits={"max_tool_iters": 3},
            timeout=120,
            reward=judged,
        )
        async for episode in run:
            whose = Counter(str(turn.lineage) for turn in episode.trajectory.turns)
            own = sum(sum(sample.loss_mask) for sample in episode.samples())
            everyone = sum(sum(sample.loss_mask) for sample in episode.samples(include_side_calls=True))
            print(
                f"{episode.prompt.content} ended by {episode.termination.reason}; turns {dict(whose)}; "
                f"{own} tokens of the {Lineage.MAIN} agent are trained, {everyone} of all agents"
            )


if __name__ == "__main__":
    asyncio.run(main())

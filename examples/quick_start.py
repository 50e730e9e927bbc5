"""One agent, one tool, and the record it leaves, on the embedded engine.

For a server of your own, use `SGLangClient("http://localhost:30000")` and the tokenizer of the served model.
"""

from __future__ import annotations

import ast
import asyncio
import operator

from strands import Agent, tool

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, TinyEngine
from strands_sglang.tool_parsers import get_tool_parser

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


async def main() -> None:
    """Ask one question and print the record."""
    async with SGLangClient("http://engine", transport=EngineTransport(TinyEngine())) as client:
        model = SGLangModel(
            client=client,
            tokenizer=get_tokenizer(TINY_MODEL),
            tool_parser=get_tool_parser("hermes"),
            sampling_params={"temperature": 0},
        )
        agent = Agent(model=model, tools=[calculator], callback_handler=None)
        print(await agent.invoke_async("What is 25 * 17?"))
    rollout = model.rollout
    print(rollout.token_ids, rollout.loss_mask, rollout.logprobs, sep="\n")


if __name__ == "__main__":
    asyncio.run(main())

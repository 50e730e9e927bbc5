"""One rollout of strands-env's calculator environment, as its users run it; prints the result as JSON.

Runs in an environment of its own, where strands-env is installed; this repository's `src` stands before it on the path.
"""

from __future__ import annotations

import asyncio
import json

from strands_env.core.models import sglang_model_factory
from strands_env.core.types import Task, TaskContext
from strands_env.environments.calculator.env import CalculatorEnv

import strands_sglang
from strands_sglang import SGLangClient, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn

CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "25 * 17"}}\n</tool_call><|im_end|>'


async def main() -> None:
    """Play one episode and print what strands-env made of it."""
    tokenizer = get_tokenizer(TINY_MODEL)
    engine = ScriptedEngine([Turn(text=CALL), Turn(text="It is \\boxed{425}.<|im_end|>")], tokenizer=tokenizer)
    client = SGLangClient("http://engine", transport=EngineTransport(engine))
    factory = sglang_model_factory(client=client, tokenizer=tokenizer, enable_thinking=False)
    environment = CalculatorEnv(model_factory=factory, max_tool_iters=3, max_tool_calls=5)
    task = Task(message="What is 25 * 17?", context=TaskContext(ground_truth="425"))
    result = await environment.rollout(task)
    print(
        json.dumps(
            {
                "package": strands_sglang.__file__,
                "termination": result.termination_reason.value,
                "reward": result.reward_result.reward if result.reward_result else None,
                "final": result.final_response,
                "metrics": result.metrics,
                "rollout": result.rollout.to_dict(),
                "saved": json.loads(result.model_dump_json())["rollout"],
            }
        )
    )


asyncio.run(main())

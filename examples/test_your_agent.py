"""Testing an agent without a model: `ScriptedEngine` plays the turns, everything else is real.

Run it with `pytest examples/test_your_agent.py` or as a script.
"""

from __future__ import annotations

import asyncio

from quick_start import calculator
from strands import Agent

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn

CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6 * 7"}}\n</tool_call><|im_end|>'


async def play() -> tuple[ScriptedEngine, SGLangModel, str]:
    """Let the engine call the tool, then answer."""
    tokenizer = get_tokenizer(TINY_MODEL)
    engine = ScriptedEngine([Turn(text=CALL), Turn(text="It is 42.<|im_end|>")], tokenizer=tokenizer)
    model = SGLangModel(client=SGLangClient("http://engine", transport=EngineTransport(engine)), tokenizer=tokenizer)
    agent = Agent(model=model, tools=[calculator], callback_handler=None)
    return engine, model, str(await agent.invoke_async("What is 6 * 7?")).strip()


def test_the_agent_uses_its_tool() -> None:
    engine, model, answer = asyncio.run(play())

    second_prompt = model.tokenizer.decode(engine.requests[1]["input_ids"])
    assert answer == "It is 42."
    assert "<tool_response>\n42\n</tool_response>" in second_prompt
    assert sum(model.rollout.loss_mask) == sum(len(turn.sampled) for turn in model.trajectory.turns)


if __name__ == "__main__":
    test_the_agent_uses_its_tool()
    print("passed")

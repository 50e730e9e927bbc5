"""slime's example `examples/strands_sglang`, reduced to what it asks of this library, in its own words."""

from __future__ import annotations

from types import SimpleNamespace

from strands import Agent, tool

from strands_sglang import SGLangClient, SGLangModel, ToolLimiter, get_client_from_slime_args
from strands_sglang.engine import EngineServer, ScriptedEngine, Turn
from strands_sglang.tool_parsers import HermesToolParser

from .conftest import END, call
from .test_episode import Build


@tool
def execute_python_code(code: str) -> str:
    """Execute Python code and return the output."""
    return "4"


async def test_slimes_rollout_function_gets_what_it_reads(stage: Build) -> None:
    tokenizer = stage().model.tokenizer
    steps = [Turn(text=call("execute_python_code", '{"code": "print(4)"}') + END), Turn(text="It is 4." + END)]
    async with EngineServer(ScriptedEngine(steps, tokenizer=tokenizer), port=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        args = SimpleNamespace(
            sglang_router_ip=host,
            sglang_router_port=int(port),
            sglang_server_concurrency=512,
            rollout_num_gpus=8,
            rollout_num_gpus_per_engine=2,
        )
        client = SGLangClient.from_slime_args(args, timeout=300.0)
        model = SGLangModel(
            tokenizer=tokenizer,
            client=client,
            tool_parser=HermesToolParser(),
            sampling_params={"max_new_tokens": 64, "temperature": 1.0, "top_p": 1.0},
        )
        limiter = ToolLimiter(max_tool_iters=5)
        agent = Agent(
            model=model,
            tools=[execute_python_code],
            hooks=[limiter],
            callback_handler=None,
            system_prompt="You are a helpful math-solving assistant.",
        )
        await agent.invoke_async("What is 2 + 2?")
        tm = model.token_manager
        prompt_len = len(tm.segments[0])
        response = str(tokenizer.decode(tm.token_ids[prompt_len:], skip_special_tokens=False))
        loss_mask, log_probs = tm.loss_mask[prompt_len:], tm.logprobs[prompt_len:]
        model.reset()
        agent.cleanup()
        await client.close()

    assert prompt_len == tm.initial_prompt_length
    assert len(loss_mask) == len(log_probs) == len(tm.token_ids) - prompt_len
    assert response.endswith("It is 4." + END)
    assert (limiter.tool_iter_count, limiter.tool_call_count) == (1, 1)
    assert len(model.rollout) == 0
    assert get_client_from_slime_args(args) is get_client_from_slime_args(args)

"""The library's own client on both engines, without a socket."""

from __future__ import annotations

from typing import Any

from strands_sglang.client import SGLangClient
from strands_sglang.engine import EngineTransport, Refusal, ScriptedEngine, TinyEngine, Turn

PROMPT = [1016, 295, 198, 5]


def client_of(engine: Any) -> SGLangClient:
    return SGLangClient("http://engine", transport=EngineTransport(engine))


async def test_the_client_generates_on_the_embedded_model(engine: TinyEngine) -> None:
    async with client_of(engine) as client:
        body = await client.generate(
            PROMPT, sampling_params={"temperature": 0, "max_new_tokens": 3}, return_logprob=True
        )

    assert len(body["output_ids"]) == len(body["meta_info"]["output_token_logprobs"]) <= 3


async def test_the_client_reads_health_and_info(engine: TinyEngine) -> None:
    async with client_of(engine) as client:
        assert await client.health()
        assert (await client.model_info())["model_path"] == str(engine.model_dir)
        assert (await client.server_info())["context_length"] == 2048
        assert await client.is_multimodal() is False


async def test_the_client_retries_what_a_script_refuses() -> None:
    engine = ScriptedEngine([Refusal(), Turn(ids=[5, 6])])
    async with SGLangClient("http://engine", transport=EngineTransport(engine), retry_delay=0.001) as client:
        body = await client.generate(PROMPT)

    assert body["output_ids"] == [5, 6]
    assert engine.prompts == [PROMPT, PROMPT]

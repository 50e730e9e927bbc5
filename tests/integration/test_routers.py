"""The client through SGLang's own routers, in front of two engines."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strands_sglang import RetryPolicy, SGLangClient, SGLangNotFoundError
from strands_sglang.client import ServerKind
from strands_sglang.engine import EngineServer, ScriptedEngine, Turn
from strands_sglang.wire import GenerateReply, GenerateRequest

from .routers import INSTALL, SGLANG_ROUTER, SMG, Router, knows_all, running_router
from .watching import PATIENCE

IDS = [7, 8, 9]
TURNS = 4

SETTINGS = {
    "sglang-router, manual": (SGLANG_ROUTER, ["--policy", "manual"]),
    "smg, manual": (SMG, ["--policy", "manual"]),
    "smg, consistent hashing": (SMG, ["--policy", "consistent_hashing"]),
    "smg, override": (SMG, ["--policy", "round_robin", "--routing-key-override"]),
}


@dataclass(frozen=True, slots=True)
class Site:
    """A router in front of two engines."""

    url: str
    engines: list[ScriptedEngine]
    servers: list[EngineServer]

    def rids(self) -> list[set[str]]:
        """The requests that each engine got."""
        return [{body["rid"] for body in engine.requests} for engine in self.engines]


async def step(body: dict[str, Any]) -> Turn:
    slow = body["sampling_params"].get("max_new_tokens") == 99
    return Turn(ids=IDS, finish="length", delay=3600.0 if slow else 0.0)


@asynccontextmanager
async def site(router: Router, flags: list[str], tiny_model: Path, log: Path) -> AsyncIterator[Site]:
    if not router.is_installed:
        reason = f"{router.package} is not installed in {router.environment}; to install it: {INSTALL}"
        if os.environ.get("STRANDS_SGLANG_REQUIRE_ROUTERS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    where = {"model_path": str(tiny_model), "tokenizer_path": str(tiny_model)}
    engines = [ScriptedEngine(step, model_info=where, server_info=where) for _ in range(2)]
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(EngineServer(engine, port=0, grace=0.1)) for engine in engines]
        url = stack.enter_context(running_router(router, [server.url for server in servers], flags, log))
        await knows_all(url, 2)
        yield Site(url, engines, servers)


def asked(conversation: str, tokens: int = 3, **sampling: Any) -> GenerateRequest:
    params = {"max_new_tokens": tokens, **sampling}
    return GenerateRequest(input_ids=[1, 2, 3], sampling_params=params, conversation_id=conversation)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what needs no longer than it takes; the limit is for what never comes."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("setting", SETTINGS)
async def test_the_turns_of_a_conversation_meet_one_engine(setting: str, tiny_model: Path, tmp_path: Path) -> None:
    # Which engine a conversation gets is a matter of chance: that one of two gets none of these has odds of 1 in 2**31.
    conversations = [f"conversation {number}" for number in range(32)]
    async with site(*SETTINGS[setting], tiny_model, tmp_path / "log") as at, SGLangClient(at.url) as client:
        for _ in range(TURNS):
            await asyncio.gather(*(client.send(asked(one)) for one in conversations))
        keys = [{rid.split("_")[0] for rid in rids} for rids in at.rids()]

    assert not keys[0] & keys[1]
    assert len(keys[0] | keys[1]) == len(conversations)
    assert all(keys)


@pytest.mark.parametrize(("router", "kind"), [(SGLANG_ROUTER, ServerKind.SGLANG_ROUTER), (SMG, ServerKind.SMG)])
async def test_a_router_is_known_for_what_it_drops(
    router: Router, kind: ServerKind, tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(router, [], tiny_model, tmp_path / "log") as at, SGLangClient(at.url) as client:
        assert await client.server_kinds() == {at.url: kind}
        with caplog.at_level(logging.WARNING, "strands_sglang"):
            for _ in range(2):
                await client.send(asked("c", logit_bias={"7": 1.0}, stop_token_ids=[9]))
        received = [body["sampling_params"] for engine in at.engines for body in engine.requests]
        assert await client.health()
        with pytest.raises(SGLangNotFoundError) as raised:
            await client.pause_generation()

    assert all("logit_bias" not in sampling and sampling["stop_token_ids"] == [9] for sampling in received)
    assert sum("logit_bias" in record.getMessage() for record in caplog.records) == 1
    assert "routers do not forward" in "".join(raised.value.__notes__)


@pytest.mark.parametrize("router", [SGLANG_ROUTER, SMG])
async def test_a_streamed_reply_passes_a_router_unchanged(router: Router, tiny_model: Path, tmp_path: Path) -> None:
    async with site(router, [], tiny_model, tmp_path / "log") as at, SGLangClient(at.url) as client:
        whole = await client.send(asked("c"))
        *_, streamed = [item async for item in client.stream(asked("c"))]

    assert isinstance(streamed, GenerateReply)
    assert (whole.output_ids, whole.output_logprobs) == (streamed.output_ids, streamed.output_logprobs)


@pytest.mark.parametrize("router", [SGLANG_ROUTER, SMG])
async def test_cancelling_reaches_the_engine_behind_a_router(router: Router, tiny_model: Path, tmp_path: Path) -> None:
    async with site(router, [], tiny_model, tmp_path / "log") as at, SGLangClient(at.url) as client:
        task = asyncio.create_task(client.send(asked("c", tokens=99)))
        await until(lambda: any(at.rids()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (rid,) = set.union(*at.rids())
        # The engine itself would answer in an hour.
        await until(lambda: any(rid in engine.aborts for engine in at.engines))


@pytest.mark.parametrize("router", [SGLANG_ROUTER, SMG])
async def test_an_engine_that_dies_costs_no_request(router: Router, tiny_model: Path, tmp_path: Path) -> None:
    patience = RetryPolicy(base_delay=0.1, max_delay=1.0, max_retries=1000)
    async with (
        site(router, ["--policy", "manual"], tiny_model, tmp_path / "log") as at,
        SGLangClient(at.url, retry=patience) as client,
    ):
        conversations = [asked(f"conversation {number}") for number in range(32)]
        await asyncio.gather(*map(client.send, conversations))
        await at.servers[0].stop()
        replies = await asyncio.gather(*map(client.send, conversations))
    assert [reply.output_ids for reply in replies] == [IDS] * 32

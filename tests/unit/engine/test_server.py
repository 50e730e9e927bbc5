"""The engine on a real port: the same answers as in process, and errors that name the port."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from strands_sglang.engine import Drop, EngineServer, Refusal, ScriptedEngine, Turn, serve
from strands_sglang.errors import SGLangConfigError

BODY = {"input_ids": [1, 2]}


async def test_port_zero_picks_a_free_port_and_the_url_names_it() -> None:
    async with serve(ScriptedEngine([Turn(ids=[5])]), port=0) as server, httpx.AsyncClient() as client:
        reply = await client.post(f"{server.url}/generate", json=BODY)

    assert server.port > 0
    assert reply.json()["output_ids"] == [5]


async def test_a_taken_port_is_one_clear_error() -> None:
    async with serve(ScriptedEngine(), port=0) as server:
        with pytest.raises(SGLangConfigError, match=f"127.0.0.1:{server.port}: the port is in use"):
            await EngineServer(ScriptedEngine(), port=server.port).start()


async def test_refusals_unknown_paths_and_wrong_methods_pass_through() -> None:
    async with serve(ScriptedEngine([Refusal()]), port=0) as server, httpx.AsyncClient(base_url=server.url) as client:
        answers = [
            await client.post("/generate", json=BODY),
            await client.get("/nowhere"),
            await client.get("/generate"),
            await client.get("/health"),
        ]

    assert [answer.status_code for answer in answers] == [503, 404, 405, 200]
    assert [answer.content for answer in answers[1:]] == [
        b'{"detail":"Not Found"}',
        b'{"detail":"Method Not Allowed"}',
        b"",
    ]


async def test_a_dropped_connection_is_dropped_on_the_wire() -> None:
    async with serve(ScriptedEngine([Drop()]), port=0) as server, httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"{server.url}/generate", json=BODY)


async def test_a_stream_arrives_piece_by_piece() -> None:
    engine = ScriptedEngine([Turn(ids=[5, 6], token_delay=0.01)])
    async with (
        serve(engine, port=0) as server,
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream("POST", "/generate", json={**BODY, "stream": True}) as reply,
    ):
        lines = [line async for line in reply.aiter_lines() if line]

    assert len(lines) == 3
    assert lines[-1] == "data: [DONE]"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_noticed(stream: bool) -> None:
    # A stream that would last for minutes: it cannot be over before its reader has left.
    engine = ScriptedEngine([Turn(ids=[5] * 3000, token_delay=0.05 if stream else 30)])
    async with serve(engine, port=0) as server, httpx.AsyncClient() as client:
        if stream:
            async with client.stream("POST", f"{server.url}/generate", json={**BODY, "stream": True}) as reply:
                await anext(reply.aiter_lines())
        else:
            task = asyncio.create_task(client.post(f"{server.url}/generate", json=BODY))
            while not engine.requests:
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while not engine.disconnects:
            await asyncio.sleep(0.005)

    assert len(engine.disconnects) == 1


async def test_an_exhausted_script_is_told_over_http() -> None:
    async with serve(ScriptedEngine(), port=0) as server, httpx.AsyncClient() as client:
        reply = await client.post(f"{server.url}/generate", json=BODY)

    assert reply.status_code == 400
    assert "no step for a request" in reply.json()["error"]["message"]

"""What a call leaves behind: its aborts reach the server though its loop ends with it; its receiver's errors pass."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strands_sglang.client import SGLangClient, StreamDelta
from strands_sglang.engine import Drop, EngineTransport, Refusal, ScriptedEngine, Step, Turn
from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangClientError,
    SGLangConnectionError,
    SGLangThrottledError,
    SGLangTimeoutError,
)
from strands_sglang.retry import RetryPolicy

from .bodies import asked
from .test_pool import served_elsewhere

ONCE = RetryPolicy(max_retries=0)
REQUEST = asked(sampling_params={"max_new_tokens": 3})


@pytest.mark.parametrize(
    ("step", "options"),
    [
        (Turn(ids=[7], delay=30), {"timeout": 2.0}),  # time enough to arrive on a busy machine
        (Refusal(status=504), {}),
        (Refusal(status=408), {}),
        (Drop(), {}),
    ],
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_an_abort_leaves_though_the_loop_ends_with_the_call(
    step: Step, options: dict[str, Any], is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in ("calls._ABORT_SECONDS", "control._ABORT_SECONDS"):  # that a machine may exceed
        monkeypatch.setattr(f"strands_sglang.client.{seconds}", 60.0)
    engine = ScriptedEngine([step])

    async def send(url: str) -> None:
        client = SGLangClient(url, retry=ONCE, **options)
        try:
            await client.send(REQUEST)
        finally:
            if is_closed:
                await client.close()

    with served_elsewhere(engine) as server:
        with pytest.raises(SGLangClientError):
            asyncio.run(send(server.url))
        assert [engine.requests[0]["rid"]] == engine.aborts


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("mine"),
        ConnectionError("mine"),
        SGLangTimeoutError("mine"),
        SGLangConnectionError("mine"),
        SGLangThrottledError("mine", status=503),
        SGLangAbortedError("mine"),
        ValueError("mine"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("at", [1, 3])
async def test_a_receiver_s_own_error_passes_as_it_is_and_once(error: Exception, at: int) -> None:
    engine = ScriptedEngine(lambda body: Turn(ids=[7, 8, 9], finish="length"))
    client = SGLangClient("http://engine", transport=EngineTransport(engine), retry=RetryPolicy(base_delay=0.0))
    seen: list[StreamDelta] = []

    def fail(delta: StreamDelta) -> None:
        seen.append(delta)
        if len(seen) == at:
            raise error

    with pytest.raises(type(error)) as raised:
        await client.send(REQUEST, on_delta=fail)
    assert raised.value is error
    assert error.__context__ is None
    assert (len(engine.requests), len(seen)) == (1, at)

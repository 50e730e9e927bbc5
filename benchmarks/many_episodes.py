"""What it costs to run many episodes, and long ones.

`crowd`: `--episodes` episodes of `--turns` turns, all at once in one process, against a stub of `/generate` that
answers after 200 ms; beside it the same agents without a run, and the agent loop alone, over a model in this process
that answers after the same time. `long`: one episode of many tool turns, in one invocation and in several. Each case
runs in a process of its own, and so does the stub. CPU is that of all threads of the process.

    python benchmarks/many_episodes.py crowd
    python benchmarks/many_episodes.py long
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
from aiohttp import web
from strands import Agent, tool
from strands.models import Model

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer, run_episode, run_episodes
from strands_sglang.engine import TINY_MODEL

RESULT = "The harbour has seven metres at low water; see also the notes on currents. " * 3
CALL = '<tool_call>\n{"name": "look_up", "arguments": {"topic": "depth"}}\n</tool_call><|im_end|>'
ANSWER = "Seven metres.<|im_end|>"
DELAY = 0.2  # seconds; another with --delay


@tool
async def look_up(topic: str) -> str:
    """Look something up."""
    return RESULT


class Stub:
    """Answers `/generate` with a call in every turn but the last; a turn is told by the calls in the prompt."""

    def __init__(self, turns: int) -> None:
        """Encode the two answers."""
        self._tokenizer = get_tokenizer(TINY_MODEL)
        self._turns = turns
        self._call_id = self._tokenizer.convert_tokens_to_ids("<tool_call>")
        self._shown: int | None = None
        self._replies = [self._reply(CALL), self._reply(ANSWER)]

    def _reply(self, text: str) -> dict[str, Any]:
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        meta = {
            "finish_reason": {"type": "stop", "matched": ids[-1]},
            "weight_version": "default",
            "output_token_logprobs": [[-0.5, token, None] for token in ids],
            "completion_tokens": len(ids),
            "cached_tokens": 0,
        }
        return {"text": text, "output_ids": ids, "meta_info": meta}

    def answer(self, body: bytes) -> bytes:
        """Answer a request."""
        asked = orjson.loads(body)
        calls = asked["input_ids"].count(self._call_id)
        if self._shown is None:
            self._shown = calls  # those that the tools' description holds; the first request has no other
        reply = self._replies[calls - self._shown + 1 >= self._turns]
        meta = {**reply["meta_info"], "id": asked.get("rid", ""), "prompt_tokens": len(asked["input_ids"])}
        return orjson.dumps({**reply, "meta_info": meta})


class StubTransport(httpx.AsyncBaseTransport):
    """The stub in this process."""

    def __init__(self, stub: Stub) -> None:
        """Take the stub."""
        self._stub = stub

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer at once."""
        if request.url.path != "/generate":
            return httpx.Response(200, json={})
        body = self._stub.answer(await request.aread())
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})


class ModelInProcess(Model):
    """A model without a server: what the agent loop costs by itself."""

    def __init__(self, turns: int, delay: float) -> None:
        """Take the number of turns and the seconds of each."""
        self._turns, self._delay, self._done = turns, delay, 0

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> Any:
        """There is nothing to configure."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Never asked for."""
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield a call, or the answer."""
        await asyncio.sleep(self._delay)
        self._done += 1
        yield {"messageStart": {"role": "assistant"}}
        if self._done < self._turns:
            use = {"toolUseId": f"call_{self._done}", "name": "look_up"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"topic": "depth"}'}}}}
        else:
            yield {"contentBlockDelta": {"delta": {"text": "Seven metres."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if self._done < self._turns else "end_turn"}}


def agent_of(model: Model) -> Agent:
    """Make the agent of every case."""
    return Agent(model=model, tools=[look_up], callback_handler=None)


# --- cases ---------------------------------------------------------------------------------------------------


async def crowd(episodes: int, turns: int, url: str) -> dict[str, Any]:
    """Run the episodes all at once with `run_episodes`."""
    tokenizer = get_tokenizer(TINY_MODEL)
    async with SGLangClient(url, max_connections=episodes, connect_timeout=60) as client:

        def factory() -> Agent:
            return agent_of(SGLangModel(client=client, tokenizer=tokenizer))

        await run_episode(factory, "Warm up?")
        since = Since()
        endings: Counter[str] = Counter()
        at_once = 0
        run = run_episodes(factory, (f"Question {n}?" for n in range(episodes)), concurrency=episodes)
        async for episode in run:
            endings[episode.termination.reason.value] += 1
            at_once = max(at_once, run.metrics()["episodes_running"] + 1)
        return {**since.passed(episodes * turns), "endings": dict(endings), "at_once": at_once}


async def agents_alone(episodes: int, turns: int, url: str) -> dict[str, Any]:
    """Run the same agents without `run_episodes`: no endings, no limits, no isolation."""
    tokenizer = get_tokenizer(TINY_MODEL)
    async with SGLangClient(url, max_connections=episodes, connect_timeout=60) as client:

        async def one(question: str) -> str:
            return (await agent_of(SGLangModel(client=client, tokenizer=tokenizer)).invoke_async(question)).stop_reason

        await one("Warm up?")
        since = Since()
        endings = Counter(await asyncio.gather(*(one(f"Question {n}?") for n in range(episodes))))
        return {**since.passed(episodes * turns), "endings": dict(endings)}


async def loop_alone(episodes: int, turns: int, delay: float) -> dict[str, Any]:
    """Run as many agents over models in this process."""
    await agent_of(ModelInProcess(2, 0)).invoke_async("Warm up?")
    since = Since()
    results = await asyncio.gather(
        *(agent_of(ModelInProcess(turns, delay)).invoke_async(f"Question {n}?") for n in range(episodes))
    )
    endings = Counter(result.stop_reason for result in results)
    return {**since.passed(episodes * turns), "endings": dict(endings)}


async def long(turns: int, per_invocation: int | None) -> dict[str, Any]:
    """Run one long episode."""
    tokenizer = get_tokenizer(TINY_MODEL)
    client = SGLangClient("http://stub", transport=StubTransport(Stub(turns)))
    since = Since()
    episode = await run_episode(
        lambda: agent_of(SGLangModel(client=client, tokenizer=tokenizer)),
        "How deep is it?",
        turns_per_invocation=per_invocation,
    )
    numbers = episode.metrics
    return {
        **since.passed(numbers["turns"]),
        "ending": episode.termination.reason.value,
        "turns": numbers["turns"],
        "invocations": numbers["invocations"],
        "branches": len(episode.trajectory.branches),
        "tokens": len(episode.trajectory.branches[0]),
    }


class Since:
    """What passed since it was made."""

    def __init__(self) -> None:
        """Look at the clocks."""
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        self._memory = memory()

    def passed(self, turns: int) -> dict[str, float]:
        """Return what passed, for each turn where that says more."""
        cpu = time.process_time() - self._cpu
        return {
            "seconds": round(time.perf_counter() - self._wall, 1),
            "cpu_ms_per_turn": round(1000 * cpu / turns, 2),
            "peak_memory_mib": round(memory()),
            "of_it_before_mib": round(self._memory),
        }


def memory() -> float:
    """Return the most memory that the process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def serve(turns: int, delay: float) -> None:
    """Serve the stub on a free port, until the process is ended."""
    stub = Stub(turns)

    async def generate(request: web.Request) -> web.Response:
        body = await request.read()
        await asyncio.sleep(delay)
        return web.Response(body=stub.answer(body), content_type="application/json")

    async def nothing(request: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/generate", generate), web.get("/{rest:.*}", nothing)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


# --- the driver ----------------------------------------------------------------------------------------------


def show(name: str, *arguments: Any) -> None:
    """Run a case in a process of its own and print what it says."""
    command = [sys.executable, __file__, "case", name, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{' '.join(map(str, (name, *arguments)))}: {done.stdout.strip()}", flush=True)


def crowd_and_loop(episodes: int, turns: int, delay: float) -> None:
    """Show the crowd beside the loop alone."""
    show("loop", episodes, turns)
    stub = subprocess.Popen(
        [sys.executable, __file__, "stub", "--turns", str(turns)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert stub.stdout is not None
        url = f"http://127.0.0.1:{int(stub.stdout.readline())}"
        show("agents", episodes, turns, url)
        show("crowd", episodes, turns, url)
    finally:
        stub.kill()
        stub.wait()


def case(name: str, arguments: list[str]) -> Any:
    """Return the coroutine of a case."""
    if name in ("crowd", "agents"):
        of_server = crowd if name == "crowd" else agents_alone
        return of_server(int(arguments[0]), int(arguments[1]), arguments[2])
    if name == "loop":
        return loop_alone(int(arguments[0]), int(arguments[1]), float(arguments[2]))
    return long(int(arguments[0]), None if arguments[1] == "None" else int(arguments[1]))


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["crowd", "long", "stub", "case"])
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--delay", type=float, default=DELAY)
    args = parser.parse_args()
    if args.what == "case":
        print(json.dumps(asyncio.run(case(args.rest[0], args.rest[1:]))))
    elif args.what == "stub":
        asyncio.run(serve(args.turns, args.delay))
    elif args.what == "crowd":
        crowd_and_loop(args.episodes, args.turns, args.delay)
    else:
        for turns, per_invocation in ((100, None), (100, 25), (300, None), (300, 25), (400, None), (1001, 25)):
            show("long", turns, per_invocation)


if __name__ == "__main__":
    main()

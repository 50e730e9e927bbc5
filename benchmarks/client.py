"""Throughput and CPU of the client beside bare aiohttp, plain httpx and the released strands-sglang.

Each variant runs in a process of its own against a stub server (another process): prompts of 8,192 ids, replies of
512 tokens with log-probabilities, a fixed number of workers that each send one request after the other. Reported are
requests per second and the CPU time per request of the client's process and of the stub's. The variants of one load
take turns, and the best of the repeats counts, so that other work on the machine touches all of them alike.

    python benchmarks/client.py
    python benchmarks/client.py --concurrency 512 --delay 0.05 --released OTHER_ENVIRONMENT/bin/python

The released client is measured when `--released` names the interpreter of an environment that holds it:

    python -m venv OTHER_ENVIRONMENT && OTHER_ENVIRONMENT/bin/pip install strands-sglang==0.4.3 orjson
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROMPT_TOKENS, OUTPUT_TOKENS = 8192, 512
SAMPLING = {"max_new_tokens": OUTPUT_TOKENS, "temperature": 1.0}
Send = Callable[[list[int]], Awaitable[Any]]
Close = Callable[[], Awaitable[Any]]


def payload(ids: list[int]) -> dict[str, Any]:
    """Return what every variant sends."""
    return {"input_ids": ids, "sampling_params": SAMPLING, "return_logprob": True}


def bare_aiohttp(url: str, connections: int) -> tuple[Send, Close]:
    """Aiohttp and orjson and nothing else: the least that this can cost."""
    import aiohttp
    import orjson

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections))
    headers = {"content-type": "application/json"}

    async def send(ids: list[int]) -> Any:
        async with session.post(url + "/generate", data=orjson.dumps(payload(ids)), headers=headers) as response:
            return orjson.loads(await response.read())

    return send, session.close


def plain_httpx(url: str, connections: int) -> tuple[Send, Close]:
    """An httpx client as it comes."""
    import httpx

    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx.AsyncClient(base_url=url, limits=limits, timeout=None, trust_env=False)

    async def send(ids: list[int]) -> Any:
        return (await client.post("/generate", json=payload(ids))).json()

    return send, client.aclose


def strands_sglang(url: str, connections: int) -> tuple[Send, Close]:
    """The public `generate` of whichever strands-sglang is installed."""
    from strands_sglang.client import SGLangClient

    client = SGLangClient(url, max_connections=connections)

    async def send(ids: list[int]) -> Any:
        return await client.generate(ids, sampling_params=SAMPLING, return_logprob=True)

    return send, client.close


def strands_sglang_conversation(url: str, connections: int) -> tuple[Send, Close]:
    """`send` as a session calls it: the prompt's JSON is there but for the last 256 ids."""
    from strands_sglang.client import SGLangClient
    from strands_sglang.wire import GenerateRequest, PromptIds

    client = SGLangClient(url, max_connections=connections)
    known: dict[int, PromptIds] = {}

    async def send(ids: list[int]) -> Any:
        if id(ids) not in known:
            known[id(ids)] = PromptIds(ids[:-256])
        request = GenerateRequest(
            input_ids=known[id(ids)].extended(ids[-256:]), sampling_params=SAMPLING, conversation_id="c"
        )
        return await client.send(request)

    return send, client.close


VARIANTS = {
    "bare aiohttp": bare_aiohttp,
    "plain httpx": plain_httpx,
    "this client": strands_sglang,
    "this client, conversation": strands_sglang_conversation,
    "released client": strands_sglang,
}


async def measure(variant: str, url: str, concurrency: int, seconds: float) -> dict[str, float]:
    """Run one variant for a while and return its numbers."""
    rng = random.Random(0)
    prompts = [[rng.randrange(1000, 150_000) for _ in range(PROMPT_TOKENS)] for _ in range(16)]
    send, close = VARIANTS[variant](url, concurrency)
    done = 0
    measuring = asyncio.Event()
    stop = False

    async def worker(number: int) -> None:
        nonlocal done
        while not stop:
            await send(prompts[number % len(prompts)])
            done += measuring.is_set()

    workers = [asyncio.create_task(worker(number)) for number in range(concurrency)]
    await asyncio.sleep(min(seconds, 2.0))  # connections come up, caches warm
    measuring.set()
    started, cpu, stub_cpu = time.perf_counter(), time.process_time(), await stub_seconds(url)
    await asyncio.sleep(seconds)
    elapsed, cpu, count = time.perf_counter() - started, time.process_time() - cpu, max(done, 1)
    stub_cpu = await stub_seconds(url) - stub_cpu
    stop = True
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    await close()
    return {"rate": count / elapsed, "cpu_ms": cpu / count * 1000, "stub_ms": stub_cpu / count * 1000}


async def stub_seconds(url: str) -> float:
    """CPU time of the stub."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url + "/cpu") as response:
        return float(await response.text())


def in_own_process(python: str, variant: str, url: str, concurrency: int, seconds: float) -> dict[str, float]:
    """Run one variant in a process of its own."""
    command = [python, __file__, "--measure", variant, "--url", url]
    command += ["--concurrency", str(concurrency), "--seconds", str(seconds)]
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" or python == sys.executable
    }
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def compare(arguments: argparse.Namespace) -> None:
    """Measure every variant at every load and print a table."""
    versions = {name: importlib.metadata.version(name) for name in ("aiohttp", "httpx", "orjson")}
    print(f"{versions}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    print(f"{'delay':>6} {'conc.':>6}  {'variant':28} {'req/s':>8} {'CPU ms':>7} {'stub ms':>8} {'of bare':>8}")
    for delay in arguments.delay:
        port = free_port()
        command = [sys.executable, str(HERE / "stub_server.py"), "--port", str(port), "--delay", str(delay)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as stub:
            assert stub.stdout is not None
            stub.stdout.readline()
            try:
                for concurrency in arguments.concurrency:
                    row(arguments, f"http://127.0.0.1:{port}", delay, concurrency)
            finally:
                stub.terminate()


def row(arguments: argparse.Namespace, url: str, delay: float, concurrency: int) -> None:
    """Measure every variant at one load."""
    variants = [name for name in VARIANTS if name not in arguments.skip]
    if not arguments.released and "released client" in variants:
        variants.remove("released client")
    best: dict[str, dict[str, float]] = {}
    for _ in range(arguments.repeats):
        for variant in variants:
            python = arguments.released if variant == "released client" else sys.executable
            run = in_own_process(python, variant, url, concurrency, arguments.seconds)
            best[variant] = max(run, best.get(variant, run), key=lambda one: one["rate"])
    bare = best.get("bare aiohttp", {"rate": float("nan")})["rate"]
    for variant, run in best.items():
        print(
            f"{delay:6.3f} {concurrency:6d}  {variant:28} {run['rate']:8.1f} {run['cpu_ms']:7.2f} "
            f"{run['stub_ms']:8.2f} {run['rate'] / bare:8.2f}",
            flush=True,
        )


def main() -> None:
    """Read the arguments; measure one variant, or compare all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 512, 1024])
    parser.add_argument("--delay", type=float, nargs="+", default=[0.05, 0.5])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--skip", nargs="*", default=[], help="variants to leave out")
    parser.add_argument("--released", help="interpreter of an environment with the released strands-sglang")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        numbers = asyncio.run(measure(arguments.measure, arguments.url, arguments.concurrency[0], arguments.seconds))
        print(json.dumps(numbers))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()

"""A stub of `/generate`: it decodes each request, waits, and encodes a reply in SGLang's shape, and does no more.

The reply has `--tokens` output ids with log-probabilities, and counts the prompt ids it read. `GET /cpu` tells the CPU
seconds that the stub has used, so that a benchmark can say whose time it measured.

    python benchmarks/stub_server.py --port 18080 --delay 0.05
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from typing import Any

import orjson
from aiohttp import web


def reply_of(rid: str, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """Return a reply as long as a real one."""
    rng = random.Random(0)
    ids = [rng.randrange(1000, 150_000) for _ in range(output_tokens)]
    meta = {
        "id": rid,
        "finish_reason": {"type": "length", "length": output_tokens},
        "prompt_tokens": prompt_tokens,
        "weight_version": "default",
        "input_token_logprobs": [],
        "output_token_logprobs": [[-rng.expovariate(2.0), token, None] for token in ids],
        "output_token_logprobs_length": output_tokens,
        "completion_tokens": output_tokens,
        "cached_tokens": 0,
        "weight_versions": [{"version": "default", "start": 0, "end": output_tokens}],
        "e2e_latency": 0.05,
    }
    text = " ".join(str(token) for token in ids)
    return {"text": text, "output_ids": ids, "meta_info": meta}


def application(delay: float, output_tokens: int) -> web.Application:
    """Return the stub."""
    reply = reply_of("", 0, output_tokens)

    async def generate(request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        await asyncio.sleep(delay)
        meta = {**reply["meta_info"], "id": asked.get("rid", ""), "prompt_tokens": len(asked["input_ids"])}
        return web.Response(body=orjson.dumps({**reply, "meta_info": meta}), content_type="application/json")

    async def abort(request: web.Request) -> web.Response:
        return web.Response()

    async def cpu(request: web.Request) -> web.Response:
        return web.Response(text=str(time.process_time()))

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/generate", generate), web.post("/abort_request", abort), web.get("/cpu", cpu)])
    return app


async def serve(port: int, delay: float, output_tokens: int) -> None:
    """Serve until the process is ended."""
    runner = web.AppRunner(application(delay, output_tokens), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before each reply")
    parser.add_argument("--tokens", type=int, default=512, help="output tokens of the reply")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.delay, arguments.tokens))


if __name__ == "__main__":
    main()

"""A stub of `/generate`: it decodes each request, waits, and encodes a reply in SGLang's shape, and does no more.

The reply has `--tokens` output ids with log-probabilities, and counts the prompt ids it read. `GET /cpu` tells the CPU
seconds that the stub has used, so that a benchmark can say whose time it measured.

With `--workload FILE` (see `workload.py`) it plays a model that calls a tool in every turn but the last, for text-only
providers at `/v1/chat/completions`, too. A token budget of 1,000 + N asks for N turns; which of them a request has
reached is told by the calls in it.

    python benchmarks/stub_server.py --port 18080 --delay 0.05
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web


def reply_of(
    rid: str, prompt_tokens: int, ids: Sequence[int], *, text: str | None = None, stop: int | None = None
) -> dict[str, Any]:
    """Return a reply as long as a real one."""
    rng = random.Random(0)
    count = len(ids)
    meta = {
        "id": rid,
        "finish_reason": {"type": "length", "length": count} if stop is None else {"type": "stop", "matched": stop},
        "prompt_tokens": prompt_tokens,
        "weight_version": "default",
        "input_token_logprobs": [],
        "output_token_logprobs": [[-rng.expovariate(2.0), token, None] for token in ids],
        "output_token_logprobs_length": count,
        "completion_tokens": count,
        "cached_tokens": 0,
        "weight_versions": [{"version": "default", "start": 0, "end": count}],
        "e2e_latency": 0.05,
    }
    return {
        "text": " ".join(str(token) for token in ids) if text is None else text,
        "output_ids": list(ids),
        "meta_info": meta,
    }


def random_ids(count: int) -> list[int]:
    """Return so many ids."""
    rng = random.Random(0)
    return [rng.randrange(1000, 150_000) for _ in range(count)]


class Model:
    """Plays the model of a workload."""

    def __init__(self, path: Path) -> None:
        """Read the workload and make its two replies."""
        self._work = json.loads(path.read_text())
        call, answer, end = self._work["call"], self._work["answer"], self._work["end_id"]
        self._call = reply_of("", 0, call["ids"], text=call["text"], stop=end)
        self._answer = reply_of("", 0, answer["ids"], text=answer["text"], stop=end)

    def generate(self, asked: dict[str, Any]) -> bytes:
        """Answer `/generate`."""
        ids, turns = asked["input_ids"], asked["sampling_params"]["max_new_tokens"] - 1_000
        done = ids.count(self._work["call_id"]) - self._work["shown_calls"]
        reply = self._call if done + 1 < turns else self._answer
        meta = {**reply["meta_info"], "id": asked.get("rid", ""), "prompt_tokens": len(ids)}
        # SGLang gives the values of the prompt from where they were asked for.
        if (start := asked.get("logprob_start_len")) is not None and 0 <= start < len(ids):
            meta["input_token_logprobs"] = [
                [None if i == start else -1.5, ids[i], None] for i in range(start, len(ids))
            ]
        return orjson.dumps({**reply, "meta_info": meta})

    def completion(self, asked: dict[str, Any]) -> bytes:
        """Answer `/v1/chat/completions` as a stream: the text, the call, the end, the usage."""
        turns = asked["max_tokens"] - 1_000
        done = sum(message["role"] == "assistant" for message in asked["messages"])
        call, answer = self._work["call"], self._work["answer"]
        if done + 1 < turns:
            function = {"name": "look_up", "arguments": json.dumps(call["arguments"])}
            used = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
            parts: list[tuple[Any, Any]] = [
                ({"role": "assistant", "content": call["said"]}, None),
                ({"tool_calls": [used]}, None),
            ]
            parts.append(({}, "tool_calls"))
        else:
            parts = [({"role": "assistant", "content": answer["text"]}, None), ({}, "stop")]
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in parts]
        count = len(call["ids"])
        usage = {"prompt_tokens": 1000, "completion_tokens": count, "total_tokens": 1000 + count}
        frame = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
        chunks = [{**frame, **event} for event in events] + [{**frame, "choices": [], "usage": usage}]
        return b"".join(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def application(delay: float, output_tokens: int, workload: Path | None) -> web.Application:
    """Return the stub."""
    reply = reply_of("", 0, random_ids(output_tokens))
    model = Model(workload) if workload is not None else None

    async def generate(request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        await asyncio.sleep(delay)
        if model is not None:
            return web.Response(body=model.generate(asked), content_type="application/json")
        meta = {**reply["meta_info"], "id": asked.get("rid", ""), "prompt_tokens": len(asked["input_ids"])}
        return web.Response(body=orjson.dumps({**reply, "meta_info": meta}), content_type="application/json")

    async def completions(request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        await asyncio.sleep(delay)
        if model is None:
            return web.Response(status=404)
        return web.Response(body=model.completion(asked), content_type="text/event-stream")

    async def nothing(request: web.Request) -> web.Response:
        return web.json_response({})

    async def cpu(request: web.Request) -> web.Response:
        return web.Response(text=str(time.process_time()))

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/generate", generate), web.post("/v1/chat/completions", completions)])
    app.add_routes([web.post("/abort_request", nothing), web.get("/model_info", nothing), web.get("/cpu", cpu)])
    return app


async def serve(port: int, delay: float, output_tokens: int, workload: Path | None) -> None:
    """Serve until the process is ended."""
    runner = web.AppRunner(application(delay, output_tokens, workload), access_log=None)
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
    parser.add_argument("--workload", type=Path, help="play the model of this workload, too")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.delay, arguments.tokens, arguments.workload))


if __name__ == "__main__":
    main()

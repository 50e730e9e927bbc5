"""A stub of `/generate`: it decodes each request, waits, and encodes a reply, as any server must, and does no more.

The reply has `--tokens` output ids with log-probabilities in SGLang's shape, and counts the prompt ids it read.

    python benchmarks/stub_server.py --port 18080 --delay 0.05
"""

from __future__ import annotations

import argparse
import asyncio
import random
from typing import Any

import orjson


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


class Stub(asyncio.Protocol):
    """One connection: reads requests one after the other, answers each after the delay."""

    def __init__(self, reply: dict[str, Any], delay: float) -> None:
        """Keep the prepared reply."""
        self.reply, self.delay = reply, delay
        self.parts: list[bytes] = []
        self.waiting = 0  # bytes of the body that are still to come
        self.head = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the body; answer when all are here."""
        if not self.waiting:
            self.head += data
            head, separator, body = self.head.partition(b"\r\n\r\n")
            if not separator:
                return
            self.head = b""
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            self.parts, self.waiting = [body], length - len(body)
        else:
            self.parts.append(data)
            self.waiting -= len(data)
        if not self.waiting:
            request = orjson.loads(b"".join(self.parts))
            asyncio.get_running_loop().call_later(self.delay, self.answer, request)

    def answer(self, request: dict[str, Any]) -> None:
        """Write the reply, unless the client has gone."""
        if self.transport is None or self.transport.is_closing():
            return
        if "input_ids" not in request:  # an abort
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return
        meta = {**self.reply["meta_info"], "id": request.get("rid", ""), "prompt_tokens": len(request["input_ids"])}
        body = orjson.dumps({**self.reply, "meta_info": meta})
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


async def serve(port: int, delay: float, output_tokens: int) -> None:
    """Serve until the process is ended."""
    reply = reply_of("", 0, output_tokens)
    server = await asyncio.get_running_loop().create_server(lambda: Stub(reply, delay), "127.0.0.1", port, backlog=4096)
    async with server:
        print("ready", flush=True)
        await server.serve_forever()


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

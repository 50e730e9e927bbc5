"""`strands-sglang serve`: the embedded engine on a port of this machine.

Owns the process around the server: its options, its one line of output, its end by signal.
Never listens beyond loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from strands_sglang.engine import TinyEngine, serve

if TYPE_CHECKING:
    from strands_sglang.engine import EngineServer

DEFAULT_PORT = 30000
"""The port that SGLang itself takes."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser(
        "serve",
        help="serve the embedded model on loopback, as an SGLang server would",
        description="Serve the embedded model on 127.0.0.1 with SGLang's native API: /generate, /health, /model_info, "
        "/server_info, /abort_request and the other control endpoints. Needs the extra 'demo'.",
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, metavar="P", help=f"default {DEFAULT_PORT}; 0 takes any free port"
    )
    parser.add_argument("--model", metavar="DIR", help="folder of a dense Qwen3 checkpoint; default: the shipped model")
    parser.add_argument("--seed", type=int, metavar="N", help="make what is sampled repeatable; default: it is not")


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return port


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; requests that run then may finish.

    Raises:
        SGLangConfigError: NumPy is missing, the folder holds no such checkpoint, or the port cannot be had.
    """
    # The matrices are too small for a second thread of OpenBLAS to pay; read when NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    engine = TinyEngine(args.model, seed=args.seed)
    asyncio.run(_serve(serve(engine, port=args.port), str(engine.model_dir)))
    return 0


async def _serve(server: EngineServer, model: str) -> None:
    stopped = asyncio.Event()
    async with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # Windows: there Ctrl-C interrupts the wait instead
                asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        print(f"serving {model} at {server.url} (Ctrl-C stops)", flush=True)
        await stopped.wait()

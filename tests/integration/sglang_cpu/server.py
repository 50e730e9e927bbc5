"""A real SGLang server for the length of a `with` block.

Owns the process: inside the block it answers on loopback and is ready; after the block neither it nor a worker of it
runs. A server that does not become ready is an error that shows the end of its log.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import httpx

from .install import HERE, python_of

READY_WITHIN = 600.0
"""Seconds until `/health` must answer 200. A start takes 20 s on two quiet cores, minutes on very busy ones."""

STOP_WITHIN = 30.0
"""Seconds that SIGTERM may take, before the whole process group is killed."""

LOG_TAIL = 6000
"""Characters of the log shown with an error."""


class ServerStartError(Exception):
    """The server ended, or was not ready in time; the message ends with the tail of its log."""


@contextlib.contextmanager
def running_server(environment: Path, model: Path, flags: Sequence[str], log: Path) -> Iterator[str]:
    """Run a server on a free port and give its base URL.

    Args:
        environment: The installed environment.
        model: The checkpoint's folder.
        flags: More flags of `sglang.launch_server`; a later one wins over those of serve.py.
        log: Where the server's output goes.

    Raises:
        ServerStartError: If it does not become ready.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("ab") as output:
        process = spawn(environment, model, port, flags, output)
    try:
        wait_until_ready(process, url, log)
        yield url
    finally:
        stop(process)


def spawn(environment: Path, model: Path, port: int, flags: Sequence[str], output: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a server, which ends with this thread at the latest, and return without waiting for it."""
    return subprocess.Popen(
        [str(python_of(environment)), str(HERE / "serve.py"), str(model), str(port), *flags],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "STRANDS_SGLANG_END_WITH_PARENT": "1"},
        # A session of its own, so that the group holds the server and its workers and nothing else.
        start_new_session=True,
    )


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return once `/health` answers 200, which it does after a first generation of its own."""
    deadline = time.monotonic() + READY_WITHIN
    with httpx.Client(base_url=url, timeout=30.0, trust_env=False) as client:
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                raise ServerStartError(f"the server ended with status {status} while starting\n{tail(log)}")
            with contextlib.suppress(httpx.TransportError):
                if client.get("/health").status_code == httpx.codes.OK:
                    return
            time.sleep(0.5)
    raise ServerStartError(f"the server was not ready within {READY_WITHIN:.0f} s\n{tail(log)}")


def tail(log: Path) -> str:
    """Return the end of the log with its place."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return f"--- end of {log} ---\n{text[-LOG_TAIL:]}"


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and whatever is left of its process group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_WITHIN)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

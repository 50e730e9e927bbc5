"""SGLang's routers as they come from PyPI, each in an environment of its own, and running for a `with` block.

    python -m tests.integration.routers        # installs both, some 300 MB

Both wheels ship a command called `smg`, so they cannot share an environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from .sglang_cpu.install import cache_dir, python_of

READY_WITHIN = 300.0
INSTALL = "python -m tests.integration.routers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """One router package.

    Attributes:
        package: Its name on PyPI.
        version: The version that the tests are written for.
        module: The module whose execution launches it, with what comes before the options.
    """

    package: str
    version: str
    module: tuple[str, ...]

    @property
    def environment(self) -> Path:
        """Where it is installed."""
        return cache_dir() / f"{self.package}-{self.version}"

    @property
    def is_installed(self) -> bool:
        """Whether it was installed to the end."""
        return (self.environment / "done").exists()

    def install(self) -> None:
        """Make its environment, unless it is there."""
        if self.is_installed:
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.environment)], check=True)
        pip = [str(python_of(self.environment)), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"{self.package}=={self.version}"], check=True)
        (self.environment / "done").touch()


SGLANG_ROUTER = Router(package="sglang-router", version="0.3.2", module=("sglang_router.launch_router",))
SMG = Router(package="smg", version="1.13.0", module=("smg", "launch"))


@contextlib.contextmanager
def running_router(router: Router, workers: Sequence[str], flags: Sequence[str], log: Path) -> Iterator[str]:
    """Run a router in front of `workers` on a free port and give its base URL; see `knows_all`."""
    port, metrics = free_port(), free_port()
    command = [str(python_of(router.environment)), "-m", *router.module]
    command += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    command += ["--log-level", "warn", "--worker-startup-check-interval", "1", *flags, "--worker-urls", *workers]
    # It looks for the model's tokenizer and must not look outside.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def knows_all(url: str, count: int) -> None:
    """Wait until a router answers and has `count` healthy workers."""
    deadline = time.monotonic() + READY_WITHIN
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                listed = (await client.get("/workers")).json()["workers"]
                if sum(worker["is_healthy"] for worker in listed) == count:
                    return
            await asyncio.sleep(0.25)
    raise TimeoutError(f"the router at {url} did not find its {count} workers in {READY_WITHIN:.0f} s")


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    for each in (SGLANG_ROUTER, SMG):
        each.install()
        print(f"{each.package} {each.version}: {each.environment}")

"""`strands-sglang serve`: a process that says where it listens and ends on a signal."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys

import httpx
import pytest

from strands_sglang.cli import serve as command
from strands_sglang.engine import ScriptedEngine, serve
from strands_sglang.errors import SGLangConfigError

RUN = "import argparse; from strands_sglang.cli import serve; serve.run(argparse.Namespace(port=0, model=None, seed=1))"


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["serve", *arguments])


def test_it_serves_until_it_is_told_to_stop() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.partition(" at ")[2].split()[0]
        body = {"text": "2 + 2", "sampling_params": {"max_new_tokens": 2, "ignore_eos": True}}
        reply = httpx.post(f"{url}/generate", json=body, timeout=60)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=30)

    assert len(reply.json()["output_ids"]) == 2
    assert code == 0


async def test_a_taken_port_is_reported_by_its_number() -> None:
    async with serve(ScriptedEngine(), port=0) as server:
        with pytest.raises(SGLangConfigError, match=f"{server.port}: the port is in use"):
            await asyncio.to_thread(command.run, parse("--port", str(server.port)))


def test_options_have_their_defaults() -> None:
    assert vars(parse()) == {"port": 30000, "model": None, "seed": None}


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--port", port)

    assert "port" in capsys.readouterr().err

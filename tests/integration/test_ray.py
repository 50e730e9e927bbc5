"""Episodes over the actors of a local Ray, against the real server, one actor killed in the middle.

Ray has an environment of its own, which is kept; this library comes from `src`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .ray_agents.rollout import GROUP, PROMPTS
from .sglang_cpu.install import LOCK, cache_dir, locked

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def interpreter() -> Path:
    """The interpreter of an environment with Ray."""
    environment = cache_dir() / "ray"
    environment.mkdir(parents=True, exist_ok=True)
    python, stamp = environment / "bin" / "python", environment / "installed"
    with locked(environment / LOCK):
        if not stamp.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "uv"], check=True)
            uv = [str(environment / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python)]
            subprocess.run([*uv, f"{ROOT}[ray]"], check=True)
            stamp.touch()
    return python


def run(interpreter: Path, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script; again where Ray itself did not come up, as on a machine that is too busy for its fixed times."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "RAY_raylet_start_wait_time_s": "120",
    }
    for number in range(3):
        own = folder / str(number)
        own.mkdir()
        done = subprocess.run(
            [str(interpreter), str(ROOT / "tests/integration/ray_agents/rollout.py"), url, str(own)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if "Ray cannot be had" not in done.stderr:
            break
    return done


def test_an_actor_that_is_killed_costs_only_what_it_was_running(
    interpreter: Path, sglang_url: str, tmp_path: Path
) -> None:
    done = run(interpreter, sglang_url, tmp_path)

    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    everything = sorted([str(number), index] for number in range(PROMPTS) for index in range(GROUP))
    assert sorted(shown["finished"]) == everything, shown["unfinished"]
    assert shown["saved"] == PROMPTS * GROUP
    assert shown["saved_otherwise"] == []
    assert shown["rewarded"] == PROMPTS * GROUP
    assert len(shown["processes"]) in (2, 3)  # the one that took the killed one's place may have come too late for work
    assert shown["metrics"]["episodes"] == PROMPTS * GROUP
    # Begun again is what the killed actor was running, and nothing that was done.
    assert 1 <= len(shown["begun_again"]) <= shown["metrics"]["episodes_lost"] <= 6
    assert shown["begun_again"]["5/1"] == 2

"""The package strands-env, written against the released 0.4.x, runs unchanged against this library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strands_sglang import Rollout

from .sglang_cpu.install import LOCK, cache_dir, locked

ROOT = Path(__file__).parents[2]
PACKAGE = "strands-env==0.5.1"
SCRIPT = ROOT / "tests/integration/existing_code/rollout.py"


@pytest.fixture(scope="module")
def interpreter() -> Path:
    """The interpreter of an environment with strands-env; it is kept, and this library comes from `src`."""
    environment = cache_dir() / PACKAGE.replace("==", "-")
    environment.mkdir(parents=True, exist_ok=True)
    python, stamp = environment / "bin" / "python", environment / "installed"
    with locked(environment / LOCK):
        if not stamp.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "uv"], check=True)  # resolves this package's many dependencies in seconds
            uv = [str(environment / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python)]
            subprocess.run([*uv, f"{ROOT}[demo]", PACKAGE], check=True)
            stamp.touch()
    return python


def test_strands_env_runs_a_rollout(interpreter: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    done = subprocess.run(
        [str(interpreter), str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=900, check=False
    )

    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(shown["package"]).is_relative_to(ROOT / "src")
    assert (shown["termination"], shown["reward"]) == ("task_complete", 1.0)
    assert (shown["metrics"]["tool_iters"], shown["metrics"]["tool_calls"]) == (1, 1)
    rollout = Rollout.from_dict(shown["rollout"])
    assert rollout == Rollout.from_dict(shown["saved"])
    assert shown["metrics"]["output_tokens"]["total"] == sum(rollout.loss_mask)

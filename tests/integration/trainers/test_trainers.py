"""Each trainer's own code takes our rows: its types, its validation, its collator, and where that is small, a step.

Each runs in an environment of its own (see `environments.py`), and only where `STRANDS_SGLANG_TRAINERS` names the
trainer or is "all". An environment is made once and kept.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .environments import RECIPES, WANTED, interpreter, wanted

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_the_trainer_takes_our_rows(name: str) -> None:
    if not wanted(name):
        pytest.skip(f"not asked for: {WANTED}={name}, or all, makes its environment and checks it")
    python = interpreter(name)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "HF_HUB_OFFLINE": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "WANDB_MODE": "disabled",
        "CUDA_VISIBLE_DEVICES": "",
    }

    done = subprocess.run(
        [str(python), "-W", "ignore", "-m", "tests.integration.trainers.checks", name],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    shown = json.loads(done.stdout.splitlines()[-1])
    print(name, shown.pop("version"))
    assert shown
    assert [what for what, good in shown.items() if good is not True] == []

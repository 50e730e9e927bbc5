from __future__ import annotations

import random
from pathlib import Path

from .kill_and_resume import GROUP, PROMPTS, kill_and_resume


def test_a_killed_run_is_resumed_to_exactly_its_episodes(tmp_path: Path) -> None:
    """Once here; ten times with `python -m tests.unit.runner.kill_and_resume`."""
    counts = kill_and_resume(tmp_path / "out.jsonl", 1, random.Random(1))

    assert set(counts.values()) == {1}
    assert len(counts) == PROMPTS * GROUP

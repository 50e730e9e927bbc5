"""A run that is killed ten times. It needs no server; it is here for the minute that it takes."""

from __future__ import annotations

import random
from pathlib import Path

from tests.unit.runner.kill_and_resume import GROUP, PROMPTS, kill_and_resume


def test_a_run_that_is_killed_ten_times_is_resumed_to_exactly_its_episodes(tmp_path: Path) -> None:
    counts = kill_and_resume(tmp_path / "out.jsonl", 10, random.Random(1))

    assert set(counts.values()) == {1}
    assert len(counts) == PROMPTS * GROUP

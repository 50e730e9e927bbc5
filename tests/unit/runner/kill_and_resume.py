"""Kills a run with SIGKILL again and again, resumes it each time, and looks at what is in its file.

python -m tests.unit.runner.kill_and_resume --times 10
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from strands_sglang import read_records
from strands_sglang.engine import Turn
from strands_sglang.runner import Episode, run_episodes

from .conftest import END, World, call

PROMPTS, GROUP = 30, 2


async def child(output: Path) -> None:
    """Run, or go on, until everything is finished."""

    async def answering(text: str, turn: int) -> Turn:
        return Turn(text=call() if turn == 0 else "Done." + END, delay=random.uniform(0, 0.05))

    here = World(answering)
    prompts = [f"Question {number}" for number in range(PROMPTS)]
    async for _ in run_episodes(here.agent, prompts, group_size=GROUP, concurrency=4, output=output):
        pass


def kill_and_resume(output: Path, times: int, chance: random.Random) -> Counter[tuple[str, int]]:
    """Kill so many times, each when some more episodes are in the file, then run to the end.

    Returns:
        How many finished episodes the file holds, by prompt and index.
    """
    command = [sys.executable, "-m", __spec__.name, "--child", str(output)]
    for number in range(times):
        before = lines(output)
        process = subprocess.Popen(command)
        more = before + chance.randint(1, max(1, (PROMPTS * GROUP - before) // (times - number + 1)))
        while lines(output) < more and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.02))  # anywhere between two lines, or within one
        process.kill()
        process.wait()
        print(f"killed with {lines(output)} lines in the file", flush=True)
    subprocess.run(command, check=True)
    episodes = [Episode.of_record(record) for record in read_records(output)]
    return Counter((episode.key, episode.group_index) for episode in episodes if episode.finished)


def lines(output: Path) -> int:
    return output.read_bytes().count(b"\n") if output.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path)
    args = parser.parse_args()
    if args.child:
        asyncio.run(child(args.child))
        return
    with tempfile.TemporaryDirectory() as folder:
        counts = kill_and_resume(Path(folder, "episodes.jsonl"), args.times, random.Random(args.seed))
        cut = Path(folder, "episodes.jsonl.cut")
        print(
            f"killed {args.times} times: {len(counts)} of {PROMPTS * GROUP} episodes, each finished "
            f"{sorted(set(counts.values()))} times; lines that were cut: {lines(cut)}"
        )
        sys.exit(set(counts.values()) != {1} or len(counts) != PROMPTS * GROUP)


if __name__ == "__main__":
    main()

"""The long form of the chaos test.

python -m tests.chaos --episodes 2000 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

from .episodes import run


def main() -> int:
    """Run, print what happened, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="episodes through a connection that fails in every way it can")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=32)
    arguments = parser.parse_args()
    logging.getLogger("strands_sglang").setLevel(logging.ERROR)
    started = time.monotonic()
    report = asyncio.run(run(arguments.episodes, seed=arguments.seed, at_once=arguments.at_once))
    print(f"{report.finished} of {report.episodes} episodes finished, in {time.monotonic() - started:.0f} s")
    print("ended by:", dict(sorted(report.errors.items())))
    print("faults done:", dict(sorted(report.struck.items())))
    print("wrong:", len(report.wrong))
    for line in report.wrong[:20]:
        print("  ", line)
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())

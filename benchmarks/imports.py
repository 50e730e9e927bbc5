"""How long imports take: CPU time of fresh interpreters, which take turns; the medians count."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

# What is imported first, and what is then timed.
STATEMENTS = {
    "strands": ("", "import strands"),
    "strands_sglang over strands": ("import strands", "import strands_sglang"),
    "SGLangModel over strands.Agent": (
        "from strands import Agent",
        "from strands_sglang import SGLangModel, SGLangClient",
    ),
    "strands_sglang.tokenization": ("", "import strands_sglang.tokenization"),
    "strands_sglang.tool_parsers": ("", "import strands_sglang.tool_parsers"),
}


def seconds(python: str, first: str, timed: str) -> float:
    """Return the CPU time of an import."""
    code = f"import time; {first or 'pass'}; t = time.process_time(); {timed}; print(time.process_time() - t)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or python == sys.executable}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def measure(released: str | None, repeats: int) -> dict[str, dict[str, float]]:
    """Return milliseconds by statement, of this package and of the released one where there is one."""
    pythons = {"this": sys.executable, **({"released": released} if released else {})}
    rows: dict[str, dict[str, float]] = {}
    for name, (first, timed) in STATEMENTS.items():
        runs: dict[str, list[float]] = {which: [] for which in pythons}
        for _ in range(repeats):
            for which, python in pythons.items():
                if which == "released" and name == "strands_sglang.tokenization":
                    continue  # it has none
                runs[which].append(seconds(python, first, timed) * 1e3)
        rows[name] = {which: statistics.median(each) for which, each in runs.items() if each}
    return rows

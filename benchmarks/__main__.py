"""All benchmarks as one command: a table on the screen, and everything measured as JSON.

    python -m benchmarks --prepare OTHERS                    # an environment with the released package and openai
    python -m benchmarks --released OTHERS/bin/python        # the whole, for an hour of two quiet cores
    python -m benchmarks --released OTHERS/bin/python --quick

Run it from the root of a checkout. Without `--released` the others are left out. What is measured, and how to read it,
stands in docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import imports, provider
from benchmarks.workload import write_workload

HERE = Path(__file__).parent
RELEASED = "0.4.3"
PARTS = ("provider", "memory", "imports", "tokenization", "client", "parsers")


def prepare(folder: Path) -> None:
    """Make an environment with the released package and what Strands' OpenAI provider needs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    same = [f"{name}=={importlib.metadata.version(name)}" for name in ("transformers", "aiohttp")]
    strands = f"strands-agents[openai]=={importlib.metadata.version('strands-agents')}"
    wanted = [f"strands-sglang=={RELEASED}", strands, "orjson", *same]
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", *wanted], check=True)
    print(f"ready: --released {folder / 'bin' / 'python'}")


def tokenizer_of(given: str | None) -> str:
    """Return the folder of the tokenizer to use: the one given, or Qwen3's from the tests' cache."""
    if given is not None:
        return given
    from tests.real_tokenizers import tokenizer_dir

    return str(tokenizer_dir("qwen3"))


def machine() -> dict[str, Any]:
    """Say what was measured on."""
    names = ("strands-agents", "aiohttp", "httpx", "orjson", "tokenizers", "transformers")
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": {name: importlib.metadata.version(name) for name in names},
    }


def run_script(name: str, *arguments: str) -> str:
    """Run one of the other benchmarks, show what it prints, and return it."""
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, flush=True)
    return done.stdout


def measure(options: argparse.Namespace, workload: Path) -> dict[str, Any]:
    """Run the parts that are asked for."""
    results: dict[str, Any] = {"machine": machine(), "tools": options.tools}
    released = options.released
    if "provider" in options.parts:
        print("CPU ms a turn; own = beyond http + loop\n" + provider.HEADER)
        cases = options.loads or (provider.QUICK if options.quick else provider.all_cases(options.limit))
        results["provider"] = provider.measure(cases, workload, released, options.repeats)
    if "memory" in options.parts:
        results["memory"] = provider.memory(workload, released, episodes=32 if options.quick else 256)
        print("\nmemory:", json.dumps(results["memory"], indent=2))
    if "imports" in options.parts:
        results["imports"] = imports.measure(released, 3 if options.quick else 11)
        print("\nimports, CPU ms:", json.dumps(results["imports"], indent=2))
    if options.quick:
        return results
    if "tokenization" in options.parts:
        results["tokenization"] = run_script("tokenization", tokenizer_of(options.tokenizer)).splitlines()
    if "parsers" in options.parts:
        results["parsers"] = run_script("tool_parsers").splitlines()
    if "client" in options.parts:
        beside = ["--released", released] if released else []
        results["client"] = run_script("client", "--repeats", str(options.repeats), *beside).splitlines()
    return results


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=str(__doc__).split("\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="make the environment for --released, and stop")
    parser.add_argument("--released", metavar="PYTHON", help="interpreter with the released package and openai")
    parser.add_argument("--quick", action="store_true", help="two loads, few repeats: less than two minutes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=3, help="how often each variant runs each load")
    parser.add_argument("--loads", nargs="+", type=provider.case_of, help="loads such as 8x500x32 instead of all")
    parser.add_argument("--limit", type=int, default=8192, help="leave out loads with more turns at once than this")
    parser.add_argument("--tools", type=int, default=1, help="tools that the agents are offered; they call one")
    parser.add_argument("--tokenizer", metavar="DIR", help="tokenizer to use; Qwen3's by default")
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"), help="where to write what was measured")
    options = parser.parse_args()
    if options.prepare is not None:
        prepare(options.prepare)
        return
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder) / "workload.json"
        write_workload(tokenizer_of(options.tokenizer), workload, tools=options.tools)
        results = measure(options, workload)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {options.json}")


if __name__ == "__main__":
    main()

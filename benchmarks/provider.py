"""What the provider costs, beside the floor and beside what people use today.

Each variant runs in a process of its own (`episodes.py`), all against one stub server in another. They take turns on
every case, several times over, and the medians count, so that other work on the machine touches all alike. Cost is CPU
time for each model call:

- `http`: the requests alone, with aiohttp and orjson; `loop`: Strands' loop alone, over a model in the process. Their
  sum is the floor, and what a provider costs beyond it is its own part.
- `floor`: both at once, the loop over a model that sends the same requests and looks at nothing. Its throughput is the
  one to compare with.
- `least`: whole agents over a provider that does what none can leave out and checks nothing; `free`: the same, where
  the ids of the tool results are there already. Nobody can be below `free`.
- `this`, `released` (strands-sglang of the package index) and `openai` (Strands' own provider, text only).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client import free_port
from benchmarks.workload import RESULT_TOKENS

HERE = Path(__file__).parent
TURNS, CONCURRENCY = (8, 32, 128), (1, 32, 256)
OURS, OTHERS = ("http", "loop", "floor", "free", "least", "this"), ("released", "openai")
PROVIDERS = ("free", "least", "this", *OTHERS)
DELAY = 0.01
_LEAST_TURNS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load.

    Attributes:
        turns: Model calls of an episode.
        result: Tokens of a tool result.
        concurrency: Episodes at once.
    """

    turns: int
    result: int
    concurrency: int

    @property
    def episodes(self) -> int:
        """How many episodes one measurement runs."""
        return max(self.concurrency, _LEAST_TURNS // self.turns, 1)

    def __str__(self) -> str:
        return f"{self.turns} turns, {self.result} tokens a result, {self.concurrency} at once"


QUICK = (Case(turns=8, result=500, concurrency=32), Case(turns=32, result=500, concurrency=8))


def case_of(text: str) -> Case:
    """Return the load that is written as turns, tokens of a result, and episodes at once: 8x500x32."""
    turns, result, concurrency = map(int, text.split("x"))
    return Case(turns=turns, result=result, concurrency=concurrency)


def all_cases(limit: int) -> list[Case]:
    """Return every combination of turns, result size and concurrency with at most so many turns at once."""
    cases = [Case(turns=t, result=r, concurrency=c) for r in RESULT_TOKENS for t in TURNS for c in CONCURRENCY]
    return [case for case in cases if case.turns * case.concurrency * (case.result / 500) <= limit]


class Worker:
    """A process that runs one variant."""

    def __init__(self, python: str, variant: str, workload: Path) -> None:
        """Start it and wait until it is ready."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, str(HERE / "episodes.py"), variant, str(workload)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment if python != sys.executable else None,
        )
        self._read()

    def ask(self, case: dict[str, Any]) -> dict[str, float]:
        """Return what a case costs."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._read())
        return answer

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker {self._process.args!r} ended with {self._process.wait()}")
        return line


@contextmanager
def stub(workload: Path) -> Iterator[str]:
    """Run the stub server and give its address."""
    port = free_port()
    command = [sys.executable, str(HERE / "stub_server.py"), "--port", str(port), "--delay", str(DELAY)]
    with subprocess.Popen([*command, "--workload", str(workload)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@contextmanager
def workers(workload: Path, released: str | None, *, names: Sequence[str] | None = None) -> Iterator[dict[str, Worker]]:
    """Run a worker for each variant that can be run."""
    wanted = [name for name in (*OURS, *OTHERS) if names is None or name in names]
    with ExitStack() as stack:
        running: dict[str, Worker] = {}
        for name in wanted:
            python = sys.executable if name in OURS else released
            if python is not None:
                running[name] = Worker(python, name, workload)
                stack.callback(running[name].close)
        yield running


def measure(cases: Sequence[Case], workload: Path, released: str | None, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each case."""
    rows = []
    with stub(workload) as url, workers(workload, released) as running:
        for case in cases:
            asked = {"turns": case.turns, "result": case.result, "concurrency": case.concurrency, "url": url}
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in running}
            for turn in range(repeats):
                for name, worker in list(running.items()):
                    if turn and name == "openai":
                        continue  # so slow that once is enough
                    try:
                        runs[name].append(worker.ask({**asked, "episodes": case.episodes}))
                    except RuntimeError as error:
                        if name != "openai":
                            raise
                        # It makes a client for every call, and may run into its own time limit.
                        print(f"left out from here on: {error}", file=sys.stderr)
                        del running[name], runs[name]
            rows.append(row_of(case, runs))
            print(text_of(rows[-1]), flush=True)
    return rows


def row_of(case: Case, runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return the medians of a case, and what follows from them."""
    cpu = {name: statistics.median(run["cpu_ms"] for run in each) for name, each in runs.items()}
    rate = {name: statistics.median(run["turns_per_s"] for run in each) for name, each in runs.items()}
    own = {name: cpu[name] - cpu["http"] - cpu["loop"] for name in PROVIDERS if name in cpu}
    row: dict[str, Any] = {
        "turns": case.turns,
        "result_tokens": case.result,
        "concurrency": case.concurrency,
        "cpu_ms_a_turn": cpu,
        "own_ms_a_turn": own,
        "turns_per_s": rate,
        "throughput_of_floor": rate["this"] / rate["floor"],
        "runs": runs,
    }
    if "released" in own:
        row["released_own_over_ours"] = own["released"] / own["this"] if own["this"] > 0 else float("inf")
    return row


def text_of(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    cpu, own = row["cpu_ms_a_turn"], row["own_ms_a_turn"]
    others = "".join(f" {cpu.get(name, float('nan')):9.2f}" for name in (*OURS, *OTHERS))
    owns = "".join(f" {own.get(name, float('nan')):9.2f}" for name in PROVIDERS)
    head = f"{row['turns']:5d} {row['result_tokens']:7d} {row['concurrency']:6d}"
    return f"{head}{others} |{owns} | {row['throughput_of_floor']:6.2f}"


HEADER = (
    f"{'turns':>5} {'result':>7} {'conc.':>6}"
    + "".join(f" {name:>9}" for name in (*OURS, *OTHERS))
    + " |"
    + "".join(f" {'own ' + name[:5]:>9}" for name in PROVIDERS)
    + f" | {'of floor':>6}"
)


def memory(workload: Path, released: str | None, *, episodes: int = 256) -> dict[str, Any]:
    """Return the bytes a token of live rollouts of about 32k tokens, beyond what the agents' messages take."""
    held: dict[str, dict[str, float]] = {}
    case = {"turns": 8, "result": 4_000, "concurrency": 32, "episodes": episodes, "hold": True}
    with stub(workload) as url, workers(workload, released, names=("loop", "this", "released")) as running:
        for name, worker in running.items():
            held[name] = worker.ask({**case, "url": url})
    tokens = held["this"]["tokens"] * episodes
    beyond = {
        name: {kind: (held[name][kind] - held["loop"][kind]) / tokens for kind in ("live", "resident")}
        for name in held
        if name != "loop"
    }
    return {"episodes": episodes, "tokens_an_episode": held["this"]["tokens"], "bytes_a_token": beyond}

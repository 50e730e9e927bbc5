"""How long the tool parsers take: 1,000 turns of 2 kB each per format, and 1 MB of text made to be slow.

    python benchmarks/tool_parsers.py            # ms per turn, by format
    python benchmarks/tool_parsers.py --hostile  # the slowest megabyte of each format, in seconds

Run from the root of a checkout: the texts are made by the formats' own test cases. Times are of the processor, so that
other work on the machine counts less. `run` and `run_hostile` return the same as rows.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.tool_parsers.formats import FORMATS, WEATHER, Format

TURNS = 1_000
TURN_SIZE = 2_000
HOSTILE_SIZE = 1_000_000


def turn(form: Format) -> str:
    """Return a turn of about 2 kB: reasoning, content, and calls with text in their arguments."""
    reasoning = "First I look at what is asked, then at what the tools can do. " * 8
    thought = f"{form.think[0]}\n{reasoning}\n{form.think[1]}\n\n" if form.think else ""
    content = "" if form.needs_all else "I look it up.\n"
    calls = [("get_weather", {"city": "Paris", "days": 3, "tags": ["a", "b"], "where": {"lat": 1.5, "name": "x"}})]
    if form.several:
        calls *= 3
    frame = len(thought) + len(content) + len(form.render(calls))
    filler = ("What is written here is as long as it must be. " * 50)[: max(0, TURN_SIZE - frame)]
    calls = [*calls[:-1], (calls[-1][0], {**calls[-1][1], "city": filler})]
    return thought + content + form.render(calls)


def measure(form: Format, turns: int = TURNS) -> float:
    """Return the milliseconds that a turn takes, the median of five runs of so many turns."""
    parser, text = form.parser(), turn(form)
    read = [call.is_error for call in parser.parse_turn(text, tools=[WEATHER]).calls]
    if not read or any(read):
        raise SystemExit(f"{form.name}: the benchmark's own turn is not read")
    runs = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(turns):
            parser.parse_turn(text, tools=[WEATHER])
        runs.append((time.process_time() - begin) / turns * 1e3)
    return statistics.median(runs)


def hostile(form: Format) -> Iterator[str]:
    """Make texts that are slow to read if anything is: delimiters and broken calls, again and again."""
    whole = form.render([("f", {"a": "x"})])
    units = [*form.marks, *(form.think or ()), "<", "[", "{", '"', "\n", "[f(a=", whole[:-1], "".join(form.marks)]
    units += [form.marks[0] + "{", form.marks[0] + '{"a":"', form.marks[0] + form.marks[1], "\n" + form.marks[0]]
    units += [whole[: len(whole) // 2], whole[: len(whole) * 3 // 4], "".join(form.think or ()) + "\n"]
    for unit in dict.fromkeys(units):
        yield (unit * (HOSTILE_SIZE // len(unit) + 1))[:HOSTILE_SIZE]
    first = form.marks[0]
    for begin, unit in ((first + "[", "{},"), (first + "[", "f(),"), ("[", "f(),"), (first, "f()\n")):
        yield (begin + unit * (HOSTILE_SIZE // len(unit)))[:HOSTILE_SIZE]


def slowest(form: Format) -> dict[str, Any]:
    """Return the time of the slowest hostile text, how it begins, and how many attempts are in it."""
    worst: dict[str, Any] = {"format": form.name, "seconds": 0.0}
    for text in hostile(form):
        gc.collect()
        begin = time.process_time()
        attempts = len(form.parser().parse_turn(text, tools=[WEATHER]).calls)
        seconds = time.process_time() - begin
        if seconds > worst["seconds"]:
            worst = {"format": form.name, "seconds": seconds, "attempts": attempts, "text": text[:40]}
    return worst


def run(names: Collection[str] = (), *, turns: int = TURNS) -> Iterator[dict[str, Any]]:
    """Measure turns of 2 kB: a row per format, all formats where none are named."""
    for form in FORMATS:
        if not names or form.name in names:
            yield {"format": form.name, "ms_per_turn": measure(form, turns), "characters": len(turn(form))}


def run_hostile(names: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Measure texts of 1 MB made to be slow: a row per format, its slowest."""
    for form in FORMATS:
        if not names or form.name in names:
            yield slowest(form)


def main() -> None:
    """Print the table that is asked for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--hostile", action="store_true", help="time 1 MB of text made to be slow")
    arguments.add_argument("formats", nargs="*", help="formats; all if none are named")
    given = arguments.parse_args()
    if given.hostile:
        for row in run_hostile(given.formats):
            print("{format:18} {seconds:6.2f} s   {attempts:6} attempts   {text!r}".format(**row), flush=True)
    else:
        for row in run(given.formats):
            print("{format:18} {ms_per_turn:7.3f} ms per turn of {characters} characters".format(**row), flush=True)


if __name__ == "__main__":
    main()

"""How long the tool parsers take: 1,000 turns of 2 kB each per format, and 1 MB of text made to be slow.

    python benchmarks/tool_parsers.py            # ms per turn, by format
    python benchmarks/tool_parsers.py --hostile  # the slowest megabyte of each format, in seconds

Run from the root of a checkout: the texts are made by the formats' own test cases.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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


def measure(form: Format) -> float:
    """Return the milliseconds that a turn takes, the median of five runs."""
    parser, text = form.parser(), turn(form)
    read = [call.is_error for call in parser.parse_turn(text, tools=[WEATHER]).calls]
    if not read or any(read):
        raise SystemExit(f"{form.name}: the benchmark's own turn is not read")
    runs = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(TURNS):
            parser.parse_turn(text, tools=[WEATHER])
        runs.append((time.perf_counter() - begin) / TURNS * 1e3)
    return statistics.median(runs)


def hostile(form: Format) -> Iterator[str]:
    """Make texts that are slow to read if anything is: delimiters and broken calls, again and again."""
    whole = form.render([("f", {"a": "x"})])
    units = [*form.marks, *(form.think or ()), "<", "[", "{", '"', "\n", "[f(a=", whole[:-1], "".join(form.marks)]
    units += [form.marks[0] + "{", form.marks[0] + '{"a":"', form.marks[0] + form.marks[1], "\n" + form.marks[0]]
    units += [whole[: len(whole) // 2], whole[: len(whole) * 3 // 4]]
    for unit in dict.fromkeys(units):
        yield (unit * (HOSTILE_SIZE // len(unit) + 1))[:HOSTILE_SIZE]


def slowest(form: Format) -> tuple[float, str, int]:
    """Return the time of the slowest hostile text, how it begins, and how many attempts are in it."""
    worst = (0.0, "", 0)
    for text in hostile(form):
        gc.collect()
        begin = time.perf_counter()
        attempts = len(form.parser().parse_turn(text, tools=[WEATHER]).calls)
        worst = max(worst, (time.perf_counter() - begin, text[:40], attempts))
    return worst


def main() -> None:
    """Print the table that is asked for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--hostile", action="store_true", help="time 1 MB of text made to be slow")
    arguments.add_argument("formats", nargs="*", help="formats; all if none are named")
    given = arguments.parse_args()
    for form in FORMATS:
        if given.formats and form.name not in given.formats:
            continue
        if given.hostile:
            seconds, text, attempts = slowest(form)
            print(f"{form.name:16} {seconds:6.2f} s   {attempts:6} attempts   {text!r}", flush=True)
        else:
            print(f"{form.name:16} {measure(form):7.3f} ms per turn of {len(turn(form))} characters", flush=True)


if __name__ == "__main__":
    main()

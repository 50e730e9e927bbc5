"""The README's first program, as printed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .episodes import ATTEMPTS, CUT_SHORT, TOLERANCE, Served, score

README = Path(__file__).parents[2] / "README.md"
SECONDS = 900.0

# What names the reader's own server and model; everything else runs as it stands.
PLACES = {
    "url": r"(?<=[\"'])http://localhost:30000(?=[\"'])",
    "tokenizer": r"(?<=from_pretrained\([\"'])[^\"']+(?=[\"']\))",
    "tool_parser": r"(?<=get_tool_parser\([\"'])[^\"']+(?=[\"']\))",
}


def quick_start() -> str:
    """Return the README's program: its first Python block that makes a model and runs."""
    text = README.read_text(encoding="utf-8")
    blocks = [match[1] for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)]
    return next(block for block in blocks if "SGLangModel(" in block and "asyncio.run(" in block)


def test_the_quick_start_runs_and_prints_an_exact_record(served: Served, served_model: str, tmp_path: Path) -> None:
    program = quick_start()
    for place, value in (("url", served.url), ("tokenizer", served_model), ("tool_parser", served.tool_parser)):
        before, *after = re.split(PLACES[place], program)
        assert len(after) == 1, f"the README's program names its {place} {len(after)} times"
        program = before + value + after[0]
    file = tmp_path / "quick_start.py"
    file.write_text(program, encoding="utf-8")

    output = output_of(file)
    printed = re.search(r"(\[[^][]*\]) (\[[^][]*\]) (\[[^][]*\])\s*\Z", output)
    assert printed, output
    token_ids, loss_mask, logprobs = (ast.literal_eval(part) for part in printed.groups())
    assert len(token_ids) == len(loss_mask) == len(logprobs)
    assert "25 * 17" in served.tokenizer.decode(token_ids)
    scores = score(served.url, token_ids)
    for sampled, recorded, again in zip(loss_mask, logprobs, scores, strict=True):
        if sampled:
            assert recorded == pytest.approx(again, abs=TOLERANCE)
        else:
            assert recorded is None
    assert 0 < sum(loss_mask) < len(loss_mask)


def output_of(program: Path) -> str:
    """Run a program until its answer, which it samples at temperature 1, comes to an end by itself."""
    command = [sys.executable, str(program)]
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode == 0:
            return done.stdout
        # Not only the last line: what is left open may be told of behind it, as the program ends.
        ends = tuple(f"{kind.__module__}.{kind.__name__}: " for kind in CUT_SHORT)
        assert any(line.startswith(ends) for line in done.stderr.splitlines()), done.stderr
    pytest.fail("every answer was cut short")

"""What the documentation shows runs, and what it links is there."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import strands_sglang

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("training/*/*.md")]
)
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py"))


def module_names() -> list[str]:
    found = pkgutil.walk_packages(strands_sglang.__path__, "strands_sglang.")
    return [module.name for module in found if not module.name.endswith("__main__")]


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_run(name: str) -> None:
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert failures == 0


@pytest.mark.parametrize("name", module_names())
def test_every_module_says_what_it_owns(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_compile(page: Path) -> None:
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

    for block in blocks:
        # Blocks may show the inside of a coroutine.
        indented = "".join(f"    {line}\n" for line in block.splitlines())
        compile(f"async def block():\n{indented}", page.name, "exec")


def leads_somewhere(page: Path, target: str) -> bool:
    path = (page.parent / target).resolve()
    if path.is_relative_to(ROOT / "src/strands_sglang"):  # the tests may run beside an installed package
        path = Path(strands_sglang.__file__).parent / path.relative_to(ROOT / "src/strands_sglang")
    return path.exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", prose)

    assert [target for target in targets if not leads_somewhere(page, target)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_as_it_is(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(
    "test", re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/guarantees.md").read_text())
)
def test_every_test_that_the_guarantees_name_is_there(test: tuple[str, str]) -> None:
    file, name = test

    assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")

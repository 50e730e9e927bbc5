"""The import law of docs/architecture.md: a module imports only what lies below it, and each library has one home."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import strands_sglang

SOURCE = Path(strands_sglang.__file__).parent
LEVELS = {
    "version": 0,
    "errors": 0,
    "whole_file": 0,
    "rollout": 1,
    "wire": 1,
    "retry": 1,
    "termination": 1,
    "routing": 1,
    "tool_parsers": 1,
    "tokenization": 1,
    "trajectory": 2,
    "client": 2,
    "engine": 2,
    "records": 3,
    "exporters": 3,
    "verification": 3,
    "replay": 3,
    "viewer": 3,
    "session": 3,
    "provider": 4,
    "runner": 5,
    "cli": 6,
}
HOMES = {
    "strands": {"provider", "runner", "cli"},
    "httpx": {"client", "engine"},
    "httpx_aiohttp": {"client", "engine"},
    "aiohttp": {"client", "engine"},
    "ray": {"runner"},
    "transformers": {"tokenization"},
    "jinja2": {"tokenization"},
    "tokenizers": {"engine"},
    "numpy": {"engine", "routing", "exporters"},
    "pyarrow": {"records", "exporters"},
    "rich": {"cli", "runner"},
}
# Libraries that a module of these areas may name only inside a function, so that importing the area stays light.
LAZY = {"transformers", "numpy", "rich", "tokenizers", "ray", "pyarrow"}
# Folders that are themselves loaded on use only, and may name their library at the top.
LOADED_ON_USE = {"engine/tiny": "numpy"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def area_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each imported module's absolute name and whether it is imported when the module is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ["strands_sglang", *path.relative_to(SOURCE).parts[:-1]]
    eager = set(eager_nodes(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in eager) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            if name == "strands_sglang":
                yield from ((f"{name}.{alias.name}", node in eager) for alias in node.names)
            else:
                yield name, node in eager


def eager_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run at import: not those in functions or under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                waiting.extend(child.orelse)
                continue
            waiting.append(child)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    area = area_of(path)
    if area == "__init__":
        return

    for name, _ in imports_of(path):
        if name.startswith("strands_sglang."):
            other = strands_sglang._HOME_OF.get(name.split(".")[1], (name.split(".")[1], ""))[0].split(".")[0]
            assert other == area or LEVELS[other] < LEVELS[area], f"{area} must not import {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_foreign_library_has_one_home(path: Path) -> None:
    area = area_of(path)

    for name, eager in imports_of(path):
        library = name.split(".")[0]
        if library in HOMES and (eager or area != "__init__"):
            assert area in HOMES[library] or not eager, (
                f"{library} is at home in {sorted(HOMES[library])}, not in {area}"
            )
        folder = path.relative_to(SOURCE).parent.as_posix()
        if library in LAZY and LOADED_ON_USE.get(folder) != library:
            assert not eager, f"{path.name} imports {library} when it is imported itself"


@pytest.mark.parametrize("name", ["strands_sglang", "strands_sglang.tokenization", "strands_sglang.tool_parsers"])
def test_light_parts_load_no_heavy_library(name: str) -> None:
    heavy = {"strands", "httpx", "aiohttp", "transformers", "torch", "numpy"}
    code = f"import sys, {name}; print(sorted({heavy!r} & {{m.split('.')[0] for m in sys.modules}}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"

"""An environment for each trainer, with its package and no more than its own types and checks need.

Owns the recipes. An environment lies in the cache folder under its trainer's name and a hash of its recipe, and is made
once: the stamp is written last. Where a package declares a CUDA stack or a web framework that a check never touches, it
is installed without its dependencies, and those it imports are named. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.integration.sglang_cpu.install import LOCK, cache_dir, locked

WANTED = "STRANDS_SGLANG_TRAINERS"
"""Names the trainers to check, or "all"; without it none is, since their environments are large."""

TORCH = "torch==2.13.0"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What an environment holds.

    Attributes:
        requirements: Installed with their dependencies, before `alone`.
        alone: Installed without dependencies.
    """

    requirements: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()


RECIPES = {
    "agent_lightning": Recipe(requirements=("agentlightning==0.3.0",)),
    "areal": Recipe(
        requirements=(
            TORCH, "transformers<=5.3.0", "aiofiles", "aiohttp", "colorlog", "einops", "flask", "hydra-core", "lark",
            "numba", "numpy", "omegaconf", "openai", "orjson", "pillow", "pyyaml", "ray", "tenacity", "torchdata",
            "uvloop",
        ),
        alone=("areal==1.0.4",),
    ),
    "art": Recipe(requirements=("openpipe-art==0.5.18",)),
    "atropos": Recipe(requirements=("atroposlib==0.4.0",)),
    "skyrl": Recipe(
        requirements=(
            TORCH, "skyrl==0.3.0", "aiohttp", "hydra-core", "jaxtyping", "loguru", "omegaconf", "ray", "skyrl-gym",
            "tensordict", "torchdata",
        ),
    ),
    "tinker": Recipe(
        requirements=(TORCH, "tinker==0.38.0", "blobfile", "chz", "cloudpickle", "datasets", "pillow", "termcolor",
                      "tiktoken"),
        alone=("tinker-cookbook==0.6.1",),
    ),
    "trl": Recipe(requirements=(TORCH, "trl==1.16.0", "aiohttp")),
    "verifiers": Recipe(requirements=("verifiers==0.4.0",)),
    "verl": Recipe(requirements=(TORCH, "verl==0.9.1", "cachetools", "fastapi", "uvicorn")),
}  # fmt: skip


def environment_of(name: str) -> Path:
    """Return where the trainer's environment lies, whether or not it is there."""
    return cache_dir() / f"trainer-{name}-{hashlib.sha256(repr(RECIPES[name]).encode()).hexdigest()[:8]}"


def wanted(name: str) -> bool:
    """Say whether the trainer is to be checked."""
    names = os.environ.get(WANTED, "")
    return names == "all" or name in names.split(",")


def interpreter(name: str) -> Path:
    """Return the interpreter of the trainer's environment, which is made if it is not there."""
    environment = environment_of(name)
    stamp, python = environment / "installed", environment / "bin" / "python"
    environment.mkdir(parents=True, exist_ok=True)
    with locked(environment / LOCK):
        if not stamp.exists():
            _install(environment, python, RECIPES[name])
            stamp.touch()
    return python


def _install(environment: Path, python: Path, recipe: Recipe) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
    uv = [str(environment / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python)]
    # uv does not read pip's variables; a folder of wheels that pip was given may hold the small CPU build of torch.
    extra = {"UV_FIND_LINKS": folder} if (folder := os.environ.get("PIP_FIND_LINKS")) else {}
    for arguments in (list(recipe.requirements), ["--no-deps", *recipe.alone] if recipe.alone else []):
        if arguments:
            subprocess.run([*uv, *arguments], check=True, env={**os.environ, **extra})

"""Install the real SGLang server for a machine without a GPU, in a virtual environment of its own.

Owns the environment: where it lies, how it is made, and whether it is whole. An environment is whole when its stamp
names the recipe (constraints and requirements) that would be used now; the stamp is written last, so an
interrupted installation is never taken for a finished one. Two processes may call `install` at once: one works, the
other waits and finds the result. It never touches a folder it did not begin itself.

    python tests/integration/sglang_cpu/install.py [--venv DIR]

Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHIM = HERE / "shim"
CONSTRAINTS = HERE / "constraints.txt"
REQUIREMENTS = HERE / "requirements.txt"

STAMP = "strands-sglang-stamp"
LOCK = "strands-sglang-lock"

# torch goes first so that nothing else chooses its build. The last two declare a CUDA stack that a CPU never uses:
# of torchvision only the Python code is needed, and of sglang's dependencies only those in requirements.txt.
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch", ("torch",)),
    ("dependencies", ("-r", str(REQUIREMENTS))),
    ("torchvision", ("--no-deps", "torchvision")),
    ("sglang", ("--no-deps", "sglang")),
)


class InstallError(Exception):
    """The environment cannot be made; the message says why."""


def recipe_hash() -> str:
    """Return a short hash of what decides the environment's content."""
    return hashlib.sha256(CONSTRAINTS.read_bytes() + REQUIREMENTS.read_bytes()).hexdigest()[:12]


def cache_dir() -> Path:
    """Return the folder for environments: $STRANDS_SGLANG_CACHE, or strands-sglang in the user's cache folder."""
    if named := os.environ.get("STRANDS_SGLANG_CACHE"):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser().absolute() if base else Path.home() / ".cache") / "strands-sglang"


def default_environment() -> Path:
    """Return where the environment for this recipe lies, whether or not it is there."""
    return cache_dir() / f"sglang-cpu-{recipe_hash()}"


def python_of(environment: Path) -> Path:
    """Return the environment's interpreter."""
    return environment / "bin" / "python"


def is_whole(environment: Path) -> bool:
    """Say whether the environment was installed to the end, from this recipe, and still has its interpreter."""
    try:
        stamp = (environment / STAMP).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    return stamp == recipe_hash() and python_of(environment).exists()


def install(environment: Path) -> bool:
    """Make the environment, unless it is there and whole.

    Returns:
        True if it was made now, False if it was there.

    Raises:
        InstallError: If the machine is of another kind, the folder is somebody else's, or a step fails.
    """
    if is_whole(environment):
        return False
    if sys.platform != "linux" or sys.version_info < (3, 11):
        raise InstallError("this recipe needs Linux and Python 3.11 or newer")
    if environment.exists() and not (environment / LOCK).exists() and any(environment.iterdir()):
        raise InstallError(f"{environment} is not empty and was not begun by this script: give another --venv")
    environment.mkdir(parents=True, exist_ok=True)
    with locked(environment / LOCK):
        if is_whole(environment):
            return False
        empty(environment)
        build(environment)
        (environment / STAMP).write_text(recipe_hash() + "\n", encoding="utf-8")
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file, which the kernel gives back however this process ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def empty(environment: Path) -> None:
    """Remove what an interrupted or outdated installation left, except the lock that is being held."""
    for entry in environment.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def build(environment: Path) -> None:
    """Create the virtual environment, install into it step by step, and import the server once."""
    python = str(python_of(environment))
    run("virtual environment", [sys.executable, "-m", "venv", str(environment)])
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(CONSTRAINTS)]
    for name, arguments in STEPS:
        run(name, [*pip, *arguments])
    run("import check", [python, "-W", "ignore", "-c", "import sglang.srt.entrypoints.http_server"], **server_env())


def server_env() -> dict[str, str]:
    """Return the variables that every Python process of the server needs."""
    return {
        "PYTHONPATH": str(SHIM),
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # The first request with a penalty would compile something, and without a C++ compiler end the server.
        "TORCHDYNAMO_DISABLE": "1",
        # One thread a process: with more, a small model's decode is five to ten times slower.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def run(step: str, command: list[str], **env: str) -> None:
    """Run one step, say how long it took, and show its output only if it fails."""
    began = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InstallError(f"step {step!r} failed with exit status {done.returncode}:\n{done.stdout[-4000:]}")
    print(f"  {step}: {time.monotonic() - began:.0f} s", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Install from the command line."""
    parser = argparse.ArgumentParser(description="Install the SGLang server for a machine without a GPU.")
    parser.add_argument("--venv", type=Path, default=None, help=f"where (default: {default_environment()})")
    environment: Path = (parser.parse_args(argv).venv or default_environment()).absolute()
    began = time.monotonic()
    try:
        made = install(environment)
    except InstallError as error:
        print(f"install.py: {error}", file=sys.stderr)
        return 1
    print(f"{environment}: {f'installed in {time.monotonic() - began:.0f} s' if made else 'already there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

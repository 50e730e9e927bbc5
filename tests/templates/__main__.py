"""`python -m tests.templates`: survey everything and write docs/templates.md."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from pathlib import Path

from tests.real_tokenizers import MODELS, chat_template_names
from tests.templates.page import page
from tests.templates.survey import Task, Thinking, survey

PAGE = Path(__file__).parents[2] / "docs" / "templates.md"


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.templates", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not up to date")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)")
    options = parser.parse_args(arguments)
    # All modes of one model follow each other, so that a process loads a tokenizer once.
    tasks: list[Task] = [(name, thinking) for name in MODELS for thinking in Thinking]
    tasks += [(name, None) for name in chat_template_names()]
    # A fresh interpreter per process: tokenizers start threads, which a fork would not take along.
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        surveys = dict(zip(tasks, pool.imap(survey, tasks, chunksize=3), strict=True))
    models = {thinking: [surveys[name, thinking] for name in MODELS] for thinking in Thinking}
    templates = [found for (_, thinking), found in surveys.items() if thinking is None]
    text = page(models, templates)
    if options.check:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{len(tasks)} surveys in {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

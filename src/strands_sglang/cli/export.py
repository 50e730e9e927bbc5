"""`strands-sglang export`: records as the rows of a trainer.

Reads episodes, hands them to an exporter, and writes its rows: JSON lines, or a table where the exporter is `parquet`.
What did not fit into the rows is listed on standard error, never passed over.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import SGLangConfigError

if TYPE_CHECKING:
    from strands_sglang.exporters import Exported
    from strands_sglang.trajectory import Trajectory

_DESCRIPTION = """Write the episodes of FILE as the rows of a trainer. What of the record the rows do not hold is listed
on standard error. docs/exporters.md has the trainers and their options."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("export", help="write records as a trainer's rows", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", type=Path, help="records: JSON lines, or a Parquet table")
    parser.add_argument("--to", metavar="NAME", required=True, help="the trainer, such as slime, verl or jsonl")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help='where the rows go; "-" prints them')
    parser.add_argument(
        "-O",
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the exporter: text, a number, true, false, null or a JSON list; can be given often",
    )
    parser.add_argument(
        "--tokenizer", metavar="DIR_OR_NAME", help="gives the text of rows that have some (slime, miles, nemo_rl)"
    )
    parser.add_argument("--include-side-calls", action="store_true", help="also side calls and other agents' loops")
    parser.add_argument("--include-discarded", action="store_true", help="also answers that the host threw away")
    parser.add_argument(
        "--skip-damaged", action="store_true", help="leave out lines that cannot be read, and list them"
    )
    parser.add_argument(
        "--include-repeated",
        action="store_true",
        help="also episodes that did not finish and that the file holds again, from a run that was resumed",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Args:
        args: What the parser of `add_parser` gives.

    Returns:
        0.

    Raises:
        SGLangConfigError: If an argument cannot be meant, the file is empty, or the output cannot be written.
        RecordFormatError: If the file is not of records, or damaged.
        ExportError: If a row would be untrue.
    """
    from strands_sglang.exporters import get_exporter

    options = dict(_option(args.to, option) for option in args.option)
    if args.tokenizer is not None:
        options["decode"] = _decode(args.tokenizer)
    exporter = get_exporter(args.to, **options)
    _check_output(args.file, args.output)
    episodes = _episodes(args.file, skip_damaged=args.skip_damaged)
    if not episodes:  # as for `verify`: the run that should have written it failed, or it is the wrong file
        raise SGLangConfigError(f"{args.file} holds no records")
    chosen = episodes if args.include_repeated else without_repeated(episodes)
    exported = exporter.export(
        chosen,
        include_side_calls=args.include_side_calls,
        include_discarded=args.include_discarded,
    )
    _write(exported, exporter.name, args.output)
    print(f"{len(exported.rows)} row{'' if len(exported.rows) == 1 else 's'} for {exporter.name}", file=sys.stderr)
    if left_out := len(episodes) - len(chosen):
        print(
            f"  not in the rows: {left_out} episode{'' if left_out == 1 else 's'} not finished, and played again later "
            "in the file; --include-repeated",
            file=sys.stderr,
        )
    for loss in exported.losses:
        print(f"  not in the rows: {loss}", file=sys.stderr)
    return 0


def _episodes(path: Path, *, skip_damaged: bool) -> list[Trajectory]:
    """Read the episodes of a file."""
    from strands_sglang.records import read_parquet, read_records
    from strands_sglang.records.kinds import is_parquet

    try:
        if is_parquet(path):
            return list(read_parquet(path))
        # Lines that are left out are logged by the reader, and Python prints warnings on standard error.
        return list(read_records(path, strict=not skip_damaged))
    except OSError as error:
        raise SGLangConfigError(f"{path}: {error.strerror or error}") from error


def without_repeated(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes without those that did not finish and were played again.

    A run that is resumed plays what did not finish once more, under the same key and position of the group. What no
    run wrote, and what finished, is always kept.
    """
    seen: set[tuple[Any, ...]] = set()
    finished = {key for episode in episodes if (key := _key(episode)) is not None and _is_finished(episode)}
    kept: list[Trajectory] = []
    for episode in reversed(episodes):
        key = _key(episode)
        if key is None or _is_finished(episode) or (key not in finished and key not in seen):
            kept.append(episode)
        if key is not None:
            seen.add(key)
    return kept[::-1]


def _key(episode: Trajectory) -> tuple[Any, ...] | None:
    """Return under what a run knows an episode; None where no run wrote it."""
    said = episode.metadata.get("episode")
    if not isinstance(said, dict) or not isinstance(said.get("key"), str):
        return None
    index = said.get("group_index")
    return (said["key"], index) if index is None or isinstance(index, int) else None


def _is_finished(episode: Trajectory) -> bool:
    ending = episode.termination
    return ending is not None and ending.finished and not episode.metadata["episode"].get("partial")


def _check_output(source: Path, output: str) -> None:
    """Refuse to write over what may be records: they cannot be made again."""
    from strands_sglang.records.kinds import why_kept

    target = Path(output)
    if output == "-" or not target.exists():
        return
    if not target.is_file():  # a folder, or a device or pipe that a file would take the place of
        raise SGLangConfigError(f"--output {output} is no file", hint="-o - prints the rows")
    try:
        if source.exists() and target.samefile(source):
            raise SGLangConfigError(f"--output {output} is the file of records itself")
        if why := why_kept(target):
            raise SGLangConfigError(f"--output {output} {why}", hint="give another name, or move it away")
    except OSError as error:
        raise SGLangConfigError(f"--output {output}: {error.strerror or error}") from error


def _write(exported: Exported, name: str, output: str) -> None:
    """Write the rows where they are to go."""
    from strands_sglang.exporters.files import json_line, write_jsonl, write_parquet
    from strands_sglang.whole_file import whole_file

    if output == "-":
        if name == "parquet":
            raise SGLangConfigError("a table cannot be printed; give a file, or export to jsonl")
        for row in exported.rows:
            print(json_line(row))
        return
    try:
        with whole_file(output) as beside:
            (write_parquet if name == "parquet" else write_jsonl)(exported.rows, beside)
    except OSError as error:
        raise SGLangConfigError(f"--output {output}: {error.strerror or error}") from error


def _decode(tokenizer: str) -> Callable[[Sequence[int]], str]:
    """Return a function that loads the tokenizer, which takes seconds, when there is something to decode."""

    @functools.cache
    def loaded() -> Any:
        from strands_sglang.tokenization.pretrained import get_tokenizer

        return get_tokenizer(tokenizer)

    return lambda ids: str(loaded().decode(list(ids), skip_special_tokens=False))


def _option(name: str, text: str) -> tuple[str, Any]:
    """Return an option's name and value, as the exporter takes it."""
    from strands_sglang.exporters import EXPORTERS
    from strands_sglang.exporters.options import option_of_text

    option, equals, value = text.partition("=")
    if not equals or not option:
        raise SGLangConfigError(f"--option {text!r} is not NAME=VALUE")
    option = option.replace("-", "_")
    if option == "decode":
        raise SGLangConfigError("decode is no option of the command line", hint="--tokenizer gives the text")
    return option, option_of_text(EXPORTERS[name], option, value) if name in EXPORTERS else value

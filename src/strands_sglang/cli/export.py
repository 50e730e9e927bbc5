"""`strands-sglang export`: records as the rows of a trainer.

Reads episodes, hands them to an exporter, and writes its rows: JSON lines, or a table where the exporter is `parquet`.
What did not fit into the rows is listed on standard error, never passed over.
"""

from __future__ import annotations

import argparse
import functools
import json
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
    parser.add_argument("file", metavar="FILE", type=Path, help="records: JSON lines, or a Parquet table (.parquet)")
    parser.add_argument("--to", metavar="NAME", required=True, help="the trainer, such as slime, verl or jsonl")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help='where the rows go; "-" prints them')
    parser.add_argument(
        "-O",
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the exporter, its value as JSON or else as text; may be given several times",
    )
    parser.add_argument(
        "--tokenizer", metavar="DIR_OR_NAME", help="gives the text of rows that have some (slime, miles, nemo_rl)"
    )
    parser.add_argument("--include-side-calls", action="store_true", help="also side calls and other agents' loops")
    parser.add_argument("--include-discarded", action="store_true", help="also answers that the host threw away")
    parser.add_argument(
        "--skip-damaged", action="store_true", help="leave out lines that cannot be read, and list them"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Args:
        args: What the parser of `add_parser` gives.

    Returns:
        0.

    Raises:
        SGLangConfigError: If an argument cannot be meant, or the output cannot be written.
        RecordFormatError: If the file is not of records, or damaged.
        ExportError: If a row would be untrue.
    """
    from strands_sglang.exporters import get_exporter

    options = dict(map(_option, args.option))
    if args.tokenizer is not None:
        options["decode"] = _decode(args.tokenizer)
    exporter = get_exporter(args.to, **options)
    exported = exporter.export(
        _episodes(args.file, skip_damaged=args.skip_damaged),
        include_side_calls=args.include_side_calls,
        include_discarded=args.include_discarded,
    )
    _write(exported, exporter.name, args.output)
    print(f"{len(exported.rows)} row{'' if len(exported.rows) == 1 else 's'} for {exporter.name}", file=sys.stderr)
    for loss in exported.losses:
        print(f"  not in the rows: {loss}", file=sys.stderr)
    return 0


def _episodes(path: Path, *, skip_damaged: bool) -> list[Trajectory]:
    """Read the episodes of a file."""
    from strands_sglang.records import read_parquet, read_records

    try:
        if path.suffix == ".parquet":
            return list(read_parquet(path))
        # Lines that are left out are logged by the reader, and Python prints warnings on standard error.
        return list(read_records(path, strict=not skip_damaged))
    except OSError as error:
        raise SGLangConfigError(f"{path}: {error.strerror or error}") from error


def _write(exported: Exported, name: str, output: str) -> None:
    """Write the rows where they are to go."""
    from strands_sglang.exporters.files import json_line, write_jsonl, write_parquet

    if output == "-":
        if name == "parquet":
            raise SGLangConfigError("a table cannot be printed; give a file, or export to jsonl")
        for row in exported.rows:
            print(json_line(row))
        return
    try:
        (write_parquet if name == "parquet" else write_jsonl)(exported.rows, output)
    except OSError as error:
        raise SGLangConfigError(f"--output {output}: {error}") from error


def _decode(tokenizer: str) -> Callable[[Sequence[int]], str]:
    """Return a function that loads the tokenizer, which takes seconds, when there is something to decode."""

    @functools.cache
    def loaded() -> Any:
        from strands_sglang.tokenization.pretrained import get_tokenizer

        return get_tokenizer(tokenizer)

    return lambda ids: str(loaded().decode(list(ids), skip_special_tokens=False))


def _option(text: str) -> tuple[str, Any]:
    """Return an option's name and value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SGLangConfigError(f"--option {text!r} is not NAME=VALUE")
    try:
        return name.replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.replace("-", "_"), value

"""`strands-sglang verify`: is what a file records what the model says?

Scores every branch of every episode in the file again on a server and prints what was found. Exit code 1 where a turn
failed; what cannot be read or reached is one error, with exit code 2. Decides nothing about verdicts; see
`strands_sglang.verification`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import SGLangConfigError, SGLangDecodingError, SGLangNotFoundError

if TYPE_CHECKING:
    from strands_sglang.client import SGLangClient
    from strands_sglang.rollout import Rollout
    from strands_sglang.trajectory import Trajectory
    from strands_sglang.verification import VerificationReport

_DESCRIPTION = """Score the recorded tokens again, one prefill for each branch, and compare the log-probabilities with
those recorded. Turns sampled under a grammar, with penalties or with images cannot be compared and are no failure, nor
are differences of turns that other weights sampled. Exit code 1 on a failure."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("verify", help="score a record again on a server", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", type=Path, help="records: JSON lines, or a Parquet table")
    parser.add_argument("--base-url", metavar="URL", required=True, help="the SGLang server, with the right weights")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference (default: 0.001)")
    parser.add_argument(
        "--top-logprobs",
        type=int,
        default=20,
        metavar="K",
        help="likeliest tokens by which turns of another temperature than 1 are compared, 0 for none (default: 20)",
    )
    parser.add_argument(
        "--tokenizer", metavar="DIR_OR_NAME", help="shows text (default: the one the server names, if it is a folder)"
    )
    parser.add_argument(
        "--vocab-size",
        type=_positive,
        metavar="N",
        help="ids of the model; others are not sent (default: the tokenizer's)",
    )
    parser.add_argument("--api-key", metavar="KEY", help="the server's API key")
    parser.add_argument(
        "--complete", action="store_true", help="also fail where a sampled token was not compared, for any reason"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Args:
        args: What the parser of `add_parser` gives.

    Returns:
        0, or 1 where a turn failed.

    Raises:
        SGLangConfigError: If an argument cannot be meant.
        RecordFormatError: If the file is not of records, or damaged.
        SGLangConnectionError: If the server cannot be reached.
    """
    # transformers would otherwise tell that it found no torch, which nothing here needs.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    # Before anything is sent: a damaged line is found now, not after an hour of scoring.
    for _ in _records(args.file):
        pass
    reports = asyncio.run(_verify(args))
    ok, complete = all(report.ok for report in reports), all(report.complete for report in reports)
    if args.json:
        print(json.dumps(_as_json(reports, ok=ok, complete=complete), indent=2))
    elif len(reports) > 1:
        failed = sum(not report.ok for report in reports)
        print(f"{len(reports)} episodes: {f'{failed} FAILED' if failed else 'no failure'}")
    return 0 if ok and (complete or not args.complete) else 1


async def _verify(args: argparse.Namespace) -> list[VerificationReport]:
    """Verify the records one after the other, printing each report as it comes."""
    from strands_sglang.client import SGLangClient
    from strands_sglang.verification import verify

    reports: list[VerificationReport] = []
    async with SGLangClient(args.base_url, api_key=args.api_key, max_retries=2) as client:
        tokenizer = await _tokenizer(args, client)
        for record in _records(args.file):
            report = await verify(
                record,
                client,
                tolerance=args.tolerance,
                tokenizer=tokenizer,
                vocab_size=args.vocab_size,
                top_logprobs=args.top_logprobs,
            )
            reports.append(report)
            if not args.json:
                print(report, flush=True)
    return reports


async def _tokenizer(args: argparse.Namespace, client: SGLangClient) -> Any:
    """Return the tokenizer that was named, or the server's where it is at hand."""
    from strands_sglang.tokenization.pretrained import get_tokenizer

    if args.tokenizer is not None:
        return get_tokenizer(args.tokenizer)
    try:
        named = (await client.model_info()).get("tokenizer_path")
    except (SGLangNotFoundError, SGLangDecodingError):  # no SGLang, or a router; each branch will tell
        return None
    if not isinstance(named, str) or not Path(named).is_dir():
        return None  # a name on the hub is not fetched unasked
    try:
        return get_tokenizer(named)
    except SGLangConfigError as error:
        print(f"strands-sglang: no text is shown: {error}", file=sys.stderr)
        return None


def _records(path: Path) -> Iterator[Trajectory | Rollout]:
    """Yield the records of a file; at least one."""
    count = 0
    for record in _opened(path):
        count += 1
        yield record
    if not count:
        raise SGLangConfigError(f"{path} holds no records")


def _opened(path: Path) -> Iterable[Trajectory | Rollout]:
    from strands_sglang.records import read_parquet, read_records
    from strands_sglang.records.kinds import is_parquet
    from strands_sglang.rollout import Rollout

    try:
        if is_parquet(path):
            return read_parquet(path)
        with path.open("rb") as file:
            begins = file.read(256)
        return read_records(path, kind=Rollout) if b'"strands-sglang/rollout"' in begins else read_records(path)
    except OSError as error:
        raise SGLangConfigError(f"{path}: {error.strerror or error}") from error


def _positive(text: str) -> int:
    """Return a number of 1 or more."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 1 or more")
    return value


def _as_json(reports: list[VerificationReport], *, ok: bool, complete: bool) -> dict[str, Any]:
    return {"ok": ok, "complete": complete, "episodes": [report.to_dict() for report in reports]}

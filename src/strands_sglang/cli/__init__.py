"""The command `strands-sglang`.

Each command is a module with `add_parser(subparsers)` and `run(args) -> int`, loaded only when it is asked for help or
run. An error of the library is one line on standard error with its hint, and exit code 2.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from strands_sglang.errors import SGLangError
from strands_sglang.version import __version__

COMMANDS = ("demo", "check", "serve", "verify", "run", "export")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments after the program's name; default: those of the process.

    Returns:
        The exit code: 0, or what the command says, or 2 for an error of use or set-up.
    """
    parser = argparse.ArgumentParser(
        prog="strands-sglang", description="Strands Agents on SGLang, with a record that is exact to the token."
    )
    parser.add_argument("--version", action="version", version=f"strands-sglang {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in COMMANDS}
    for module in modules.values():
        module.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        code: int = modules[args.command].run(args)
    except SGLangError as error:
        print(f"strands-sglang: {error}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader, such as `head`, has gone; without this Python complains once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code

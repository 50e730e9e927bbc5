"""Check that a commit message is a Conventional Commit of this repository (a commit-msg hook).

    python scripts/check_commit_message.py FILE

The first line is `type(scope)!: subject`, scope and `!` optional, and a body is set off by a blank line. Messages that
git writes itself (merges, reverts, fixup! and squash!) pass.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TYPES = ("feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert")
SUBJECT = re.compile(rf"(?:{'|'.join(TYPES)})(?:\([^()\s][^()]*\))?!?: \S.*")
BY_GIT = re.compile(r"Merge |Revert \"|(?:fixup|squash|amend)! ")
SCISSORS = re.compile(r"# -+ >8 -+")


def fault(message: str) -> str | None:
    """Return what is wrong with the message, or None."""
    lines: list[str] = []
    for line in message.splitlines():
        if SCISSORS.match(line):
            break
        if not line.startswith("#"):
            lines.append(line.rstrip())
    while lines and not lines[0]:
        lines.pop(0)
    if not lines:
        return "the message is empty"
    subject = lines[0]
    if BY_GIT.match(subject):
        return None
    if not SUBJECT.fullmatch(subject):
        return f"{subject!r} is not 'type(scope): subject' with one of the types {', '.join(TYPES)}"
    if len(lines) > 1 and lines[1]:
        return "the second line must be blank, to set the body off from the subject"
    return None


def main(argv: list[str]) -> int:
    """Check the file named on the command line."""
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = fault(Path(argv[0]).read_text(encoding="utf-8"))
    if wrong is not None:
        print(f"commit message: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

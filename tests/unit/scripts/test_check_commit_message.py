"""The commit-msg hook."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_commit_message import TYPES, fault, main


@pytest.mark.parametrize(
    "message",
    [
        "feat: a subject",
        "fix(client): a subject\n\nA body\nof two lines.\n",
        "refactor(tool parsers)!: a subject",
        "# a comment of git's\n\nperf: a subject\n# ------------------------ >8 ------------------------\nnot: read",
        "Merge branch 'main' into topic",
        'Revert "feat: a subject"',
        "fixup! feat: a subject",
    ],
)
def test_a_good_message_passes(message: str) -> None:
    assert fault(message) is None


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_passes(kind: str) -> None:
    assert fault(f"{kind}: a subject") is None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("a subject", "'a subject' is not"),
        ("feature: a subject", "feat, fix, docs, style, refactor, perf, test, build, ci, chore, revert"),
        ("Feat: a subject", "is not"),
        ("feat:a subject", "is not"),
        ("feat(): a subject", "is not"),
        ("feat: ", "is not"),
        ("feat: a subject\nand a body", "blank"),
    ],
)
def test_a_bad_message_is_refused_with_the_reason(message: str, words: str) -> None:
    reason = fault(message)

    assert reason is not None
    assert words in reason


def test_git_is_told_by_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "COMMIT_EDITMSG"

    file.write_text("fix: a subject\n", encoding="utf-8")
    assert main([str(file)]) == 0
    file.write_text("a subject\n", encoding="utf-8")
    assert main([str(file)]) == 1
    assert "commit message: 'a subject' is not" in capsys.readouterr().err

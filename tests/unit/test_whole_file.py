"""A file is written whole or not at all, whoever else writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strands_sglang.whole_file import whole_file


def test_writers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with whole_file(path) as one, whole_file(path) as other:
        one.write_text("one")
        other.write_text("other")
        assert not path.exists()
        assert one.parent == other.parent == tmp_path

    assert path.read_text() == "one"  # the last to end
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_writer_leaves_nothing_and_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as beside:
            beside.write_text("new")
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["r" * 255, "\u00e9" * 127, "rows"])
def test_it_has_the_mode_of_a_new_file_and_any_name(tmp_path: Path, name: str) -> None:
    before = os.umask(0o026)
    try:
        with whole_file(tmp_path / name) as beside:
            private = tmp_path / "private"
            private.touch(0o600)
            private.replace(beside)
    finally:
        os.umask(before)

    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strands_sglang import Termination, TerminationReason

PAGE = (Path(__file__).parents[3] / "docs/episodes.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| .*? \| (\w+).*\|$", PAGE, flags=re.MULTILINE))


@pytest.mark.parametrize("reason", TerminationReason)
def test_every_reason_stands_in_the_table_with_what_it_means(reason: TerminationReason) -> None:
    ending = Termination(reason=reason)
    means = ROWS[reason.value]

    assert (means == "keep") is ending.trainable
    assert not (means == "retry" and not ending.retryable)
    assert not (means == "mend" and (ending.retryable or ending.finished))


def test_the_table_holds_nothing_else() -> None:
    assert set(ROWS) == {reason.value for reason in TerminationReason}

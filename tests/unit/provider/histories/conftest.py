from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["plain", "thinking"])
def thinking(request: pytest.FixtureRequest) -> bool:
    """Whether the prompt opens a reasoning block, and history keeps reasoning."""
    return bool(request.param)

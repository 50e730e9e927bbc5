from __future__ import annotations

import pytest

from .scene import Mode


@pytest.fixture(params=Mode, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    """In which way a scene is played."""
    mode: Mode = request.param
    return mode

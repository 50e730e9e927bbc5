"""What can be told without Ray; tests/integration/test_ray.py runs with it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from strands_sglang import SGLangConfigError, run_episodes
from strands_sglang.runner import RayActors

from .conftest import END, World


def test_without_ray_the_extra_is_named(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(SGLangConfigError) as raised:
        run_episodes(world("Hi" + END).agent, [], actors=RayActors())

    assert raised.value.hint == 'pip install "strands-sglang[ray]"'


@pytest.mark.parametrize("options", [{"count": 0}, {"max_losses": 0}])
def test_actors_that_cannot_be_meant_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SGLangConfigError, match=next(iter(options))):
        RayActors(**options)  # type: ignore[arg-type]

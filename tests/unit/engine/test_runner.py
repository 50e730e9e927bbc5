"""The model's arithmetic: equal to the slow reference, however a sequence is fed and whoever is fed beside it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.engine.tiny.checkpoint import SHIPPED, Array, Checkpoint, load
from strands_sglang.engine.tiny.kv_cache import KVCache
from strands_sglang.engine.tiny.runner import Part, Runner

from . import reference

CHECKPOINT = load(SHIPPED)
RUNNER = Runner(CHECKPOINT)
IDS = [1016, 295, 198, 5, 77, 300, 4, 4, 900, 17, 1018, 198]
EXACT = 2e-4


def equal(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    return np.allclose(got, expected, rtol=0, atol=EXACT)


def fed(*pieces: list[int], cache: KVCache | None = None) -> Array:
    cache = KVCache(CHECKPOINT.config) if cache is None else cache
    return np.concatenate([RUNNER.forward([Part(cache=cache, ids=piece)]) for piece in pieces])


def test_logits_equal_those_of_the_slow_reference(checkpoint: Checkpoint) -> None:
    expected = reference.logits(checkpoint, IDS)

    assert equal(RUNNER.logits(fed(IDS)), expected)


@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, len(IDS) - 1)))
def test_feeding_in_pieces_gives_the_states_of_feeding_whole(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(IDS)]
    pieces = [IDS[a:b] for a, b in itertools.pairwise(edges)]

    assert equal(fed(*pieces), fed(IDS))


def test_sequences_in_one_pass_do_not_see_each_other() -> None:
    first, second = KVCache(CHECKPOINT.config), KVCache(CHECKPOINT.config)
    RUNNER.forward([Part(cache=first, ids=IDS[:7])])
    RUNNER.forward([Part(cache=second, ids=IDS[3:5])])

    both = RUNNER.forward([Part(cache=first, ids=IDS[7:]), Part(cache=second, ids=IDS[5:6])])

    assert equal(both[:-1], fed(IDS)[7:])
    assert equal(both[-1:], fed(IDS[3:6])[-1:])


def test_a_cache_grows_past_its_first_capacity_and_keeps_what_it_held() -> None:
    ids = [5 + at % 900 for at in range(300)]

    assert equal(fed(ids[:250], ids[250:290], ids[290:])[-1], fed(ids)[-1])


def test_a_copied_prefix_goes_on_like_the_original() -> None:
    cache = KVCache(CHECKPOINT.config)
    fed(IDS, cache=cache)

    copy = cache.prefix(6)

    assert copy.ids == IDS[:6]
    assert equal(fed(IDS[6:], cache=copy), fed(IDS)[6:])
    assert cache.ids == IDS

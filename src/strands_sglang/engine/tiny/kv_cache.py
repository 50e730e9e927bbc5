"""Keys and values of one sequence, and the finished ones that are kept for prompts that begin alike.

Owns the arrays, their growth, and the search for the longest common prefix.
Invariant: `ids` are exactly the tokens whose keys and values are held, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from strands_sglang.engine.tiny.checkpoint import Array, ModelConfig

FIRST_CAPACITY = 256


class KVCache:
    """The keys and values of one sequence, in every layer."""

    def __init__(self, config: ModelConfig, *, namespace: tuple[str, str] = ("", "")) -> None:
        """Create an empty cache; `namespace` says which requests may share it."""
        self.namespace = namespace
        self.ids: list[int] = []
        self.keys = self._empty(config, FIRST_CAPACITY)
        self.values = self._empty(config, FIRST_CAPACITY)
        self._config = config

    @staticmethod
    def _empty(config: ModelConfig, capacity: int) -> Array:
        return np.empty((config.layers, config.kv_heads, capacity, config.head_dim), np.float32)

    def __len__(self) -> int:
        return len(self.ids)

    def reserve(self, count: int) -> None:
        """Make room for `count` more tokens."""
        needed = len(self) + count
        if needed > self.keys.shape[2]:
            capacity = max(needed, 2 * self.keys.shape[2])
            self.keys = self._grown(self.keys, capacity)
            self.values = self._grown(self.values, capacity)

    def _grown(self, old: Array, capacity: int) -> Array:
        new = self._empty(self._config, capacity)
        new[:, :, : len(self)] = old[:, :, : len(self)]
        return new

    def common(self, prompt: Sequence[int]) -> int:
        """Return how many ids `prompt` begins with that are held here."""
        shared = min(len(self.ids), len(prompt))
        if self.ids[:shared] == list(prompt[:shared]):
            return shared
        return next(at for at in range(shared) if self.ids[at] != prompt[at])

    def prefix(self, count: int) -> KVCache:
        """Return a copy of the first `count` tokens."""
        copy = KVCache(self._config, namespace=self.namespace)
        copy.reserve(count)
        copy.keys[:, :, :count] = self.keys[:, :, :count]
        copy.values[:, :, :count] = self.values[:, :, :count]
        copy.ids = self.ids[:count]
        return copy


class PrefixCache:
    """Caches of finished sequences, the oldest thrown away first."""

    def __init__(self, config: ModelConfig, *, capacity: int) -> None:
        """Create it; `capacity` is the number of tokens kept."""
        self._config = config
        self._capacity = capacity
        self._kept: list[KVCache] = []

    @property
    def tokens(self) -> int:
        """How many tokens are kept."""
        return sum(len(cache) for cache in self._kept)

    def begin(
        self, prompt: Sequence[int], *, at_most: int, namespace: tuple[str, str], running: Iterable[KVCache]
    ) -> KVCache:
        """Return a cache for `prompt` that holds as much of it as is known, at most `at_most` tokens."""
        known = [cache for cache in (*self._kept, *running) if cache.namespace == namespace]
        best = max(known, key=lambda cache: cache.common(prompt), default=None)
        shared = min(best.common(prompt), at_most) if best is not None else 0
        if best is None or shared == 0:
            return KVCache(self._config, namespace=namespace)
        return self._take(best) if best in self._kept and shared == len(best) else best.prefix(shared)

    def _take(self, cache: KVCache) -> KVCache:
        self._kept.remove(cache)
        return cache

    def keep(self, cache: KVCache) -> None:
        """Keep the cache of a finished sequence."""
        if cache.ids:
            self._kept.append(cache)
        while self.tokens > self._capacity:
            del self._kept[0]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

"""The model: Qwen3 in NumPy, float32, several sequences in one pass.

Owns the arithmetic. Invariant: feeding a sequence in pieces of any size gives the hidden states of feeding it whole.
Never samples, never stops, and never looks at text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strands_sglang.engine.tiny.checkpoint import Array, Checkpoint
from strands_sglang.engine.tiny.kv_cache import KVCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The weights of one layer, transposed for `x @ w`, projections of one input side by side."""

    input_norm: Array
    qkv: Array
    qk_norm: Array
    out: Array
    mlp_norm: Array
    gate_up: Array
    down: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """New ids of one sequence, and the cache of the ids before them."""

    cache: KVCache
    ids: Sequence[int]


class Runner:
    """Runs a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Arrange the weights of `checkpoint`."""
        self.config = config = checkpoint.config
        weights = checkpoint.weights
        self._embed = weights["model.embed_tokens.weight"]
        self._norm = weights["model.norm.weight"]
        self._head = np.ascontiguousarray((self._embed if config.tied else weights["lm_head.weight"]).T)
        self._layers = [_layer(checkpoint, number) for number in range(config.layers)]
        self._cos, self._sin = _rotations(config.context, config.head_dim, config.rope_theta)

    def forward(self, parts: Sequence[Part]) -> Array:
        """Feed the parts, extend their caches, and return the last hidden state of every new id, parts in order."""
        ids = [token for part in parts for token in part.ids]
        at = np.concatenate([np.arange(len(part.cache), len(part.cache) + len(part.ids)) for part in parts])
        turn = self._cos[at, None], self._sin[at, None]
        for part in parts:
            part.cache.reserve(len(part.ids))
        x = self._embed[ids]
        with np.errstate(over="ignore"):  # exp(-x) of a very negative gate is infinite, and the gate then rightly 0
            for number, layer in enumerate(self._layers):
                x = x + self._attention(number, layer, x, parts, turn)
                x = x + self._mlp(layer, x)
        for part in parts:
            part.cache.ids.extend(part.ids)
        return self._rms(x, self._norm)

    def logits(self, hidden: Array) -> Array:
        """Return the logits over the vocabulary of these hidden states."""
        return hidden @ self._head

    def _attention(
        self, number: int, layer: Layer, x: Array, parts: Sequence[Part], turn: tuple[Array, Array]
    ) -> Array:
        heads, kv, dim = self.config.heads, self.config.kv_heads, self.config.head_dim
        qkv = (self._rms(x, layer.input_norm) @ layer.qkv).reshape(len(x), heads + 2 * kv, dim)
        qk, v = _rotate(self._rms(qkv[:, : heads + kv], layer.qk_norm), turn), qkv[:, heads + kv :]
        mixed, start = np.empty((len(x), heads * dim), np.float32), 0
        for part in parts:
            rows = slice(start, start + len(part.ids))
            mixed[rows] = _attend(part.cache, number, qk[rows, :heads], qk[rows, heads:], v[rows])
            start = rows.stop
        return mixed @ layer.out

    def _mlp(self, layer: Layer, x: Array) -> Array:
        both = self._rms(x, layer.mlp_norm) @ layer.gate_up
        gate, up = both[:, : both.shape[1] // 2], both[:, both.shape[1] // 2 :]
        product: Array = (gate / (1 + np.exp(-gate)) * up) @ layer.down
        return product

    def _rms(self, x: Array, weight: Array) -> Array:
        square = np.vecdot(x, x)[..., None] * np.float32(1 / x.shape[-1])
        scaled: Array = x * (weight / np.sqrt(square + np.float32(self.config.epsilon)))
        return scaled


def _attend(cache: KVCache, number: int, q: Array, k: Array, v: Array) -> Array:
    """Store the new keys and values of one sequence, and mix the values for its new queries."""
    count, heads, dim = q.shape
    begin, end, kv = len(cache), len(cache) + len(q), k.shape[1]
    cache.keys[number, :, begin:end] = k.transpose(1, 0, 2)
    cache.values[number, :, begin:end] = v.transpose(1, 0, 2)
    grouped = q.reshape(count, kv, heads // kv, dim).transpose(1, 2, 0, 3).reshape(kv, -1, dim)
    scores = grouped @ cache.keys[number, :, :end].transpose(0, 2, 1)
    if count > 1:
        later = np.arange(end) > np.arange(begin, end)[:, None]
        scores.reshape(kv, -1, count, end)[:, :, later] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = weights @ cache.values[number, :, :end]
    rows: Array = mixed.reshape(kv, heads // kv, count, dim).transpose(2, 0, 1, 3).reshape(count, -1)
    return rows


def _rotate(x: Array, turn: tuple[Array, Array]) -> Array:
    """Apply the rotary embedding to [tokens, heads, dim]."""
    cos, sin = turn
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return np.concatenate((left * cos - right * sin, right * cos + left * sin), -1)


def _rotations(context: int, dim: int, theta: float) -> tuple[Array, Array]:
    """Return cosine and sine of every position and frequency."""
    angle = np.arange(context)[:, None] / theta ** (np.arange(0, dim, 2) / dim)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def _layer(checkpoint: Checkpoint, number: int) -> Layer:
    def weight(name: str) -> Array:
        return checkpoint.weights[f"model.layers.{number}.{name}.weight"]

    def beside(*names: str) -> Array:
        return np.ascontiguousarray(np.concatenate([weight(name) for name in names]).T)

    config = checkpoint.config
    # The scale of the scores, 1/sqrt(dim), is put into the norm of the queries.
    q_norm = weight("self_attn.q_norm") / np.float32(config.head_dim**0.5)
    return Layer(
        input_norm=weight("input_layernorm"),
        qkv=beside("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        qk_norm=np.stack([q_norm] * config.heads + [weight("self_attn.k_norm")] * config.kv_heads),
        out=beside("self_attn.o_proj"),
        mlp_norm=weight("post_attention_layernorm"),
        gate_up=beside("mlp.gate_proj", "mlp.up_proj"),
        down=beside("mlp.down_proj"),
    )


def log_softmax(logits: Array) -> Array:
    """Return log-probabilities along the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    normal: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normal

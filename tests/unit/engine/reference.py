"""Qwen3 written down once more, slowly: float64, one token at a time, no cache, no batches, plain loops over heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from strands_sglang.engine.tiny.checkpoint import Checkpoint

Vector = npt.NDArray[np.float64]


def rms(x: Vector, weight: Vector, epsilon: float) -> Vector:
    scaled: Vector = x / np.sqrt(np.mean(x**2) + epsilon) * weight
    return scaled


def rotate(x: Vector, position: int, theta: float) -> Vector:
    half = len(x) // 2
    angles = position / theta ** (2 * np.arange(half) / len(x))
    turned = np.empty_like(x)
    turned[:half] = x[:half] * np.cos(angles) - x[half:] * np.sin(angles)
    turned[half:] = x[half:] * np.cos(angles) + x[:half] * np.sin(angles)
    return turned


def attention(checkpoint: Checkpoint, layer: int, normed: list[Vector]) -> list[Vector]:
    config = checkpoint.config

    def weight(name: str) -> Vector:
        return checkpoint.weights[f"model.layers.{layer}.self_attn.{name}.weight"].astype(np.float64)

    def heads(name: str, x: Vector) -> Vector:
        return (weight(f"{name}_proj") @ x).reshape(-1, config.head_dim)

    def turned(name: str, x: Vector, position: int) -> list[Vector]:
        norm = weight(f"{name}_norm")
        return [rotate(rms(head, norm, config.epsilon), position, config.rope_theta) for head in heads(name, x)]

    queries = [turned("q", x, at) for at, x in enumerate(normed)]
    keys = [turned("k", x, at) for at, x in enumerate(normed)]
    values = [heads("v", x) for x in normed]
    group, out = config.heads // config.kv_heads, weight("o_proj")
    mixed = []
    for at, query in enumerate(queries):
        rows = []
        for number, head in enumerate(query):
            scores = np.array([head @ keys[j][number // group] for j in range(at + 1)]) / config.head_dim**0.5
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            rows.append(sum(share * values[j][number // group] for j, share in enumerate(shares)))
        mixed.append(out @ np.concatenate(rows))
    return mixed


def logits(checkpoint: Checkpoint, ids: Sequence[int]) -> Vector:
    """Return the logits after every position, [tokens, vocabulary]."""
    config, weights = checkpoint.config, checkpoint.weights
    embed = weights["model.embed_tokens.weight"].astype(np.float64)
    xs = [embed[token] for token in ids]
    for layer in range(config.layers):

        def weight(name: str, layer: int = layer) -> Vector:
            return weights[f"model.layers.{layer}.{name}.weight"].astype(np.float64)

        normed = [rms(x, weight("input_layernorm"), config.epsilon) for x in xs]
        xs = [x + mixed for x, mixed in zip(xs, attention(checkpoint, layer, normed), strict=True)]
        for at, x in enumerate(xs):
            y = rms(x, weight("post_attention_layernorm"), config.epsilon)
            gate = weight("mlp.gate_proj") @ y
            xs[at] = x + weight("mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * (weight("mlp.up_proj") @ y))
    head = embed if config.tied else weights["lm_head.weight"].astype(np.float64)
    norm = weights["model.norm.weight"].astype(np.float64)
    return np.stack([head @ rms(x, norm, config.epsilon) for x in xs])


def log_softmax(rows: Vector) -> Vector:
    shifted = rows - rows.max(-1, keepdims=True)
    normal: Vector = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normal

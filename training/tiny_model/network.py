"""The network in PyTorch: a Qwen3 decoder with the parameter names of transformers.

Owns the architecture and what is written of it: ``config.json``, ``generation_config.json``, ``model.safetensors``.
"""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 1024,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "use_cache": True,
    "use_sliding_window": False,
    "initializer_range": 0.02,
    "dtype": "float16",
}
HIDDEN: int = CONFIG["hidden_size"]
HEADS: int = CONFIG["num_attention_heads"]
KV_HEADS: int = CONFIG["num_key_value_heads"]
HEAD_SIZE: int = CONFIG["head_dim"]
LAYERS: int = CONFIG["num_hidden_layers"]


class Norm(nn.Module):
    """Root mean square normalisation over the last dimension."""

    def __init__(self, size: int) -> None:
        """Start with a weight of ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x``."""
        return functional.rms_norm(x, (x.shape[-1],), self.weight, CONFIG["rms_norm_eps"])


class Attention(nn.Module):
    """Causal self-attention with grouped queries, query and key norms and rotary positions."""

    def __init__(self) -> None:
        """Make the four projections and the two norms."""
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD_SIZE, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_SIZE, HIDDEN, bias=False)
        self.q_norm, self.k_norm = Norm(HEAD_SIZE), Norm(HEAD_SIZE)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend within ``x`` of shape [rows, positions, hidden]."""
        rows, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(rows, length, HEADS, HEAD_SIZE)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(rows, length, KV_HEADS, HEAD_SIZE)).transpose(1, 2)
        v = self.v_proj(x).view(rows, length, KV_HEADS, HEAD_SIZE).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (y.repeat_interleave(HEADS // KV_HEADS, 1) for y in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to the last dimension of ``x``."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class MLP(nn.Module):
    """The gated feed-forward part of a layer."""

    def __init__(self) -> None:
        """Make the three projections."""
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, CONFIG["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(HIDDEN, CONFIG["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(CONFIG["intermediate_size"], HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the three projections."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self) -> None:
        """Make attention, MLP and their norms."""
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(HIDDEN), Attention()
        self.post_attention_layernorm, self.mlp = Norm(HIDDEN), MLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, keep: Tensor | None = None) -> Tensor:
        """Run the layer.

        Args:
            x: Hidden states, [rows, positions, hidden].
            cos: Cosines of the positions.
            sin: Sines of the positions.
            keep: Positions that are wanted; all if not given.

        Returns:
            Hidden states; [wanted positions, hidden] if ``keep`` is given.
        """
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        if keep is not None:
            x = x[keep]
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    """The decoder; input and output embeddings are the same tensor."""

    def __init__(self) -> None:
        """Make the layers and draw their weights from torch's random numbers."""
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm(HIDDEN)
        frequencies = CONFIG["rope_theta"] ** (torch.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
        angles = torch.arange(CONFIG["max_position_embeddings"])[:, None] / frequencies
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self._draw_weights()

    def _draw_weights(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deviation = 0.02 if name.startswith("embed") else 1 / math.sqrt(parameter.shape[1])
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    deviation /= math.sqrt(2 * LAYERS)
                nn.init.normal_(parameter, std=deviation)

    def loss(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Sum the loss of the masked ids.

        Args:
            ids: Token ids, [rows, positions], padded on the right.
            mask: Which of them are to be learned.

        Returns:
            The sum of their negative log-probabilities.
        """
        x, keep = self.embed_tokens(ids[:, :-1]), mask[:, 1:]
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        for layer in self.layers[:-1]:
            x = layer(x, cos, sin)
        x = self.norm(self.layers[-1](x, cos, sin, keep))
        return functional.cross_entropy(x @ self.embed_tokens.weight.T, ids[:, 1:][keep], reduction="sum")


def save(model: Model, folder: pathlib.Path, end: int, pad: int) -> pathlib.Path:
    """Write the weights (float16) and the two configurations.

    Args:
        model: The model.
        folder: Where to write.
        end: Id of the token that ends a message.
        pad: Id of the padding token.

    Returns:
        The file of the weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ids = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": pad}
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    for name, content in (("config.json", {**CONFIG, **ids}), ("generation_config.json", {**ids, **sampling})):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    weights = {f"model.{name}": tensor.detach().half().contiguous() for name, tensor in model.state_dict().items()}
    file = folder / "model.safetensors"
    file.write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
    return file

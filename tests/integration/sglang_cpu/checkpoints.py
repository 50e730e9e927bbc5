"""More checkpoints for the server, made from the shipped one in a moment and without torch.

Each keeps the shipped tokenizer, template and skills: an agent's episode runs on it as on the original. They are
functions of their arguments alone.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

Weights = dict[str, NDArray[np.float16]]

SIDE_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
MLP = re.compile(r"(model\.layers\.\d+\.mlp)\.((?:gate|up|down)_proj\.weight)")


def perturbed(source: Path, out: Path, *, seed: int = 0, scale: float = 0.02) -> Path:
    """Write the checkpoint with a little noise on every matrix: the same architecture under other weights.

    Args:
        source: The checkpoint to start from.
        out: The folder to write.
        seed: Decides the noise.
        scale: Standard deviation of the noise, relative to that of each matrix.
    """
    random = np.random.default_rng(seed)
    weights = load_file(source / "model.safetensors")
    for name, weight in weights.items():
        if weight.ndim == 2:
            noise = random.standard_normal(weight.shape) * (scale * float(weight.std()))
            weights[name] = (weight + noise).astype(np.float16)
    return write(out, source, json.loads((source / "config.json").read_text()), weights)


def mixture(source: Path, out: Path, *, experts: int = 8, active: int = 2, seed: int = 0) -> Path:
    """Write the checkpoint as a mixture of experts (Qwen3-MoE).

    Every expert is a copy of the layer's MLP and the router is random, so that routing varies from token to token
    while the outputs, a weighted mean of equal values, remain those of the dense model.

    Args:
        source: The dense Qwen3 checkpoint to start from.
        out: The folder to write.
        experts: Experts in each layer.
        active: Experts used for a token.
        seed: Decides the routers.
    """
    random = np.random.default_rng(seed)
    config = json.loads((source / "config.json").read_text())
    weights: Weights = {}
    for name, weight in load_file(source / "model.safetensors").items():
        if match := MLP.fullmatch(name):
            mlp, projection = match.groups()
            weights |= {f"{mlp}.experts.{k}.{projection}": weight for k in range(experts)}
        else:
            weights[name] = weight
    for layer in range(config["num_hidden_layers"]):
        router = random.standard_normal((experts, config["hidden_size"]))
        weights[f"model.layers.{layer}.mlp.gate.weight"] = router.astype(np.float16)
    # SGLang's Qwen3-MoE does not tie the output layer to the embedding.
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    config |= {
        "tie_word_embeddings": False,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "moe_intermediate_size": config["intermediate_size"],
        "num_experts": experts,
        "num_experts_per_tok": active,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    return write(out, source, config, weights)


def write(out: Path, source: Path, config: dict[str, object], weights: Weights) -> Path:
    """Write a checkpoint's folder, with tokenizer and template of the source."""
    out.mkdir(parents=True, exist_ok=True)
    for name in SIDE_FILES:
        shutil.copy(source / name, out / name)
    (out / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    return out

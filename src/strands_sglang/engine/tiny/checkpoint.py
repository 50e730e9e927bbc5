"""A dense Qwen3 checkpoint on disk: its configuration, its weights as float32 arrays, its tokenizer.

Owns reading `config.json`, `generation_config.json`, safetensors files (one or sharded; float16, bfloat16, float32)
and `tokenizer.json`.
Invariant: what is returned is complete and of the one architecture that `runner` computes; anything else is a
`SGLangConfigError` that names the path.
Never downloads, and never converts a checkpoint silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strands_sglang.engine.text import FastCodec, TextCodec
from strands_sglang.errors import SGLangConfigError

Array = npt.NDArray[np.float32]

SHIPPED = Path(__file__).parent.parent / "tiny_model"
"""The model of this package."""

_HINT = "give the folder of a dense Qwen3 checkpoint (config.json, *.safetensors, tokenizer.json), or leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The shape of the model.

    Attributes:
        context: Most tokens of prompt and answer together.
        stop_tokens: The ids that end an answer.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    rope_theta: float
    epsilon: float
    tied: bool
    stop_tokens: frozenset[int]
    architectures: tuple[str, ...] = ("Qwen3ForCausalLM",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint in memory."""

    path: Path
    config: ModelConfig
    weights: dict[str, Array]
    codec: TextCodec


def load(folder: Path) -> Checkpoint:
    """Read the checkpoint in `folder`.

    Raises:
        SGLangConfigError: The folder is missing, incomplete, or holds another architecture.
    """
    if not folder.is_dir():
        raise SGLangConfigError(f"there is no model directory at {folder}", hint=_HINT)
    codec, eos = _tokenizer(folder)
    config = _config(folder, eos)
    weights = dict(_weights(folder))
    missing = [name for name in _expected(config) if name not in weights]
    if missing:
        raise SGLangConfigError(
            f"the checkpoint in {folder} lacks {len(missing)} weights, first {missing[0]}", hint=_HINT
        )
    return Checkpoint(path=folder, config=config, weights=weights, codec=codec)


def _json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SGLangConfigError(f"there is no {path.name} in {path.parent}", hint=_HINT) from None
    except ValueError as error:
        raise SGLangConfigError(f"{path} is not JSON: {error}", hint=_HINT) from None
    if not isinstance(read, dict):
        raise SGLangConfigError(f"{path} holds no JSON object", hint=_HINT)
    return read


def _config(folder: Path, eos: frozenset[int]) -> ModelConfig:
    path = folder / "config.json"
    raw = _json(path)
    _check_architecture(path, raw)
    generation = folder / "generation_config.json"
    stops = _ids(raw.get("eos_token_id")) | eos
    if generation.exists():
        stops |= _ids(_json(generation).get("eos_token_id"))
    try:
        return _model_config(raw, stops)
    except KeyError as error:
        raise SGLangConfigError(f"{path} lacks {error.args[0]!r}", hint=_HINT) from None


def _model_config(raw: dict[str, Any], stops: frozenset[int]) -> ModelConfig:
    return ModelConfig(
        vocabulary=raw["vocab_size"],
        hidden=raw["hidden_size"],
        layers=raw["num_hidden_layers"],
        heads=raw["num_attention_heads"],
        kv_heads=raw["num_key_value_heads"],
        head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        context=raw["max_position_embeddings"],
        rope_theta=(raw.get("rope_parameters") or raw)["rope_theta"],
        epsilon=raw["rms_norm_eps"],
        tied=raw.get("tie_word_embeddings", False),
        stop_tokens=stops,
    )


def _check_architecture(path: Path, raw: dict[str, Any]) -> None:
    found = raw.get("architectures") or [raw.get("model_type")]
    if found != ["Qwen3ForCausalLM"]:
        raise SGLangConfigError(f"{path} describes {found[0]}; this engine runs Qwen3ForCausalLM only", hint=_HINT)
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    for name, value, wanted in (
        ("rope type", rope.get("rope_type", "default"), "default"),
        ("attention_bias", raw.get("attention_bias", False), False),
        ("use_sliding_window", raw.get("use_sliding_window", False), False),
        ("hidden_act", raw.get("hidden_act", "silu"), "silu"),
    ):
        if value != wanted:
            raise SGLangConfigError(f"{path}: {name} is {value!r}; this engine knows {wanted!r} only", hint=_HINT)


def _ids(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value) if isinstance(value, list) else frozenset({value})


def _tokenizer(folder: Path) -> tuple[TextCodec, frozenset[int]]:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.exists():
        raise SGLangConfigError(f"there is no tokenizer.json in {folder}", hint=_HINT)
    tokenizer = Tokenizer.from_file(str(path))
    settings = folder / "tokenizer_config.json"
    eos = _json(settings).get("eos_token") if settings.exists() else None
    name = eos.get("content") if isinstance(eos, dict) else eos
    token = tokenizer.token_to_id(name) if name else None
    return FastCodec(tokenizer), frozenset() if token is None else frozenset({token})


def _expected(config: ModelConfig) -> Iterator[str]:
    yield "model.embed_tokens.weight"
    yield "model.norm.weight"
    if not config.tied:
        yield "lm_head.weight"
    for layer in range(config.layers):
        for name in LAYER_WEIGHTS:
            yield f"model.layers.{layer}.{name}.weight"


LAYER_WEIGHTS = (
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
"""The weights of one layer, by their names in the file."""


def _weights(folder: Path) -> Iterator[tuple[str, Array]]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SGLangConfigError(f"there is no *.safetensors file in {folder}", hint=_HINT)
    for path in files:
        yield from _safetensors(path)


def _safetensors(path: Path) -> Iterator[tuple[str, Array]]:
    """Read one file: eight bytes of header length, a JSON header, then the tensors."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    raw = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, _as_float32(raw[begin:end], entry["dtype"], path).reshape(entry["shape"])


def _as_float32(raw: npt.NDArray[np.uint8], kind: str, path: Path) -> Array:
    if kind == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kind in ("F16", "F32"):
        return raw.view(np.float16 if kind == "F16" else np.float32).astype(np.float32)
    raise SGLangConfigError(f"{path} holds {kind} weights; this engine reads F16, BF16 and F32", hint=_HINT)

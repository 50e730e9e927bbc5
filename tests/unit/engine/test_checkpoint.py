"""Reading a checkpoint: any dense Qwen3 in safetensors, and one clear error for anything else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strands_sglang.engine import TinyEngine
from strands_sglang.engine.tiny.checkpoint import LAYER_WEIGHTS, SHIPPED, Array, load
from strands_sglang.engine.tiny.kv_cache import KVCache
from strands_sglang.engine.tiny.runner import Part, Runner
from strands_sglang.errors import SGLangConfigError

from . import reference

SHAPE = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 1024,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "eos_token_id": [7, 9],
}


def random_weights() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (24,),
        "self_attn.q_proj": (32, 24),
        "self_attn.k_proj": (16, 24),
        "self_attn.v_proj": (16, 24),
        "self_attn.q_norm": (8,),
        "self_attn.k_norm": (8,),
        "self_attn.o_proj": (24, 32),
        "post_attention_layernorm": (24,),
        "mlp.gate_proj": (40, 24),
        "mlp.up_proj": (40, 24),
        "mlp.down_proj": (24, 40),
    }
    names = {f"model.layers.{layer}.{name}.weight": shapes[name] for layer in range(2) for name in LAYER_WEIGHTS}
    names |= {"model.embed_tokens.weight": (1024, 24), "model.norm.weight": (24,), "lm_head.weight": (1024, 24)}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in names.items()}


def encoded(array: Array, kind: str) -> bytes:
    if kind == "BF16":
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return array.astype(np.float16 if kind == "F16" else np.float32).tobytes()


def write_safetensors(path: Path, weights: dict[str, Array], kind: str) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blob = b""
    for name, array in weights.items():
        raw = encoded(array, kind)
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)


WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """`write_model(kind, shards=1, without=(), **config)`: the folder of a random checkpoint."""

    def write(kind: str = "F32", *, shards: int = 1, without: tuple[str, ...] = (), **config: Any) -> Path:
        weights = {name: array for name, array in random_weights().items() if name not in without}
        for shard in range(shards):
            part = dict(list(weights.items())[shard::shards])
            write_safetensors(tmp_path / f"model-{shard}.safetensors", part, kind)
        (tmp_path / "config.json").write_text(json.dumps({**SHAPE, **config}))
        shutil.copy(SHIPPED / "tokenizer.json", tmp_path)
        return tmp_path

    return write


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_a_foreign_checkpoint_computes_what_the_reference_does(write_model: WriteModel, kind: str) -> None:
    checkpoint = load(write_model(kind, shards=2))
    runner = Runner(checkpoint)

    hidden = runner.forward([Part(cache=KVCache(checkpoint.config), ids=[1, 2, 3, 1000])])

    assert np.allclose(runner.logits(hidden), reference.logits(checkpoint, [1, 2, 3, 1000]), atol=1e-4)
    assert checkpoint.config.stop_tokens == {7, 9}


def test_the_three_kinds_of_weights_differ_by_their_precision_only(write_model: WriteModel) -> None:
    exact = random_weights()["model.embed_tokens.weight"]

    for kind, tolerance in (("F32", 0.0), ("F16", 1e-3), ("BF16", 1e-2)):
        read = load(write_model(kind)).weights["model.embed_tokens.weight"]
        assert read.dtype == np.float32
        assert np.allclose(read, exact, rtol=tolerance, atol=1e-3 * tolerance)


def test_the_shipped_model_stops_at_its_end_of_turn() -> None:
    checkpoint = load(SHIPPED)

    assert checkpoint.codec.decode(sorted(checkpoint.config.stop_tokens), skip_special=False) == "<|im_end|>"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SGLangConfigError, match=r"no model directory at .*nowhere") as caught:
        TinyEngine(tmp_path / "nowhere")

    assert "config.json" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "describes LlamaForCausalLM; this engine runs Qwen3ForCausalLM only"),
        ({"architectures": None, "model_type": "gpt2"}, "describes gpt2"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope type is 'yarn'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"use_sliding_window": True}, "use_sliding_window is True"),
        ({"num_hidden_layers": 3}, r"lacks 11 weights, first model\.layers\.2"),
    ],
)
def test_another_architecture_is_refused_and_named(
    write_model: WriteModel, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(SGLangConfigError, match=message):
        load(write_model(**config))


@pytest.mark.parametrize(
    ("name", "called"),
    [("config.json", "config.json"), ("tokenizer.json", "tokenizer.json"), ("model-0.safetensors", "*.safetensors")],
)
def test_a_missing_file_is_named(write_model: WriteModel, name: str, called: str) -> None:
    folder = write_model()
    (folder / name).unlink()

    with pytest.raises(SGLangConfigError, match=f"there is no {re.escape(called)}"):
        load(folder)


def test_a_missing_key_or_damaged_json_is_named(write_model: WriteModel) -> None:
    folder = write_model()
    (folder / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
    with pytest.raises(SGLangConfigError, match=r"config.json lacks 'vocab_size'"):
        load(folder)

    (folder / "config.json").write_text("{")
    with pytest.raises(SGLangConfigError, match=r"config.json is not JSON"):
        load(folder)


def test_weights_of_another_kind_are_refused(write_model: WriteModel) -> None:
    folder = write_model()
    path = folder / "model-0.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'"I32"', 1))

    with pytest.raises(SGLangConfigError, match="holds I32 weights"):
        load(folder)

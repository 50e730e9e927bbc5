"""A tokenizer.json made from the vocabulary that a GGUF file carries.

Reads only the metadata at the head of the file, never the weights. What a GGUF does not tell (how text is split
before BPE) comes from a named pipeline.
"""

from __future__ import annotations

import io
import struct
from typing import Any

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4


def read_metadata(content: bytes) -> dict[str, Any]:
    """Return the key-value head of a GGUF file."""
    stream = io.BytesIO(content)

    def number(kind: int) -> Any:
        layout = _NUMBERS[kind]
        return struct.unpack(layout, stream.read(struct.calcsize(layout)))[0]

    def string() -> str:
        return stream.read(number(10)).decode("utf-8", "surrogateescape")

    def value(kind: int) -> Any:
        if kind == _STRING:
            return string()
        if kind == _ARRAY:
            element, count = number(4), number(10)
            return [value(element) for _ in range(count)]
        return number(kind)

    if stream.read(4) != b"GGUF":
        raise ValueError("not a GGUF file")
    number(4), number(10)  # version, tensor count
    return {string(): value(number(4)) for _ in range(number(10))}


def tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the tokenizer_config.json that belongs to the metadata."""
    tokens = metadata["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1 << 30,
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token_id = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if token_id is not None:
            config[f"{name}_token"] = tokens[token_id]
    return config


def tokenizer_json(metadata: dict[str, Any], *, base: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the tokenizer.json: the GGUF's tokens and merges, split as `base` does (SmolLM2's way without one)."""
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = metadata["tokenizer.ggml.merges"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kinds[index] == _CONTROL,
        }
        for index, token in enumerate(tokens)
        if kinds[index] in (_CONTROL, _USER_DEFINED)
    ]
    if base is None:
        return _smollm() | {"added_tokens": added, "model": _bpe(vocabulary, [m.split(" ", 1) for m in merges])}
    # The base keeps the two halves of a merge apart, a GGUF joins them with a space that tokens may hold as well.
    if [m if isinstance(m, str) else " ".join(m) for m in base["model"]["merges"]] != merges:
        raise ValueError("the GGUF's merges are not those of the base tokenizer")
    return base | {"added_tokens": added, "model": base["model"] | {"vocab": vocabulary}}


def _smollm() -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                byte_level | {"add_prefix_space": False},
            ],
        },
        "post_processor": None,
        "decoder": byte_level | {"add_prefix_space": True},
    }


def _bpe(vocabulary: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": merges,
    }

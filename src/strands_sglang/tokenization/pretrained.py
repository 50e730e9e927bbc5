"""Loading a tokenizer once per process. The only module here that touches transformers, and only when called."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from strands_sglang.errors import ChatTemplateMissingError, SGLangConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")


@lru_cache(maxsize=32)
def get_tokenizer(tokenizer_path: str, *, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Return the shared tokenizer of a model directory or hub name.

    Args:
        tokenizer_path: Directory with a tokenizer, or its name on the hub.
        trust_remote_code: Let transformers run code that comes with the tokenizer.

    Raises:
        SGLangConfigError: If it is neither a directory nor a hub name that transformers can load.
    """
    from transformers import AutoTokenizer

    local = Path(tokenizer_path).expanduser()
    if not local.is_dir() and (local.is_absolute() or tokenizer_path.startswith((".", "~"))):
        raise SGLangConfigError(f"tokenizer directory {tokenizer_path!r} does not exist")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(local) if local.is_dir() else tokenizer_path, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        files = any((local / name).is_file() for name in _FILES) or not local.is_dir()
        reason = " ".join(str(error).split()) if files else f"it holds none of {', '.join(_FILES)}"
        raise SGLangConfigError(
            f"no tokenizer can be loaded from {tokenizer_path!r}: {reason}",
            hint="give a directory with tokenizer.json and tokenizer_config.json, or a name on a hub within reach",
        ) from error
    if not tokenizer.chat_template:
        raise ChatTemplateMissingError(
            f"the tokenizer at {tokenizer_path!r} has no chat template", model=tokenizer_path
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded

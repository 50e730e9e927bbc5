"""Messages to ids: the first prompt whole, later only what is new; content never becomes control.

Public: `ChatTokenizer`, its records `SampledTurn`, `PromptTokens` and `GuardedLiteral`, `TokenizerLike`, and
`check_template` with its `TemplateReport`. Needs the standard library, jinja2 and the tokenizer object; never imports
Strands, HTTP, transformers or torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .chat_tokenizer import ChatTokenizer
from .protocol import TokenizerLike
from .turn import GuardedLiteral, PromptTokens, SampledTurn

if TYPE_CHECKING:
    from .check import check_template, quick_check
    from .report import TemplateReport

__all__ = [
    "ChatTokenizer",
    "GuardedLiteral",
    "PromptTokens",
    "SampledTurn",
    "TemplateReport",
    "TokenizerLike",
    "check_template",
    "quick_check",
]


def __getattr__(name: str) -> Any:
    """Load the template check on first use; making prompts does not need it."""
    if name not in ("TemplateReport", "check_template", "quick_check"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.check"), name)

"""Messages to ids: the first prompt whole, later only what is new; content never becomes control.

Public: `ChatTokenizer`, its records `SampledTurn`, `PromptTokens` and `GuardedLiteral`, and `TokenizerLike`. Needs the
standard library, jinja2 and the tokenizer object; never imports Strands, HTTP, transformers or torch.
"""

from .chat_tokenizer import ChatTokenizer
from .protocol import TokenizerLike
from .turn import GuardedLiteral, PromptTokens, SampledTurn

__all__ = ["ChatTokenizer", "GuardedLiteral", "PromptTokens", "SampledTurn", "TokenizerLike"]

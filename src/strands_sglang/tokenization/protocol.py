"""What this package asks of a tokenizer.

Owns the narrow protocol that transformers' fast and slow tokenizers satisfy as they are. A bare
`tokenizers.Tokenizer` is taken, too (it has no chat template, so one must be passed). Never imports either.
"""

from __future__ import annotations

from typing import Any, Protocol


class TokenizerLike(Protocol):
    """The members that are called.

    Read where present: `chat_template`, `special_tokens_map`, `name_or_path`, and `backend_tokenizer`, of which a
    private view is then used in place of the methods below.
    """

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> Any:
        """Return the ids of a text; called with `add_special_tokens=False` only."""
        ...

    def decode(self, ids: Any, *, skip_special_tokens: bool = ...) -> str:
        """Return the text of ids; called with `skip_special_tokens=False` only."""
        ...

    def get_added_vocab(self) -> dict[str, int]:
        """Return the added tokens, special or not, and their ids."""
        ...

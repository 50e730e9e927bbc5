"""Strands Agents on SGLang, with a training record that is exact to the token.

The public names are loaded on first use, so that importing one part (a tool parser, the chat tokenizer) does not import
the others' libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .client import SGLangClient, get_client, get_client_from_slime_args
    from .errors import (
        ChatTemplateError,
        ChatTemplateMissingError,
        ControlTokenError,
        ExportError,
        HistoryDivergedError,
        LoopLimitReachedError,
        MaxMessagesReachedError,
        MaxToolCallsReachedError,
        MaxToolIterationsReachedError,
        RecordError,
        RecordFormatError,
        ReplayMismatchError,
        RoutingError,
        SGLangAbortedError,
        SGLangAuthError,
        SGLangBadRequestError,
        SGLangClientError,
        SGLangConfigError,
        SGLangConnectionError,
        SGLangContextLengthError,
        SGLangDecodingError,
        SGLangDuplicateRequestError,
        SGLangError,
        SGLangGenerationError,
        SGLangHTTPError,
        SGLangIncompleteAnswerError,
        SGLangNotFoundError,
        SGLangServerError,
        SGLangThrottledError,
        SGLangTimeoutError,
        StaleTurnError,
        TemplateNotExactError,
        TokenizationError,
        UnknownNameError,
        UnsupportedContentError,
    )
    from .provider.ending import classify
    from .provider.limiter import LoopLimiter
    from .provider.limiter import LoopLimiter as ToolLimiter
    from .provider.model import SGLangModel
    from .records import RecordWriter, read_parquet, read_records, write_parquet
    from .retry import RetryPolicy
    from .rollout import Rollout
    from .runner import Episode, run_episode, run_episodes
    from .termination import Termination, TerminationReason
    from .tokenization.pretrained import get_tokenizer
    from .tool_parsers import get_tool_parser
    from .trajectory import Trajectory

_HOMES = {
    "client": ("SGLangClient", "get_client", "get_client_from_slime_args"),
    "errors": (
        "ChatTemplateError",
        "ChatTemplateMissingError",
        "ControlTokenError",
        "ExportError",
        "HistoryDivergedError",
        "LoopLimitReachedError",
        "MaxMessagesReachedError",
        "MaxToolCallsReachedError",
        "MaxToolIterationsReachedError",
        "RecordError",
        "RecordFormatError",
        "ReplayMismatchError",
        "RoutingError",
        "SGLangAbortedError",
        "SGLangAuthError",
        "SGLangBadRequestError",
        "SGLangClientError",
        "SGLangConfigError",
        "SGLangConnectionError",
        "SGLangContextLengthError",
        "SGLangDecodingError",
        "SGLangDuplicateRequestError",
        "SGLangError",
        "SGLangGenerationError",
        "SGLangHTTPError",
        "SGLangIncompleteAnswerError",
        "SGLangNotFoundError",
        "SGLangServerError",
        "SGLangThrottledError",
        "SGLangTimeoutError",
        "StaleTurnError",
        "TemplateNotExactError",
        "TokenizationError",
        "UnknownNameError",
        "UnsupportedContentError",
    ),
    "provider.ending": ("classify",),
    "provider.limiter": ("LoopLimiter",),
    "provider.model": ("SGLangModel",),
    "records": ("RecordWriter", "read_parquet", "read_records", "write_parquet"),
    "retry": ("RetryPolicy",),
    "rollout": ("Rollout",),
    "runner": ("Episode", "run_episode", "run_episodes"),
    "termination": ("Termination", "TerminationReason"),
    "tokenization.pretrained": ("get_tokenizer",),
    "tool_parsers": ("get_tool_parser",),
    "trajectory": ("Trajectory",),
}
_HOME_OF = {name: (home, name) for home, names in _HOMES.items() for name in names}
# The name under which existing code knows the limiter.
_HOME_OF["ToolLimiter"] = ("provider.limiter", "LoopLimiter")

__all__ = [
    "ChatTemplateError",
    "ChatTemplateMissingError",
    "ControlTokenError",
    "Episode",
    "ExportError",
    "HistoryDivergedError",
    "LoopLimitReachedError",
    "LoopLimiter",
    "MaxMessagesReachedError",
    "MaxToolCallsReachedError",
    "MaxToolIterationsReachedError",
    "RecordError",
    "RecordFormatError",
    "RecordWriter",
    "ReplayMismatchError",
    "RetryPolicy",
    "Rollout",
    "RoutingError",
    "SGLangAbortedError",
    "SGLangAuthError",
    "SGLangBadRequestError",
    "SGLangClient",
    "SGLangClientError",
    "SGLangConfigError",
    "SGLangConnectionError",
    "SGLangContextLengthError",
    "SGLangDecodingError",
    "SGLangDuplicateRequestError",
    "SGLangError",
    "SGLangGenerationError",
    "SGLangHTTPError",
    "SGLangIncompleteAnswerError",
    "SGLangModel",
    "SGLangNotFoundError",
    "SGLangServerError",
    "SGLangThrottledError",
    "SGLangTimeoutError",
    "StaleTurnError",
    "TemplateNotExactError",
    "Termination",
    "TerminationReason",
    "TokenizationError",
    "ToolLimiter",
    "Trajectory",
    "UnknownNameError",
    "UnsupportedContentError",
    "__version__",
    "classify",
    "get_client",
    "get_client_from_slime_args",
    "get_tokenizer",
    "get_tool_parser",
    "read_parquet",
    "read_records",
    "run_episode",
    "run_episodes",
    "write_parquet",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, attribute = _HOME_OF[name]
    loaded = getattr(importlib.import_module(f"{__name__}.{home}"), attribute)
    globals()[name] = loaded
    return loaded


def __dir__() -> list[str]:
    return sorted(__all__)

"""Every error of the library, in one tree.

SGLangError
├── SGLangConfigError (ValueError)                an option that does not exist or cannot be meant
│   └── UnknownNameError (KeyError)               a name that a registry does not hold
├── SGLangClientError                             anything between this process and the server
│   ├── SGLangConnectionError (ConnectionError)   no answer: refused, reset, DNS, TLS
│   │   ├── SGLangTimeoutError (TimeoutError)     no answer within the deadline
│   │   └── SGLangIncompleteAnswerError           an answer that broke off, or is not readable HTTP
│   ├── SGLangDecodingError (ValueError)          an answer that is not what `/generate` gives
│   ├── SGLangGenerationError (RuntimeError)      the server answered, but the generation failed (NaN)
│   ├── SGLangAbortedError (RuntimeError)         the generation was aborted; carries its partial reply
│   └── SGLangHTTPError (RuntimeError)            an HTTP error status
│       ├── SGLangBadRequestError                 400, 413, 422: the request itself is wrong
│       │   ├── SGLangContextLengthError          the prompt, or prompt plus budget, does not fit
│       │   └── SGLangDuplicateRequestError       a request of that id is still running there
│       ├── SGLangAuthError                       401, 403
│       ├── SGLangNotFoundError                   404, 405: no such route here
│       ├── SGLangThrottledError                  429, 503 (and 408, 409): busy, full, starting, draining
│       └── SGLangServerError                     other 5xx
├── TokenizationError (ValueError)                messages cannot become ids without guessing
│   ├── ChatTemplateMissingError                  the tokenizer has no chat template
│   ├── ChatTemplateError                         the template refused or failed to render
│   ├── TemplateNotExactError                     no exact suffix can be shown for this template
│   ├── ControlTokenError                         control tokens in content, and `control_tokens="raise"`
│   └── UnsupportedContentError (TypeError)       content that the template or the model cannot express
├── RecordError (ValueError)                      the record would become untrue
│   ├── HistoryDivergedError                      the host's history is not the recorded one
│   ├── StaleTurnError                            a turn is committed twice, or after its branch moved on
│   ├── RecordFormatError                         a saved record cannot be read
│   ├── RoutingError                              routing rows do not fit the tokens, or are not there
│   ├── ExportError                               a trainer's row cannot be made, or would be untrue
│   └── ReplayMismatchError                       a replayed episode asks what was never asked
└── LoopLimitReachedError (RuntimeError)          `LoopLimiter` ended the agent loop
    ├── MaxToolIterationsReachedError
    ├── MaxToolCallsReachedError
    └── MaxMessagesReachedError

Each class also inherits the one standard exception that a caller who never heard of this library would
catch. `retryable` says whether the same request may succeed if sent again; `hint`, where there is one, is
what to do, and is attached as an exception note.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar


class SGLangError(Exception):
    """Root of every error this library raises on purpose.

    Attributes:
        retryable: Whether the same call may succeed when repeated unchanged.
        hint: What to do about it, also attached as an exception note; None where nothing general helps.
    """

    retryable: ClassVar[bool] = False
    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Create the error.

        Args:
            message: What was wrong and where, in one or two sentences.
            hint: What to do about it. Defaults to the class's own hint.
        """
        super().__init__(message)
        if hint is not None:
            self.hint = hint
        if self.hint:
            self.add_note(f"hint: {self.hint}")


# --- configuration ---------------------------------------------------------------------------------------


class SGLangConfigError(SGLangError, ValueError):
    """An option that does not exist, or a value it cannot take."""


class UnknownNameError(SGLangConfigError, KeyError):
    """A name that a registry does not hold.

    Attributes:
        name: The name asked for.
        known: The names there are, sorted.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        """Create the error.

        Args:
            kind: What is being named, such as "tool parser".
            name: The name asked for, whatever was given as one.
            known: The names there are.
        """
        self.name = name
        self.known = sorted(known)
        super().__init__(f"unknown {kind} {name!r}{nearest(name, self.known)}; known: {', '.join(self.known)}")

    def __str__(self) -> str:
        """Return the message; `KeyError` would show its repr."""
        return str(self.args[0])


def nearest(name: object, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" for the known name closest to a misspelt one, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7) if isinstance(name, str) else []
    return f", did you mean {close[0]!r}?" if close else ""


# --- the wire --------------------------------------------------------------------------------------------


class SGLangClientError(SGLangError):
    """Anything that went wrong between this process and the server.

    Attributes:
        url: The URL that was asked, or None.
        rid: The request id of the last attempt, or None.
        attempts: How many times the request was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        rid: str | None = None,
        attempts: int = 1,
        hint: str | None = None,
    ) -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message, hint=hint)
        self.url = url
        self.rid = rid
        self.attempts = attempts


class SGLangConnectionError(SGLangClientError, ConnectionError):
    """The server gave no answer: connection refused or reset, unknown host, TLS failure."""

    retryable: ClassVar[bool] = True


class SGLangTimeoutError(SGLangConnectionError, TimeoutError):
    """No answer came within the deadline."""


class SGLangIncompleteAnswerError(SGLangConnectionError):
    """An answer broke off, or is not HTTP that can be read; what was generated is lost, and may be generated again."""


class SGLangDecodingError(SGLangClientError, ValueError):
    """An answer came, but it is not what `/generate` gives.

    Attributes:
        body: The beginning of the body as text.
    """

    def __init__(self, message: str, *, body: str = "", **kwargs: Any) -> None:
        """Create the error; `kwargs` are those of `SGLangClientError`."""
        super().__init__(message, **kwargs)
        self.body = body


class SGLangGenerationError(SGLangClientError, RuntimeError):
    """The server answered 200, but the generation itself failed (SGLang reports "NaN happened" as a stop)."""


class SGLangAbortedError(SGLangClientError, RuntimeError):
    """The generation was aborted before it ended (guarantee G9).

    Attributes:
        reply: The validated partial `GenerateReply`, or None where the server kept nothing.
    """

    def __init__(self, message: str, *, reply: Any = None, **kwargs: Any) -> None:
        """Create the error; `kwargs` are those of `SGLangClientError`."""
        super().__init__(message, **kwargs)
        self.reply = reply


class SGLangHTTPError(SGLangClientError, RuntimeError):
    """The server answered with an HTTP error status.

    Attributes:
        status: The HTTP status.
        body: The body as text.
        retry_after: Seconds after which the server asked to come back, or None where it did not.
    """

    def __init__(
        self, message: str, *, status: int, body: str = "", retry_after: float | None = None, **kwargs: Any
    ) -> None:
        """Create the error; `kwargs` are those of `SGLangClientError`."""
        super().__init__(message, **kwargs)
        self.status = status
        self.body = body
        self.retry_after = retry_after


class SGLangBadRequestError(SGLangHTTPError):
    """The request itself is wrong (400, 413, 422); sending it again cannot help."""


class SGLangContextLengthError(SGLangBadRequestError):
    """The prompt, or the prompt plus the token budget, does not fit the context.

    Attributes:
        prompt_tokens: Tokens of the prompt, or None where the server does not say.
        limit: The context length or input limit in tokens, or None.
    """

    def __init__(
        self, message: str, *, prompt_tokens: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> None:
        """Create the error; `kwargs` are those of `SGLangHTTPError`."""
        super().__init__(message, **kwargs)
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class SGLangDuplicateRequestError(SGLangBadRequestError):
    """A request of the same id is still running on the server (400); a fresh id is all it takes."""

    retryable: ClassVar[bool] = True


class SGLangAuthError(SGLangHTTPError):
    """The API key is missing, wrong, or of the wrong kind (401, 403)."""

    hint = "pass api_key= to SGLangClient, and admin_api_key= for control endpoints where the server has one"


class SGLangNotFoundError(SGLangHTTPError):
    """The server has no such route (404, 405): it may be a router, an old release or no SGLang at all."""


class SGLangThrottledError(SGLangHTTPError):
    """The server is busy, full, starting or draining (429, 503; routers also say 408 and 409)."""

    retryable: ClassVar[bool] = True


class SGLangServerError(SGLangHTTPError):
    """The server failed (5xx other than 503)."""

    retryable: ClassVar[bool] = True


# --- tokenisation ----------------------------------------------------------------------------------------


class TokenizationError(SGLangError, ValueError):
    """Messages cannot be turned into ids without guessing.

    Attributes:
        model: Name or path of the tokenizer, or None.
        message_index: Index of the message at fault in the list that was given, or None.
    """

    def __init__(
        self, message: str, *, model: str | None = None, message_index: int | None = None, hint: str | None = None
    ) -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message, hint=hint)
        self.model = model
        self.message_index = message_index


class ChatTemplateMissingError(TokenizationError):
    """The tokenizer has no chat template, and none was given."""

    hint = "use an instruct model's tokenizer, or pass chat_template="


class ChatTemplateError(TokenizationError):
    """The chat template refused the messages or failed to render; its own words are kept in the message."""


class TemplateNotExactError(TokenizationError):
    """For this template, or this shape of conversation, no exact suffix can be shown."""


class ControlTokenError(TokenizationError):
    """Content holds the literal text of a control token, and `control_tokens="raise"`.

    Attributes:
        literal: The control token's text.
    """

    def __init__(self, message: str, *, literal: str, **kwargs: Any) -> None:
        """Create the error; `kwargs` are those of `TokenizationError`."""
        super().__init__(message, **kwargs)
        self.literal = literal


class UnsupportedContentError(TokenizationError, TypeError):
    """Content of a kind that the template, the model or this library cannot express without loss."""


# --- the record ------------------------------------------------------------------------------------------


class RecordError(SGLangError, ValueError):
    """The record would become untrue."""


class HistoryDivergedError(RecordError):
    """The host's history is not the recorded one, and `on_divergence="raise"` (guarantee G3).

    Attributes:
        message_index: Index of the first message that differs, or None where system prompt or tools differ.
        change: What changed, in words.
    """

    def __init__(self, message: str, *, message_index: int | None = None, change: str = "") -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message)
        self.message_index = message_index
        self.change = change


class StaleTurnError(RecordError):
    """A pending turn is committed twice, or after its conversation has moved on (guarantee G8)."""


class RecordFormatError(RecordError):
    """A saved record cannot be read: another kind of file, damaged, or of an unknown version.

    Attributes:
        place: Where the damage is within the record, such as "turns[3].sampled.ids"; None where that cannot be said.
        path: The file, or None where the record is not read from one.
        line: The line of the file, counted from 1 (the row of a table), or None.
    """

    def __init__(
        self, message: str, *, place: str | None = None, path: str | None = None, line: int | None = None
    ) -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message)
        self.place = place
        self.path = path
        self.line = line


class RoutingError(RecordError):
    """Routing rows of a mixture-of-experts model do not fit the recorded tokens, or are missing."""


class ExportError(RecordError):
    """A trainer's row cannot be made of the record, or would be untrue."""


class ReplayMismatchError(RecordError):
    """A replayed episode asks something that was not asked when it was recorded.

    Attributes:
        turn: Index of the recorded turn that the request comes nearest to, or None where there is none.
        position: First token position at which the request differs from it, or None.
    """

    def __init__(self, message: str, *, turn: int | None = None, position: int | None = None) -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message)
        self.turn = turn
        self.position = position


# --- the agent loop --------------------------------------------------------------------------------------


class LoopLimitReachedError(SGLangError, RuntimeError):
    """`LoopLimiter` ended the agent loop. The record ends at a message boundary and is exact.

    Attributes:
        limit: Name of the limit, such as "max_tool_iters"; "" where it was not given.
    """

    def __init__(self, message: str, *, limit: str = "") -> None:
        """Create the error; see the class for the attributes."""
        super().__init__(message)
        self.limit = limit


class MaxToolIterationsReachedError(LoopLimitReachedError):
    """`max_tool_iters` was reached; parallel calls of one answer count as one iteration."""


class MaxToolCallsReachedError(LoopLimitReachedError):
    """`max_tool_calls` was reached; every call counts."""


class MaxMessagesReachedError(LoopLimitReachedError):
    """`max_messages` was reached."""

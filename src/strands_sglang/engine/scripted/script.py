"""The steps of a `ScriptedEngine`: what one `/generate` is answered with.

Owns `Turn` (a generation), `Refusal` (an HTTP error or any other body) and `Drop` (a connection that breaks).
Invariant: a step says everything about its answer; nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from strands_sglang.engine.answers import dumps, error_object

Finish = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One generation to be played.

    Attributes:
        ids: The sampled ids, the stop token included; None: `text` encoded by the engine's tokenizer.
        text: What is sampled, as text, turn end included (`"425<|im_end|>"`). With `ids` it is the reply's `text`.
        logprobs: One value per id (None gives null); None: made up by `made_up_logprob`. A list of another length is
            sent as it is.
        finish: How the generation ends; or the whole `finish_reason` object; or None for a missing reason.
        matched: What a stop matched; None: the last id.
        weight_version: The version sampled under; None: the engine's.
        weight_versions: The spans; None: one span over all ids.
        routed_experts: `meta_info.routed_experts`, base64; None leaves the key out.
        prompt_token_ids: What the server claims to have read; None: what was sent. Only in the answer when asked for.
        delay: Seconds before the answer begins. Aborted in that time, it ends as a queued request does.
        token_delay: Seconds per id. Aborted in that time, it ends with the ids so far.
        drop_after: Break the connection after this many streamed ids; None: never.
        meta: Further keys of `meta_info`, or other values for those there are.
        without: Keys to leave out, of `meta_info` or of the reply.
    """

    ids: Sequence[int] | None = None
    text: str | None = None
    logprobs: Sequence[float | None] | None = None
    finish: Finish | Mapping[str, Any] | None = "stop"
    matched: int | str | None = None
    weight_version: str | None = None
    weight_versions: Sequence[Mapping[str, Any]] | None = None
    routed_experts: str | None = None
    prompt_token_ids: Sequence[int] | None = None
    delay: float = 0.0
    token_delay: float = 0.0
    drop_after: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    without: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is no generation: any status with any body.

    Attributes:
        status: The HTTP status.
        body: JSON value, text or bytes; None: SGLang's error object with `message`.
        message: The error's wording where `body` is None.
        delay: Seconds before the answer.
        headers: Further headers, such as `Retry-After`.
    """

    status: int = 503
    body: Any = None
    message: str = "The request queue is full."
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        """Return the body as bytes."""
        if self.body is None:
            return error_object(self.message, kind=str(self.status), code=self.status).encode()
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else dumps(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A connection that breaks without an answer.

    Attributes:
        delay: Seconds until it breaks.
    """

    delay: float = 0.0


Step = Turn | Refusal | Drop
"""What one request is answered with."""


def made_up_logprob(position: int, token_id: int) -> float:
    """Return the log-probability a turn without `logprobs` reports: between -2 and 0, a function of its arguments."""
    return -((token_id * 7919 + position * 104729 + 13) % 1999) / 1000

"""The body of a `/generate` answer, in SGLang's shape and key order.

Owns how a generation, finished or still running, becomes JSON; both engines use it.
Invariant: `output_ids`, `output_token_logprobs` and `completion_tokens` are built from the same sequence of ids.
Never decides what was sampled or why it ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Triple = tuple[float | None, int, str | None]
"""A log-probability, its token id, and the token's text where that was asked for."""


ABORTED: dict[str, Any] = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
"""How a running request ends when it is aborted."""

ABORTED_IN_QUEUE: dict[str, Any] = {"type": "abort", "message": "Abort in waiting queue"}
"""How a request ends that was aborted before it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprobs:
    """The logprob lists of one answer, as the wire has them.

    Attributes:
        input: One triple per prompt token from `logprob_start_len` on, the first value None; empty where not asked.
        output: One triple per output token.
        tops: Further lists by their wire name, such as `output_top_logprobs`; empty where not asked.
    """

    input: Sequence[Triple] = ()
    output: Sequence[Triple] = ()
    tops: dict[str, Any] = field(default_factory=dict)

    def keys(self) -> dict[str, Any]:
        """Return the keys of `meta_info`."""
        lists = {"input_token_logprobs": self.input, "output_token_logprobs": self.output}
        return {**lists, "output_token_logprobs_length": len(self.output), **self.tops}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One generation as it stands now.

    Attributes:
        rid: The request id.
        text: The decoded text; None where the server has no tokenizer.
        output_ids: What was sampled so far.
        finish: The finish reason; None while it runs.
        prompt_tokens: Length of the prompt.
        cached_tokens: How many prompt tokens were read from the cache.
        weight_version: The version at the end.
        weight_versions: Spans over the output ids.
        logprobs: The logprob lists, or None where they were not asked for.
        prompt_token_ids: The prompt as it was read, or None where it was not asked for.
        retractions: How often the request was taken back to the queue.
        started: Clock reading at arrival (`time.perf_counter`).
        queued: The request was aborted before it ran: the answer has fewer keys then.
    """

    rid: str
    text: str | None
    output_ids: Sequence[int]
    finish: dict[str, Any] | None
    prompt_tokens: int
    cached_tokens: int = 0
    weight_version: str = "default"
    weight_versions: Sequence[dict[str, Any]] = ()
    logprobs: Logprobs | None = None
    prompt_token_ids: Sequence[int] | None = None
    retractions: int = 0
    started: float = 0.0
    queued: bool = False

    def body(self) -> dict[str, Any]:
        """Return the JSON object."""
        body: dict[str, Any] = {} if self.text is None else {"text": self.text}
        body["output_ids"] = list(self.output_ids)
        body["meta_info"] = self._queued_meta() if self.queued else self._meta()
        if self.prompt_token_ids is not None:
            body["prompt_token_ids"] = list(self.prompt_token_ids)
        return body

    def _meta(self) -> dict[str, Any]:
        return {
            "id": self.rid,
            "finish_reason": self.finish,
            "prompt_tokens": self.prompt_tokens,
            "weight_version": self.weight_version,
            "num_retractions": self.retractions,
            **(self.logprobs.keys() if self.logprobs else {}),
            "reasoning_tokens": 0,
            "completion_tokens": len(self.output_ids),
            "cached_tokens": self.cached_tokens,
            **self._ended(),
            "cached_tokens_details": {"device": self.cached_tokens, "host": 0} if self.cached_tokens else None,
            "dp_rank": None,
            **self._clock(),
        }

    def _queued_meta(self) -> dict[str, Any]:
        return {
            "id": self.rid,
            "finish_reason": self.finish,
            "weight_version": self.weight_version,
            "e2e_latency": time.perf_counter() - self.started,
            **self._ended(),
            **(self.logprobs.keys() if self.logprobs else {}),
            "completion_tokens": len(self.output_ids),
        }

    def _ended(self) -> dict[str, Any]:
        return {} if self.finish is None else {"weight_versions": list(self.weight_versions)}

    def _clock(self) -> dict[str, Any]:
        if self.finish is None:
            return {}
        return {"e2e_latency": time.perf_counter() - self.started, "response_sent_to_client_ts": time.time()}

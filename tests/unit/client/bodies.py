"""Bodies in SGLang's shape, and some that were recorded from a real server (0.5.23)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from strands_sglang.wire import GenerateRequest

PROMPT = [10, 20, 30, 40, 50, 60]

RECORDED: dict[str, Any] = {
    "text": 'string" t',
    "output_ids": [294, 4, 277],
    "meta_info": {
        "id": "6d7f",
        "finish_reason": {"type": "length", "length": 3},
        "prompt_tokens": 6,
        "weight_version": "v0",
        "num_retractions": 0,
        "input_token_logprobs": [
            [None, 10, None],
            [-10.067835807800293, 20, None],
            [-10.394532203674316, 30, None],
            [-12.601156234741211, 40, None],
            [-11.256616592407227, 50, None],
            [-10.317892074584961, 60, None],
        ],
        "output_token_logprobs": [
            [-0.3830675482749939, 294, None],
            [-2.8783907890319824, 4, None],
            [-2.1933841705322266, 277, None],
        ],
        "output_token_logprobs_length": 3,
        "reasoning_tokens": 0,
        "completion_tokens": 3,
        "cached_tokens": 0,
        "weight_versions": [{"version": "v0", "start": 0, "end": 3}],
        "cached_tokens_details": None,
        "dp_rank": None,
        "e2e_latency": 0.134,
        "response_sent_to_client_ts": 1796056960.46,
    },
}

RECORDED_QUEUED_ABORT: dict[str, Any] = {
    "text": "",
    "output_ids": [],
    "meta_info": {
        "id": "q16",
        "finish_reason": {"type": "abort", "message": "Abort in waiting queue"},
        "weight_version": "v0",
        "weight_versions": [{"version": "v0", "start": 0, "end": 0}],
        "input_token_logprobs": [],
        "output_token_logprobs": [],
        "output_token_logprobs_length": 0,
        "completion_tokens": 0,
    },
}


def recorded() -> dict[str, Any]:
    """A copy of the recorded body, to be spoilt."""
    return copy.deepcopy(RECORDED)


def asked(prompt: Sequence[int] = PROMPT, **fields: Any) -> GenerateRequest:
    """A request, by default the one that `RECORDED` answers."""
    return GenerateRequest(input_ids=prompt, **{"sampling_params": {"max_new_tokens": 3}, **fields})


def reply_body(
    ids: Sequence[int],
    *,
    logprobs: Sequence[float | None] | None = None,
    prompt: Sequence[int] = PROMPT,
    finish: dict[str, Any] | None = None,
    text: str | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """A body with the given ids; every id's log-probability is minus a hundredth of it unless given."""
    values = [-token / 100 for token in ids] if logprobs is None else list(logprobs)
    return {
        "text": " ".join(map(str, ids)) if text is None else text,
        "output_ids": list(ids),
        "meta_info": {
            "id": "x",
            "finish_reason": finish or {"type": "length", "length": len(ids)},
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "weight_version": "v0",
            "output_token_logprobs": [[value, token, None] for value, token in zip(values, ids, strict=True)],
            "output_token_logprobs_length": len(ids),
            **meta,
        },
    }

"""What a server says about itself: `/model_info`, `/server_info`, `/v1/loads`, `/v1/models`, in SGLang's keys.

Owns the keys that clients read; the hundreds of launch arguments of the real `/server_info` are left out.
Never holds state: an engine passes in what it knows.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from strands_sglang.version import __version__

SGLANG_VERSION = "0.5.23"
"""The SGLang release whose answers the engines give, and which they report as `version`."""

RESERVED = 6
"""Positions the server keeps for itself: a prompt must be shorter than the context length by more than this."""


def model_info(*, path: str, model_type: str, architectures: list[str], weight_version: str) -> dict[str, Any]:
    """Return the body of `/model_info`."""
    return {
        "model_path": path,
        "served_model_name": path,
        "tokenizer_path": path,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": weight_version,
        "load_format": "auto",
        "reasoning_parser": None,
        "tool_call_parser": None,
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": model_type,
        "architectures": architectures,
    }


def server_info(
    *, path: str, context_length: int, max_running: int, max_tokens: int, weight_version: str
) -> dict[str, Any]:
    """Return the body of `/server_info`; `frontend` names this library, not SGLang's."""
    return {
        "model_path": path,
        "tokenizer_path": path,
        "served_model_name": path,
        "weight_version": weight_version,
        "context_length": context_length,
        "dp_size": 1,
        "tp_size": 1,
        "page_size": 1,
        "skip_tokenizer_init": False,
        "incremental_streaming_output": False,
        "enable_return_routed_experts": False,
        "enable_deterministic_inference": False,
        "reasoning_parser": None,
        "tool_call_parser": None,
        "max_running_requests": max_running,
        "max_total_num_tokens": max_tokens,
        "max_req_input_len": context_length - RESERVED,
        "status": "ready",
        "internal_states": [{"weight_version": weight_version}],
        "version": SGLANG_VERSION,
        "frontend": f"strands-sglang {__version__}",
    }


def loads(*, running: int, waiting: int, used_tokens: int, max_tokens: int, max_running: int) -> dict[str, Any]:
    """Return the body of `/v1/loads`."""
    now = time.time()
    load = {
        "timestamp": now,
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_used_tokens": used_tokens,
        "max_total_num_tokens": max_tokens,
        "max_running_requests": max_running,
        "queues": {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0},
    }
    stamp = datetime.fromtimestamp(now, UTC).isoformat()
    return {"timestamp": stamp, "version": SGLANG_VERSION, "num_accelerators": 1, "loads": [load]}


def models(*, path: str, context_length: int) -> dict[str, Any]:
    """Return the body of `/v1/models`."""
    model = {
        "id": path,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": path,
        "parent": None,
        "max_model_len": context_length,
    }
    return {"object": "list", "data": [model]}

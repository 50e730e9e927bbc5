"""Clients that a whole process shares: one per set of arguments.

Sharing is safe over event loops and threads, because a client keeps its connections per loop.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from .client import DEFAULT_MAX_CONNECTIONS, SGLangClient

# `cache` alone calls for the same arguments twice where threads meet.
_LOCK = threading.Lock()


@cache
def _shared(base_url: str, options: tuple[tuple[str, Any], ...]) -> SGLangClient:
    return SGLangClient(base_url, **dict(options))


def get_client(
    base_url: str,
    *,
    max_connections: int = DEFAULT_MAX_CONNECTIONS,
    timeout: float | None = 900.0,
    connect_timeout: float | None = 5.0,
    max_retries: int | None = None,
    retry_delay: float | None = None,
    api_key: str | None = None,
    admin_api_key: str | None = None,
) -> SGLangClient:
    """Return this process's client for these arguments; see `SGLangClient`."""
    options: dict[str, Any] = {
        "max_connections": max_connections,
        "timeout": timeout,
        "connect_timeout": connect_timeout,
        "max_retries": max_retries,
        "retry_delay": retry_delay,
        "api_key": api_key,
        "admin_api_key": admin_api_key,
    }
    with _LOCK:
        return _shared(base_url, tuple(options.items()))


def get_client_from_slime_args(
    args: Any,
    *,
    timeout: float | None = 900.0,
    connect_timeout: float | None = 5.0,
    max_retries: int | None = None,
    retry_delay: float | None = None,
) -> SGLangClient:
    """Return this process's client for slime's training arguments.

    Args:
        args: Has `sglang_router_ip`, `sglang_router_port`, `sglang_server_concurrency`, `rollout_num_gpus` and
            `rollout_num_gpus_per_engine`; the connections are as many as slime itself would open.
        timeout: See `SGLangClient`.
        connect_timeout: See `SGLangClient`.
        max_retries: See `SGLangClient`.
        retry_delay: See `SGLangClient`.
    """
    connections = args.sglang_server_concurrency * args.rollout_num_gpus // args.rollout_num_gpus_per_engine
    return get_client(
        f"http://{args.sglang_router_ip}:{args.sglang_router_port}",
        max_connections=max(1, int(connections)),
        timeout=timeout,
        connect_timeout=connect_timeout,
        max_retries=max_retries,
        retry_delay=retry_delay,
    )

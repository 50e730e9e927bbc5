"""The client's own face: its options, and the clients that a process shares."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from strands_sglang.client import SGLangClient, get_client, get_client_from_slime_args
from strands_sglang.errors import SGLangConfigError
from strands_sglang.retry import RetryPolicy


def test_the_constructor_takes_what_existing_code_gives_it() -> None:
    client = SGLangClient(
        base_url="http://localhost:30000/",
        max_connections=10,
        timeout=None,
        connect_timeout=1.0,
        max_retries=60,
        retry_delay=1.0,
    )

    assert (client.base_url, client.max_retries, client.retry_delay) == ("http://localhost:30000", 60, 1.0)
    assert repr(client) == "SGLangClient('http://localhost:30000')"


def test_retry_options_are_short_for_the_policy() -> None:
    assert RetryPolicy().max_retries == SGLangClient("http://a").max_retries
    assert SGLangClient("http://a", retry=RetryPolicy(max_retries=7)).max_retries == 7
    with pytest.raises(SGLangConfigError, match="either"):
        SGLangClient("http://a", retry=RetryPolicy(), max_retries=3)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"base_url": "localhost:30000"}, "did you mean|base_url"),
        ({"base_url": []}, "empty"),
        ({"max_connections": 0}, "max_connections"),
        ({"timeout": 0}, "timeout"),
        ({"on_abort": "ignore"}, "on_abort"),
        ({"max_resumptions": -1}, "max_resumptions"),
        ({"max_retries": -1}, "max_retries"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(SGLangConfigError, match=word):
        SGLangClient(**{"base_url": "http://a", **options})


def test_a_process_shares_one_client_per_set_of_arguments() -> None:
    assert get_client("http://shared") is get_client("http://shared")
    assert get_client("http://shared") is get_client("http://shared", timeout=900.0)
    assert get_client("http://shared") is not get_client("http://shared", timeout=None)
    assert get_client("http://shared") is not get_client("http://other")


def test_slime_s_arguments_give_slime_s_number_of_connections() -> None:
    args = SimpleNamespace(
        sglang_router_ip="10.0.0.1",
        sglang_router_port=3000,
        sglang_server_concurrency=512,
        rollout_num_gpus=8,
        rollout_num_gpus_per_engine=2,
    )

    client = get_client_from_slime_args(args)
    assert client is get_client_from_slime_args(args)
    assert client is get_client("http://10.0.0.1:3000", max_connections=2048)


@pytest.mark.parametrize("shared", [get_client, get_client_from_slime_args])
def test_the_shared_clients_take_the_options_they_always_took(shared: Any) -> None:
    names = {"timeout", "connect_timeout", "max_retries", "retry_delay"}

    assert names <= inspect.signature(shared).parameters.keys()

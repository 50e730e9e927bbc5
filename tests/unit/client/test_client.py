"""The client's own face: its options, and the clients that a process shares."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from strands_sglang.client import SGLangClient, get_client, get_client_from_slime_args
from strands_sglang.errors import SGLangConfigError, SGLangDecodingError
from strands_sglang.retry import RetryPolicy

from .bodies import asked


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
        ({"base_url": "http://a:port"}, "base_url"),
        ({"base_url": "http://a:99999"}, "base_url"),
        ({"base_url": "http://[::1"}, "base_url"),
        ({"base_url": "http://a:1\n"}, "base_url"),
        ({"base_url": "http://a b"}, "base_url"),
        ({"base_url": "http://a/?x=1"}, "base_url"),
        ({"base_url": "http://"}, "base_url"),
        ({"base_url": ["http://a", None]}, "base_url"),
        ({"base_url": ["http://a", "http://a:port"]}, "base_url"),
        ({"api_key": "secret\n"}, "api_key.*line break"),
        ({"api_key": "sec\r\nret"}, "api_key.*control character"),
        ({"api_key": "schl\u00fcssel"}, "api_key.*ASCII"),
        ({"api_key": 5}, "api_key.*string"),
        ({"admin_api_key": "secret\n"}, "admin_api_key"),
        ({"headers": {"X Team": "red"}}, "name of a header"),
        ({"headers": {"": "red"}}, "name of a header"),
        ({"headers": {"x-team": "r\u00f6t"}}, "x-team"),
        ({"headers": {"x-team": 5}}, "x-team"),
        ({"base_url": "http://user:secret@a", "api_key": "key"}, "user name"),
        ({"base_url": ["http://b", "http://user@a"], "admin_api_key": "key"}, "user name"),
        ({"base_url": "http://user@a", "headers": {"Authorization": "Basic x"}}, "user name"),
        ({"max_connections": 0}, "max_connections"),
        ({"timeout": 0}, "timeout"),
        ({"on_abort": "ignore"}, "on_abort"),
        ({"max_resumptions": -1}, "max_resumptions"),
        ({"max_retries": -1}, "max_retries"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(SGLangConfigError, match=word) as raised:
        SGLangClient(**{"base_url": "http://a", **options})
    assert "secret" not in str(raised.value)
    assert "schl" not in str(raised.value)


def test_a_proxy_of_the_environment_that_is_none_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:port")

    with pytest.raises(SGLangConfigError, match="http_proxy"):
        SGLangClient("http://engine.test:30000")
    SGLangClient("http://localhost:30000")


@pytest.mark.parametrize("said", [b"", b"[]", b"null", b"no", b'{"success": false}', b"\xff"])
async def test_an_update_that_is_not_confirmed_is_an_error_with_its_address(said: bytes) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=said))
    client = SGLangClient(["http://a", "http://b"], transport=transport)

    with pytest.raises(SGLangDecodingError, match="http://a/update_weights_from_disk") as raised:
        await client.update_weights_from_disk("/model")
    assert raised.value.url == "http://a/update_weights_from_disk"


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_address_that_only_the_network_library_refuses_is_a_configuration_error(
    streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gc.collect()  # what other tests have left says its word before
    caplog.clear()
    async with SGLangClient("http://a..b:30000") as client:
        with pytest.raises(SGLangConfigError, match=r"http://a\.\.b:30000"):
            await client.send(asked(), on_delta=(lambda delta: None) if streamed else None)
        with pytest.raises(SGLangConfigError):
            await client.server_info()
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_threads_that_ask_at_once_share_one_client() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for number in range(100):
                together = threading.Barrier(4)

                def ask(_: int, url: str = f"http://threads-{number}", together: threading.Barrier = together) -> Any:
                    together.wait()
                    return get_client(url)

                assert len(set(map(id, threads.map(ask, range(4))))) == 1
    finally:
        sys.setswitchinterval(interval)


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

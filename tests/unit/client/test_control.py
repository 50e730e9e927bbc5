"""The control endpoints: new and old names, several servers, routers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import respx

from strands_sglang.client import ServerKind, SGLangClient
from strands_sglang.client.control import worker_urls
from strands_sglang.client.routers import dropped_fields, may_be_dropped
from strands_sglang.engine import EngineTransport, ScriptedEngine, Turn
from strands_sglang.errors import (
    SGLangAuthError,
    SGLangBadRequestError,
    SGLangConnectionError,
    SGLangDecodingError,
    SGLangNotFoundError,
    SGLangThrottledError,
)

from .bodies import PROMPT, asked, reply_body


class Site:
    """Answers by "METHOD host path"; everything else is a 404. It keeps what was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked, self.bodies = answers, list[str](), list[Any]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = f"{request.method} {request.url.host} {request.url.path}"
        self.asked.append(name)
        self.bodies.append(json.loads(request.content) if request.content else None)
        answer = self.answers.get(name, httpx.Response(404, json={"detail": "Not Found"}))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def client(self, *urls: str) -> SGLangClient:
        return SGLangClient(urls or ["http://a"], transport=httpx.MockTransport(self))


REFUSED = httpx.ConnectError("refused")


# --- health -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "healthy"),
    [
        ({"GET a /ready": httpx.Response(200)}, True),
        ({"GET a /ready": httpx.Response(503)}, False),
        ({"GET a /model_info": {}}, True),
        ({"GET a /get_model_info": {}}, True),
        ({"GET a /model_info": httpx.Response(401), "GET a /health": httpx.Response(200)}, True),
        ({"GET a /health": httpx.Response(503)}, False),
        ({"GET a /ready": REFUSED}, False),
        ({}, False),
    ],
)
async def test_health_is_asked_where_the_release_has_it(answers: dict[str, Any], healthy: bool) -> None:
    assert healthy is await Site(answers).client().health()


async def test_health_never_makes_a_server_generate() -> None:
    engine = ScriptedEngine()

    assert await SGLangClient("http://a", transport=EngineTransport(engine)).health()
    assert not [path for _, path, _ in engine.calls if path in ("/health", "/health_generate", "/generate")]


async def test_one_healthy_server_is_enough() -> None:
    site = Site({"GET a /ready": REFUSED, "GET b /ready": httpx.Response(200)})

    assert await site.client("http://a", "http://b").health()


# --- questions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["model_info", "get_model_info"])
async def test_model_info_is_found_under_its_new_and_its_old_name(path: str) -> None:
    assert await Site({f"GET a /{path}": {"model_path": "m"}}).client().model_info() == {"model_path": "m"}


@pytest.mark.parametrize("path", ["server_info", "get_server_info"])
async def test_server_info_is_found_under_its_new_and_its_old_name(path: str) -> None:
    assert await Site({f"GET a /{path}": {"version": "0.5.23"}}).client().server_info() == {"version": "0.5.23"}


async def test_a_question_goes_to_the_first_server_that_answers() -> None:
    site = Site({"GET a /model_info": REFUSED, "GET b /model_info": {"model_path": "m"}})

    assert await site.client("http://a", "http://b").model_info() == {"model_path": "m"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (REFUSED, SGLangConnectionError),
        (httpx.Response(401, json={"error": "Unauthorized"}), SGLangAuthError),
        (httpx.Response(503), SGLangThrottledError),
        (httpx.Response(200, text="<html>"), SGLangDecodingError),
        (httpx.Response(200, json=[1]), SGLangDecodingError),
        (httpx.Response(404), SGLangNotFoundError),
    ],
)
async def test_a_question_without_an_answer_is_a_typed_error(answer: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="http://a/model_info"):
        await Site({"GET a /model_info": answer}).client().model_info()


async def test_whether_images_are_understood_is_remembered_once_known() -> None:
    site = Site({"GET a /model_info": {"has_image_understanding": True}})
    client = site.client()

    assert [await client.is_multimodal(), await client.is_multimodal()] == [True, True]
    assert len(site.asked) == 1


@pytest.mark.parametrize("answer", [REFUSED, {}, {"has_image_understanding": None}])
async def test_not_knowing_whether_images_are_understood_is_not_remembered(answer: Any) -> None:
    site = Site({"GET a /model_info": answer})
    client = site.client()

    assert await client.is_multimodal() is None
    site.answers["GET a /model_info"] = {"has_image_understanding": False}
    assert await client.is_multimodal() is False


async def test_loads_are_those_of_every_server() -> None:
    site = Site({"GET a /v1/loads": {"loads": [1]}, "GET b /v1/loads": {"loads": [2]}})

    assert await site.client("http://a", "http://b").loads() == [{"loads": [1]}, {"loads": [2]}]


# --- orders -------------------------------------------------------------------------------------------------

ORDERS: list[tuple[str, Any, Callable[[SGLangClient], Any]]] = [
    ("/pause_generation", {"mode": "retract"}, lambda client: client.pause_generation("retract")),
    ("/continue_generation", {}, lambda client: client.continue_generation()),
    ("/flush_cache", None, lambda client: client.flush_cache()),
    (
        "/update_weights_from_disk",
        {"model_path": "p", "abort_all_requests": False, "weight_version": "v1", "flush_cache": False},
        lambda client: client.update_weights_from_disk("p", weight_version="v1", flush_cache=False),
    ),
]


@pytest.mark.parametrize(("path", "body", "order"), ORDERS)
async def test_an_order_goes_to_every_server(path: str, body: Any, order: Callable[[SGLangClient], Any]) -> None:
    done = {"success": True, "message": "ok"}
    site = Site({f"POST a {path}": done, f"POST b {path}": done})

    await order(site.client("http://a", "http://b"))
    assert {f"POST a {path}", f"POST b {path}"} == set(site.asked)
    assert [body, body] == site.bodies


@pytest.mark.parametrize(("path", "body", "order"), ORDERS)
async def test_an_order_that_one_server_refuses_is_an_error(
    path: str, body: Any, order: Callable[[SGLangClient], Any]
) -> None:
    site = Site({f"POST a {path}": {"success": True}, f"POST b {path}": httpx.Response(400, text="refused here")})

    with pytest.raises(SGLangBadRequestError, match=r"http://b.* refused here"):
        await order(site.client("http://a", "http://b"))


async def test_an_order_to_a_router_says_where_to_send_it() -> None:
    with pytest.raises(SGLangNotFoundError) as raised:
        await Site({}).client().pause_generation()
    assert "routers do not forward this" in "".join(raised.value.__notes__)


async def test_weights_that_could_not_be_loaded_are_an_error() -> None:
    answer = httpx.Response(400, json={"success": False, "message": "Failed to get weights iterator: x"})
    with pytest.raises(SGLangBadRequestError, match="Failed to get weights iterator"):
        await Site({"POST a /update_weights_from_disk": answer}).client().update_weights_from_disk("x")

    with pytest.raises(SGLangDecodingError, match="not updated"):
        await Site({"POST a /update_weights_from_disk": {"success": False}}).client().update_weights_from_disk("x")


async def test_the_engines_of_this_package_take_every_order() -> None:
    engine = ScriptedEngine([Turn(ids=[7], finish="length")])
    client = SGLangClient("http://a", transport=EngineTransport(engine))

    await client.pause_generation()
    assert engine.paused
    await client.continue_generation()
    await client.flush_cache()
    assert len(await client.loads()) == 1
    assert "version" in await client.server_info()
    assert await client.server_kinds() == {"http://a": ServerKind.ENGINE}


# --- routers ------------------------------------------------------------------------------------------------

ROUTER = {"GET a /workers": {"workers": [{"url": "http://w1"}, {"url": "http://w2"}]}}
SMG = {**ROUTER, "GET a /model_info": httpx.Response(404, headers={"x-smg-error-code": "unknown_url"})}


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({}, ServerKind.ENGINE),
        (ROUTER, ServerKind.SGLANG_ROUTER),
        (SMG, ServerKind.SMG),
        ({"GET a /workers": httpx.Response(405)}, ServerKind.ENGINE),
        ({"GET a /workers": REFUSED}, ServerKind.UNKNOWN),
        ({"GET a /workers": httpx.Response(500)}, ServerKind.UNKNOWN),
    ],
)
async def test_what_stands_behind_an_address_is_found_out(answers: dict[str, Any], kind: ServerKind) -> None:
    site = Site(answers)
    client = site.client()

    assert {"http://a": kind} == await client.server_kinds()
    before = len(site.asked)
    await client.server_kinds()
    assert (len(site.asked) == before) is (kind is not ServerKind.UNKNOWN)


async def test_a_field_that_a_router_drops_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    site = Site({**SMG, "POST a /generate": reply_body([7, 8, 9])})
    client = site.client()
    request = asked(sampling_params={"max_new_tokens": 3, "logit_bias": {"2": 1.0}, "stop_regex": "x"})

    with caplog.at_level(logging.WARNING, "strands_sglang"):
        for _ in range(3):
            await client.send(request)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("strands_sglang")]
    assert [message.split(", ")[1].split(" |")[0] for message in said] == ["field=<logit_bias>", "field=<stop_regex>"]


async def test_an_ordinary_request_asks_nothing_about_routers() -> None:
    site = Site({"POST a /generate": reply_body([7, 8, 9])})

    await site.client().send(asked())
    assert site.asked == ["POST a /generate"]


@pytest.mark.parametrize(
    ("fields", "by_router", "by_smg"),
    [
        ({"return_routed_experts": True}, {"return_routed_experts"}, set()),
        ({"return_prompt_token_ids": True}, {"return_prompt_token_ids"}, set()),
        ({"extra": {"cache_salt": "s", "priority": 1}}, {"cache_salt"}, set()),
        ({"sampling_params": {"structural_tag": "t", "top_p": 0.5}}, {"structural_tag"}, {"structural_tag"}),
        ({"sampling_params": {"custom_params": {}}}, {"custom_params"}, set()),
        ({}, set(), set()),
    ],
)
def test_each_router_drops_its_own_fields(fields: dict[str, Any], by_router: set[str], by_smg: set[str]) -> None:
    request = asked(**fields)

    assert by_router == dropped_fields(ServerKind.SGLANG_ROUTER, request)
    assert by_smg == dropped_fields(ServerKind.SMG, request)
    assert set() == dropped_fields(ServerKind.ENGINE, request)
    assert may_be_dropped(request) is bool(by_router)


async def test_an_abort_behind_a_router_goes_to_every_worker() -> None:
    site = Site({**ROUTER, "POST w1 /abort_request": {}, "POST w2 /abort_request": {}})

    await site.client().abort("some-rid")
    assert {"POST w1 /abort_request", "POST w2 /abort_request"} <= set(site.asked)
    assert site.bodies.count({"rid": "some-rid"}) == 3


@pytest.mark.parametrize("answers", [{}, {"POST a /abort_request": REFUSED}, {"GET a /workers": httpx.Response(500)}])
async def test_an_abort_never_fails(answers: dict[str, Any]) -> None:
    await Site(answers).client().abort("some-rid")


@pytest.mark.parametrize(
    ("listed", "urls"),
    [
        ({"workers": [{"url": "http://a"}, {"url": "grpc://b"}, {"id": 3}]}, ["http://a"]),
        (["http://a", {"url": "https://b"}, 5], ["http://a", "https://b"]),
        ({"workers": None}, []),
        (None, []),
    ],
)
def test_workers_are_read_from_either_listing(listed: Any, urls: list[str]) -> None:
    assert urls == worker_urls(listed)


async def test_respx_drives_the_client_through_its_transport() -> None:
    with respx.mock(base_url="http://a", using=None) as router:
        route = router.post("/generate").mock(return_value=httpx.Response(200, json=reply_body([7, 8, 9])))
        client = SGLangClient("http://a", transport=httpx.MockTransport(router.async_handler))
        assert (await client.generate(PROMPT))["output_ids"] == [7, 8, 9]
    assert route.called

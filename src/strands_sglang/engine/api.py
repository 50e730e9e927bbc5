"""`NativeApi`: the routes of SGLang's native API, mapped onto a dozen methods that an engine fills in.

Owns paths, methods, the control endpoints' bodies and how a refusal becomes an answer.
Invariant: whatever is asked is answered in SGLang's shape, an unknown path and a wrong method included.
Never generates: `/generate` is handed on as it came.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from strands_sglang.engine import info
from strands_sglang.engine.answers import (
    bad_body,
    empty_answer,
    json_answer,
    json_object,
    no_route,
    refusal,
    text_answer,
)
from strands_sglang.engine.protocol import EngineRequest, EngineResponse
from strands_sglang.errors import SGLangHTTPError

PAUSE_MODES = ("abort", "retract", "in_place")
"""What becomes of the running requests: they end, go back to the queue, or freeze where they are."""

FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the "
    "operation will not be performed.)\n"
)
"""What `/flush_cache` says."""

Route = Callable[["NativeApi", EngineRequest], Awaitable[EngineResponse]]


class NativeApi(ABC):
    """An engine seen from its HTTP side; subclasses answer `/generate` and know their own state."""

    async def handle(self, request: EngineRequest) -> EngineResponse:
        """Answer one request; see `Engine`."""
        methods = ROUTES.get(request.path, {})
        route = methods.get(request.method)
        try:
            if route is None:
                raise no_route(request, known=bool(methods))
            return await route(self, request)
        except SGLangHTTPError as error:
            return refusal(error)

    @abstractmethod
    async def generate(self, body: dict[str, Any]) -> EngineResponse:
        """Answer `/generate`; a refusal is raised."""

    @abstractmethod
    def model_info(self) -> dict[str, Any]:
        """Return the body of `/model_info`."""

    @abstractmethod
    def server_info(self) -> dict[str, Any]:
        """Return the body of `/server_info`."""

    @abstractmethod
    def loads(self) -> dict[str, Any]:
        """Return the body of `/v1/loads`."""

    @abstractmethod
    async def healthy(self) -> bool:
        """Say whether a generation would get through now."""

    @abstractmethod
    def abort(self, rid: str) -> None:
        """Abort the request of exactly this id, if there is one."""

    @abstractmethod
    def abort_all(self) -> None:
        """Abort every request."""

    @abstractmethod
    async def pause(self, mode: str) -> None:
        """Stop generating; returns once nothing runs any more."""

    @abstractmethod
    def resume(self) -> None:
        """Go on generating."""

    @abstractmethod
    async def flush_cache(self) -> bool:
        """Forget cached prefixes; False while requests are held."""

    @abstractmethod
    async def set_weight_version(self, version: str) -> None:
        """Take `version` as the label of the weights from the next token on."""


async def _generate(engine: NativeApi, request: EngineRequest) -> EngineResponse:
    return await engine.generate(json_object(request))


async def _health(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    return empty_answer(status=200 if await engine.healthy() else 503)


async def _ping(_: NativeApi, __: EngineRequest) -> EngineResponse:
    return empty_answer()


async def _model_info(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    return json_answer(engine.model_info())


async def _server_info(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    return json_answer(engine.server_info())


async def _models(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    about = engine.server_info()
    return json_answer(info.models(path=about["served_model_name"], context_length=about["context_length"]))


async def _loads(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    return json_answer(engine.loads())


async def _abort(engine: NativeApi, request: EngineRequest) -> EngineResponse:
    body = json_object(request)
    if body.get("abort_all"):
        engine.abort_all()
    elif rid := body.get("rid"):
        if not isinstance(rid, str):
            raise bad_body("1 validation error:\n  rid must be a string")
        engine.abort(rid)
    return empty_answer()


async def _pause(engine: NativeApi, request: EngineRequest) -> EngineResponse:
    mode = json_object(request).get("mode", "abort")
    if mode not in PAUSE_MODES:
        raise bad_body(f"1 validation error:\n  mode must be one of {', '.join(PAUSE_MODES)}, got {mode!r}")
    await engine.pause(mode)
    return json_answer({"message": "Generation paused successfully.", "status": "ok"})


async def _resume(engine: NativeApi, request: EngineRequest) -> EngineResponse:
    json_object(request)
    engine.resume()
    return json_answer({"message": "Generation continued successfully.", "status": "ok"})


async def _flush(engine: NativeApi, _: EngineRequest) -> EngineResponse:
    if await engine.flush_cache():
        return text_answer(FLUSHED)
    return text_answer("Flush cache failed.\n", status=400)


async def _set_weight_version(engine: NativeApi, request: EngineRequest) -> EngineResponse:
    body = json_object(request)
    version = body.get("new_version")
    if not isinstance(version, str):
        raise bad_body("1 validation error:\n  new_version must be a string")
    if body.get("abort_all_requests", True):
        engine.abort_all()
    await engine.set_weight_version(version)
    message = f"Weight version updated to {version}"
    return json_answer({"success": True, "message": message, "new_version": version})


ROUTES: dict[str, dict[str, Route]] = {
    "/generate": {"POST": _generate, "PUT": _generate},
    "/health": {"GET": _health},
    "/health_generate": {"GET": _health},
    "/ping": {"GET": _ping},
    "/model_info": {"GET": _model_info},
    "/get_model_info": {"GET": _model_info},
    "/server_info": {"GET": _server_info},
    "/get_server_info": {"GET": _server_info},
    "/v1/loads": {"GET": _loads},
    "/v1/models": {"GET": _models},
    "/abort_request": {"POST": _abort},
    "/pause_generation": {"POST": _pause},
    "/continue_generation": {"POST": _resume},
    "/flush_cache": {"GET": _flush, "POST": _flush},
    "/update_weight_version": {"POST": _set_weight_version},
}


def request_id(body: dict[str, Any]) -> str:
    """Return the request's own id, or a new one."""
    rid = body.get("rid")
    return rid if isinstance(rid, str) and rid else uuid.uuid4().hex

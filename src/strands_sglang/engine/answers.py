"""The shapes in which SGLang answers: JSON, event streams, and its four kinds of refusal.

Owns the bodies, wordings excepted; `api-shape` letters are those of SGLang's own sources of error:
a value that cannot be (`{"error": {"message"}}`), a schema violation (`{"error": "..."}`), a body that cannot be read
(`{"object": "error", ...}`), and the framework's own 404 and 405 (`{"detail"}`).
Invariant: a refusal is raised as the library's own typed error whose `status` and `body` are the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from strands_sglang.engine.protocol import EngineRequest, EngineResponse
from strands_sglang.errors import SGLangBadRequestError, SGLangHTTPError, SGLangNotFoundError, SGLangThrottledError

DONE = b"data: [DONE]\n\n"

NOT_AN_OBJECT = (
    "1 validation error:\n  {'type': 'model_attributes_type', 'loc': ('body',), "
    "'msg': 'Input should be a valid dictionary or object to extract fields from'}"
)
"""What SGLang says of a body that is no JSON object, and of one whose media type is not JSON."""

MISSING = "1 validation error:\n  {'type': 'missing', 'loc': ('body',), 'msg': 'Field required', 'input': None}"
"""What SGLang says of no body."""


def dumps(value: Any) -> bytes:
    """Return `value` as SGLang's JSON: NaN and infinities become null."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def json_answer(value: Any, *, status: int = 200) -> EngineResponse:
    """Answer with `value` as JSON."""
    return EngineResponse(status=status, body=dumps(value))


def text_answer(text: str, *, status: int = 200) -> EngineResponse:
    """Answer with plain text; SGLang names no media type for it."""
    return EngineResponse(status=status, body=text.encode(), content_type=None)


def empty_answer(*, status: int = 200) -> EngineResponse:
    """Answer with a status alone: no body, no media type."""
    return EngineResponse(status=status, content_type=None)


def event(value: Any) -> bytes:
    """Return one server-sent event."""
    return b"data: " + dumps(value) + b"\n\n"


def stream_answer(events: AsyncIterator[bytes]) -> EngineResponse:
    """Answer with a stream of events."""
    return EngineResponse(body=events, content_type="text/event-stream; charset=utf-8")


def bad_value(message: str) -> SGLangBadRequestError:
    """A well-formed request that asks for something that cannot be."""
    return SGLangBadRequestError(message, status=400, body=dumps({"error": {"message": message}}).decode())


def bad_schema(message: str) -> SGLangBadRequestError:
    """A field of `sampling_params` that does not exist or has another type."""
    return SGLangBadRequestError(message, status=400, body=dumps({"error": message}).decode())


def bad_body(message: str) -> SGLangBadRequestError:
    """A body that is not the JSON object that was expected."""
    return SGLangBadRequestError(message, status=400, body=error_object(message, kind="Bad Request", code=400))


def busy(message: str) -> SGLangThrottledError:
    """A server that cannot take the request now."""
    return SGLangThrottledError(message, status=503, body=error_object(message, kind="503", code=503))


def no_route(request: EngineRequest, *, known: bool) -> SGLangNotFoundError:
    """No such path (404), or not with this method (405)."""
    status, detail = (405, "Method Not Allowed") if known else (404, "Not Found")
    message = f"{request.method} {request.path}: {detail}"
    return SGLangNotFoundError(message, status=status, body=dumps({"detail": detail}).decode())


def error_object(message: str, *, kind: str, code: int) -> str:
    """Return the OpenAI-like error body."""
    return dumps({"object": "error", "message": message, "type": kind, "param": None, "code": code}).decode()


def refusal(error: SGLangHTTPError) -> EngineResponse:
    """Answer with the error that was raised."""
    return EngineResponse(status=error.status, body=error.body.encode())


def stream_error(error: SGLangHTTPError) -> dict[str, Any]:
    """Return the event by which a stream reports a bad value; its HTTP status is already 200."""
    return {"error": {"message": str(error), "type": "invalid_request_error", "code": error.status, "retryable": False}}


def json_object(request: EngineRequest) -> dict[str, Any]:
    """Return the request's body, which must be a JSON object.

    Raises:
        SGLangBadRequestError: The media type is not JSON, or the body is no JSON object.
    """
    if not request.headers.get("content-type", "application/json").startswith("application/json"):
        raise bad_body(NOT_AN_OBJECT)
    if not request.body:
        raise bad_body(MISSING)
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise bad_body(
            f"1 validation error:\n  {{'type': 'json_invalid', 'loc': ('body',), 'msg': {str(error)!r}}}"
        ) from None
    if not isinstance(body, dict):
        raise bad_body(NOT_AN_OBJECT)
    return body

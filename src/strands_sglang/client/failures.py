"""HTTP error replies -> typed errors.

The engine has five shapes of error body and routers have more; `error_words` finds the sentence in each. The status
says what kind of error it is, and known wordings (never single words) refine it: a body that says "rate limit
exceeded" is not about the context length.

Knows no HTTP library; never raises for a body it does not understand, but quotes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from strands_sglang.errors import (
    SGLangAbortedError,
    SGLangAuthError,
    SGLangBadRequestError,
    SGLangClientError,
    SGLangContextLengthError,
    SGLangDuplicateRequestError,
    SGLangHTTPError,
    SGLangNotFoundError,
    SGLangServerError,
    SGLangThrottledError,
)

_QUOTED = 600  # characters of a body that an error message quotes
_KEPT = 4000  # characters of a body that an error keeps

# The wordings of SGLang 0.5.5 to 0.5.23 for "too long"; `prompt` and `limit` where they give the numbers.
_TOO_LONG = tuple(
    re.compile(pattern)
    for pattern in (
        r"[Ii]nput \((?P<prompt>\d+) tokens\) is longer than the model's context length \((?P<limit>\d+) tokens\)",
        r"exceeds the model's maximum context length of (?P<limit>\d+) tokens"
        r"(?:.*?(?P<prompt>\d+) tokens from the input)?",
        r"Input length \((?P<prompt>\d+) tokens\) exceeds the maximum allowed length \((?P<limit>\d+) tokens\)",
        r"prompt exceeds the KV memory budget",
        r"Multimodal prompt is too long after expanding multimodal tokens",
        r"maximum context length is (?P<limit>\d+) tokens",
    )
)
_DUPLICATE = re.compile(r"Duplicate request IDs? detected")
_ABORTED = re.compile(r"Aborted by AbortReq|^Aborted$|Abort in waiting queue|Abort before prefill")

_STATUS_NAMES = {status.phrase.lower(): status.value for status in HTTPStatus if status >= 400}
# Those of a router that say there is no one to ask just now.
_ROUTER_CODES = {
    "no_available_workers": 503,
    "admission_queue_full": 429,
    "admission_queue_timeout": 503,
    "worker_overload_protection_shed": 503,
}
_BUSY = frozenset({408, 409, 425, 429, 503})
_CANCELLED = 499
_NO_ROUTE_HINT = (
    "base_url must be the root of an SGLang server, such as http://localhost:30000 (no /v1, no path of another API)"
)


def error_from_answer(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str, rid: str | None = None
) -> SGLangClientError:
    """Return the error that an answer other than 200 means.

    Args:
        status: The HTTP status.
        headers: The answer's headers; names are looked up in lower case.
        body: The body as it came.
        url: What was asked.
        rid: The request id of the attempt.
    """
    text = body.decode("utf-8", "replace")
    words = error_words(text)
    code = headers.get("x-smg-error-code")
    said = f"{words} ({code})" if code and code not in words else words
    common: dict[str, Any] = {
        "status": status,
        "body": text[:_KEPT],
        "url": url,
        "rid": rid,
        "retry_after": _retry_after(headers.get("retry-after")),
    }
    return typed_error(status, said, common, location=headers.get("location"))


def typed_error(status: int, words: str, common: dict[str, Any], *, location: str | None = None) -> SGLangClientError:
    """Return the error of a status and the server's words; `common` are the keywords of `SGLangHTTPError`."""
    message = f"{common['url']} answered {status}: {words or 'with an empty body'}"
    if status == _CANCELLED or (status < 500 and _ABORTED.search(words)):
        return SGLangAbortedError(message, url=common["url"], rid=common["rid"])
    if status in _BUSY:
        return SGLangThrottledError(message, **common)
    if status in (401, 403):
        return SGLangAuthError(message, **common)
    if status in (404, 405):
        return SGLangNotFoundError(message, hint=_NO_ROUTE_HINT, **common)
    if status in (400, 413, 422):
        return _bad_request(message, words, common)
    if status >= 500:
        return SGLangServerError(message, **common)
    hint = f"it redirects to {location}: use that address as base_url" if location else None
    return SGLangHTTPError(message, hint=hint, **common)


def error_in_stream(told: Any, text: str, *, url: str, rid: str) -> SGLangClientError:
    """Return the error that an event of a stream is, whose HTTP status was 200.

    Args:
        told: What the event has as "error".
        text: The event.
        url: What was asked.
        rid: The request id of the attempt.
    """
    status = _told_status(told)
    common = {"status": status, "body": text[:_KEPT], "url": url, "rid": rid}
    return typed_error(status, error_words(text), common)


def _told_status(told: Any) -> int:
    """Return the status that an error object tells by its code or, as routers do, by the status's name as its type.

    Old engines tell neither, and do so of bad requests only.
    """
    if not isinstance(told, dict):
        return 400
    code, kind = told.get("code"), told.get("type")
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        code = int(code)
    if type(code) is int and 400 <= code < 600:
        return code
    if isinstance(kind, str) and (named := _STATUS_NAMES.get(kind.lower())):
        return named
    return _ROUTER_CODES.get(code, 400) if isinstance(code, str) else 400


def raise_abort_with_status(body: Any, *, url: str, rid: str) -> None:
    """Raise the error that an abort with a status is; streams and old releases send those with HTTP 200.

    What else is in such a body is not looked at: the counts of a refused request need not agree.
    """
    try:
        reason = body["meta_info"]["finish_reason"]
        aborted, status = reason["type"] == "abort", reason["status_code"]
    except (KeyError, TypeError):
        return
    if aborted and isinstance(status, int) and status >= 400:
        words = str(reason.get("message") or "")
        raise typed_error(status, words, {"status": status, "body": words, "url": url, "rid": rid})


def _bad_request(message: str, words: str, common: dict[str, Any]) -> SGLangBadRequestError:
    for wording in _TOO_LONG:
        if found := wording.search(words):
            numbers = {name: int(value) for name, value in found.groupdict().items() if value}
            return SGLangContextLengthError(
                message, prompt_tokens=numbers.get("prompt"), limit=numbers.get("limit"), **common
            )
    if _DUPLICATE.search(words):
        return SGLangDuplicateRequestError(message, **common)
    return SGLangBadRequestError(message, **common)


def error_words(text: str) -> str:
    """Return the sentence of an error body, whatever its shape."""
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _plain(text)
    return _plain(_sentence(decoded) or text)


def _sentence(decoded: Any) -> str | None:
    if isinstance(decoded, str):
        return decoded
    if not isinstance(decoded, dict):
        return None
    for key in ("error", "message", "detail"):
        value = decoded.get(key)
        if isinstance(value, dict):
            value = value.get("message") or value.get("code")
        if value:
            return value if isinstance(value, str) else orjson.dumps(value).decode()
    return None


def _plain(text: str) -> str:
    if re.match(r"\s*<(!doctype|html|head|body)\b", text, re.IGNORECASE):
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"an HTML page titled {' '.join(title[1].split())!r}" if title else "an HTML page"
    text = text.strip()
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


def _retry_after(value: str | None) -> float | None:
    """Return seconds; a date (which servers of this kind do not send) counts as not given."""
    try:
        seconds = float(value) if value else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None

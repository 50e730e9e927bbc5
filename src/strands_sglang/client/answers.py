"""A whole answer of `/generate`: the reply, or the error that it is."""

from __future__ import annotations

import orjson

from strands_sglang.errors import SGLangAbortedError, SGLangDecodingError
from strands_sglang.wire import GenerateReply, GenerateRequest

from .failures import error_from_answer, raise_abort_with_status
from .pool import Answer


def read_answer(answer: Answer, request: GenerateRequest, *, rid: str, url: str) -> GenerateReply:
    """Return the reply of an answer, or raise the error that it is."""
    if answer.status != 200:
        raise error_from_answer(answer.status, answer.headers, answer.body, url=url, rid=rid)
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        kind = answer.headers.get("content-type", "no content type")
        raise SGLangDecodingError(
            f"{url} answered 200 with {len(answer.body)} bytes of {kind} that are not JSON: {error}",
            body=answer.body[:500].decode("utf-8", "replace"),
            url=url,
            rid=rid,
            hint="is this an SGLang server, and the URL its root?",
        ) from error
    try:
        raise_abort_with_status(body, url=url, rid=rid)
    except SGLangAbortedError as aborted:
        try:  # what was sampled before it stays, where the counts agree
            return GenerateReply.from_body(body, request, rid=rid, url=url)
        except SGLangDecodingError:
            raise aborted from None
    return GenerateReply.from_body(body, request, rid=rid, url=url)

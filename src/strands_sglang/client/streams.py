"""Server-sent events -> the same body that one whole reply would have had.

Chunks are cumulative or deltas, by release, by flag, and by field. They are told apart by `completion_tokens`, which
is always the total: after every event `len(ids) == completion_tokens`, or the stream is in error. Tokens that a
release lost on the way are taken from its cumulative log-probabilities, or the stream is in error; never skipped.

Pure: it is fed bytes and gives deltas, and knows no HTTP library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from strands_sglang.errors import SGLangDecodingError, SGLangIncompleteAnswerError
from strands_sglang.wire import FinishType, GenerateReply, GenerateRequest

from .failures import error_words, raise_abort_with_status, typed_error

_DONE = b"[DONE]"
# Per-token lists of meta_info, each cumulative or delta on its own.
_PER_TOKEN = (
    "output_token_logprobs",
    "output_top_logprobs",
    "output_token_ids_logprobs",
    "output_token_sampling_mask",
    "output_token_sampling_logprobs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelta:
    """What one event of a stream added.

    Attributes:
        text: New text; a view for people, it can lag behind the ids.
        output_ids: New ids.
        output_logprobs: Their log-probabilities, or None when not asked for.
    """

    text: str
    output_ids: list[int]
    output_logprobs: list[float | None] | None


class EventReader:
    """Splits bytes into the payloads of server-sent events, wherever they are cut."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """Return the payloads that are complete with `part`."""
        lines = (self._rest + part).split(b"\n")
        self._rest = lines.pop()
        # SGLang and its routers write one data line per event, so a line is an event; comments and ids are passed by.
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


class StreamAssembly:
    """One stream being put together.

    Attributes:
        done: Whether `[DONE]` was read.
        body: The body so far, as a whole reply would have it, or None before the first event.
    """

    def __init__(self, request: GenerateRequest, *, rid: str, url: str) -> None:
        """Start with nothing read."""
        self._request, self._rid, self._url = request, rid, url
        self._ids: list[int] = []
        self._lists: dict[str, list[Any]] = {}
        self._text = ""
        self._shown = ""
        self.body: dict[str, Any] | None = None
        self.done = False

    def feed(self, payload: bytes) -> StreamDelta | None:
        """Take one event; return what it added, or None when that is nothing.

        Raises:
            SGLangClientError: The event is an error, or does not fit what came before.
        """
        if payload == _DONE:
            self.done = True
            return None
        try:
            event = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise self._error(f"an event is not JSON: {error}", payload) from error
        if not isinstance(event, dict):
            self._fail("an event is not an object", payload)
        if event.get("error"):
            raise self._told(event, payload)
        raise_abort_with_status(event, url=self._url, rid=self._rid)
        return self._take(event, payload)

    def reply(self) -> GenerateReply:
        """Return the validated reply of a stream that has ended.

        Raises:
            SGLangIncompleteAnswerError: It ended without `[DONE]`.
            SGLangDecodingError: It is not a whole reply.
        """
        if not self.done:
            raise SGLangIncompleteAnswerError(
                f"{self._url} ended the stream without [DONE] after {len(self._ids)} tokens",
                url=self._url,
                rid=self._rid,
            )
        if self.body is None:
            self._fail("it ended without any event", b"")
        return GenerateReply.from_body(self.body, self._request, rid=self._rid, url=self._url)

    @property
    def was_finished(self) -> bool:
        """Whether the generation had come to its own end: there is nothing to carry on then."""
        reason = self.body["meta_info"].get("finish_reason") if self.body is not None else None
        return isinstance(reason, dict) and reason.get("type") != FinishType.ABORT

    def partial(self) -> GenerateReply | None:
        """Return what a broken stream brought, as an aborted reply, or None when that is nothing."""
        if not self._ids or self.body is None:
            return None
        aborted = {"type": FinishType.ABORT.value, "message": "the stream broke off"}
        body = {**self.body, "meta_info": {**self.body["meta_info"], "finish_reason": aborted}}
        return GenerateReply.from_body(body, self._request, rid=self._rid, url=self._url)

    def _take(self, event: dict[str, Any], payload: bytes) -> StreamDelta | None:
        meta = event.get("meta_info")
        total = meta.get("completion_tokens") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(total, int):
            self._fail("an event has no meta_info.completion_tokens", payload)
        before = len(self._ids)
        given = _as_list(event.get("output_ids"))
        lists = {
            key: _merged(self._lists.get(key, []), _as_list(meta[key]), total) for key in _PER_TOKEN if key in meta
        }
        ids = _merged(self._ids, given, total)
        if ids is None and (entries := lists.get("output_token_logprobs")) is not None:
            ids = [entry[1] for entry in entries]
        if ids is None or None in lists.values():
            self._fail(
                f"tokens were lost: {before} came before, {len(given)} with this event, and it counts {total}", payload
            )
        if ids[:before] != self._ids:
            self._fail("an event changes ids that were already sent", payload)
        self._text = self._text_after(event, given, total)
        self._ids = ids
        self._lists = {key: entries for key, entries in lists.items() if entries is not None}
        self.body = {**event, "output_ids": ids, "meta_info": {**meta, **self._lists}}
        if "text" in event:
            self.body["text"] = self._text
        return self._delta(before)

    def _text_after(self, event: dict[str, Any], given: list[Any], total: int) -> str:
        """Return all text there is now; `given` are the event's ids, as they came."""
        text: str = event.get("text") or ""
        if len(given) == total:
            return text
        begins_with_last = bool(self._text) and text.startswith(self._text)
        if len(self._ids) + len(given) != total:
            return text if begins_with_last else self._text
        logprobs = event["meta_info"].get("output_token_logprobs")
        if logprobs is not None and len(logprobs) != total:
            return self._text + text
        # Ids are deltas here. Of the text releases differ: it is whole from 0.5.1 to 0.5.9, a delta since 0.5.10.
        return text if begins_with_last else self._text + text

    def _delta(self, before: int) -> StreamDelta | None:
        new_text = self._text[len(self._shown) :] if self._text.startswith(self._shown) else ""
        if new_text:
            self._shown = self._text
        new_ids = self._ids[before:]
        if not new_text and not new_ids:
            return None
        entries = self._lists.get("output_token_logprobs")
        logprobs = [entry[0] for entry in entries[before:]] if entries is not None else None
        return StreamDelta(text=new_text, output_ids=new_ids, output_logprobs=logprobs)

    def _told(self, event: dict[str, Any], payload: bytes) -> Exception:
        text = payload.decode("utf-8", "replace")
        error = event["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 400
        common = {"status": status, "body": text, "url": self._url, "rid": self._rid}
        return typed_error(status, error_words(text), common)

    def _error(self, what: str, payload: bytes) -> SGLangDecodingError:
        return SGLangDecodingError(
            f"stream of {self._url} to request {self._rid}: {what}",
            body=payload[:500].decode("utf-8", "replace"),
            url=self._url,
            rid=self._rid,
        )

    def _fail(self, what: str, payload: bytes) -> NoReturn:
        raise self._error(what, payload)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _merged(before: list[Any], given: list[Any], total: int) -> list[Any] | None:
    """Return all entries there are now, or None when they do not number `total`."""
    if len(given) == total:
        return given
    if len(before) + len(given) == total:
        return before + given
    # An abort of a queued request repeats its last entry.
    return before if len(before) == total else None

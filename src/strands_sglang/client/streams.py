"""Server-sent events -> the same body that one whole reply would have had.

Chunks are cumulative or deltas, by release, by flag, and by field. They are told apart by `completion_tokens`, which
is always the total: after every event `len(ids) == completion_tokens`, or the stream is in error. Tokens that a
release lost on the way are taken from its cumulative log-probabilities, or the stream is in error; never skipped.
Text has no count of its own: where nothing tells whether it is all there is or what is new, the reply has none.

Pure: it is fed bytes and gives deltas, and knows no HTTP library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import orjson

from strands_sglang.errors import SGLangAbortedError, SGLangDecodingError, SGLangIncompleteAnswerError
from strands_sglang.wire import FinishType, GenerateReply, GenerateRequest

from .failures import error_in_stream, raise_abort_with_status

_DONE = b"[DONE]"
_LOGPROBS = "output_token_logprobs"
# Per-token lists of meta_info, each cumulative or delta on its own.
_PER_TOKEN = (
    _LOGPROBS,
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


class _Text:
    """The text of a stream: each event tells all of it, or what is new.

    Repeats are common (one line break after another), so a text that begins with the last one proves nothing; one
    that does not, proves that texts are new ones. Both readings are kept until something decides.
    """

    def __init__(self) -> None:
        self._all = self._summed = ""
        self._is_new: bool | None = None
        self._guess: bool | None = None

    def take(self, text: str, *, is_new: bool | None, guess: bool | None = None) -> None:
        """Take an event's text.

        Args:
            text: As it came.
            is_new: Whether it is what is new; None where the event does not tell.
            guess: What holds unless a text contradicts it; None for no guess.
        """
        if self._is_new is None:
            self._is_new = True if is_new is None and not text.startswith(self._all) else is_new
        self._guess = guess if self._guess is None else self._guess
        self._all = text
        self._summed += text

    def repeat(self, text: str) -> None:
        """Take the text of an event that tells all of it again; it decides if it fits one of the readings."""
        if self._is_new is None and self._all != self._summed and text in (self._all, self._summed):
            self._is_new = text == self._summed

    @property
    def known(self) -> str | None:
        """All text there is, or None while that cannot be said."""
        if self._all == self._summed:
            return self._all
        is_new = self._guess if self._is_new is None else self._is_new
        return None if is_new is None else self._summed if is_new else self._all


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
        self._text = _Text()
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
            raise self.error(f"an event is not JSON: {error}", payload) from error
        if not isinstance(event, dict):
            self._fail("an event is not an object", payload)
        if event.get("error"):
            raise error_in_stream(event["error"], payload.decode("utf-8", "replace"), url=self._url, rid=self._rid)
        try:
            raise_abort_with_status(event, url=self._url, rid=self._rid)
        except SGLangAbortedError as aborted:
            return self._take_aborted(event, payload, aborted)
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

    def partial(self, message: str = "the stream broke off") -> GenerateReply | None:
        """Return what a broken stream brought, as an aborted reply, or None when that is nothing."""
        if not self._ids or self.body is None:
            return None
        aborted = {"type": FinishType.ABORT.value, "message": message}
        body = {**self.body, "meta_info": {**self.body["meta_info"], "finish_reason": aborted}}
        request = self._request
        if "prompt_token_ids" not in body:  # what carries it on brings them
            request = replace(request, return_prompt_token_ids=False)
        return GenerateReply.from_body(body, request, rid=self._rid, url=self._url)

    def _take_aborted(self, event: dict[str, Any], payload: bytes, aborted: SGLangAbortedError) -> StreamDelta | None:
        """Take what an abort with a status brings, where its counts agree; else it is an error."""
        try:
            return self._take(event, payload)
        except SGLangDecodingError:
            raise aborted from None

    def _take(self, event: dict[str, Any], payload: bytes) -> StreamDelta | None:
        """Take an event whole, or not at all."""
        meta = event.get("meta_info")
        total = meta.get("completion_tokens") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or type(total) is not int:
            self._fail("an event has no meta_info.completion_tokens", payload)
        text = event.get("text")
        if text is not None and not isinstance(text, str):
            self._fail("an event's text is not a JSON string", payload)
        before, given = len(self._ids), _as_list(event.get("output_ids"))
        lists = self._all_lists(meta, total, payload)
        ids = _merged(self._ids, given, total)
        if ids is None and _LOGPROBS in lists:
            ids = [entry[1] for entry in lists[_LOGPROBS]]
        if ids is None:
            self._lost(len(given), total, payload)
        if ids[:before] != self._ids:
            self._fail("an event changes ids that were already sent", payload)
        if not set(map(type, ids[before:])) <= {int}:
            self._fail("output_ids holds something that is not an integer", payload)
        if text is not None:
            self._take_text(text, given, meta, total)
        self._ids, self._lists = ids, lists
        self.body = {**event, "output_ids": ids, "meta_info": {**meta, **lists}}
        if text is not None:
            self.body["text"] = self._text.known
        if self.body.get("text") is None:
            self.body.pop("text", None)
        return self._delta(before)

    def _all_lists(self, meta: dict[str, Any], total: int, payload: bytes) -> dict[str, list[Any]]:
        """Return the per-token lists with an event's own; one that the event leaves out stays if no token is new."""
        lists = dict(self._lists) if total == len(self._ids) else {}
        for key in _PER_TOKEN:
            given, before = meta.get(key), self._lists.get(key, [])
            if not isinstance(given, list):
                continue
            if not given and not before and key != _LOGPROBS:
                lists[key] = []  # so a server writes what was not asked for
                continue
            merged = _merged(before, given, total)
            if merged is None:
                self._lost(len(given), total, payload)
            lists[key] = merged
        if not all(map(_is_entry, lists.get(_LOGPROBS, [])[len(self._ids) :])):
            self._fail(f"meta_info.{_LOGPROBS} holds an entry that is not [log-probability, id, text]", payload)
        return lists

    def _take_text(self, text: str, given: list[Any], meta: dict[str, Any], total: int) -> None:
        """Take the text of an event whose ids, as they came, are `given`."""
        before, logprobs = len(self._ids), meta.get(_LOGPROBS)
        if len(given) == total:  # no release sends all ids with a part of the text; of the first ones that says nothing
            self._text.take(text, is_new=False if before else None)
        elif before + len(given) != total:
            if total == before:
                self._text.repeat(text)
            else:
                self._text.take(text, is_new=False)  # only releases whose text is whole lose ids
        elif "reasoning_tokens" in meta or (isinstance(logprobs, list) and len(logprobs) != total):
            # Ids are new ones here. Releases of which one of these is true send text as they send ids.
            self._text.take(text, is_new=True)
        else:
            # All log-probabilities beside new ids, without those names: 0.5.1 to 0.5.9, whose text is whole.
            self._text.take(text, is_new=None, guess=False if isinstance(logprobs, list) else None)

    def _delta(self, before: int) -> StreamDelta | None:
        text = self._text.known or ""
        new_text = text[len(self._shown) :] if text.startswith(self._shown) else ""
        if new_text:
            self._shown = text
        new_ids = self._ids[before:]
        if not new_text and not new_ids:
            return None
        entries = self._lists.get(_LOGPROBS) if self._request.return_logprob else None
        logprobs = [entry[0] for entry in entries[before:]] if entries is not None else None
        return StreamDelta(text=new_text, output_ids=new_ids, output_logprobs=logprobs)

    def _lost(self, given: int, total: int, payload: bytes) -> NoReturn:
        self._fail(
            f"tokens were lost: {len(self._ids)} came before, {given} with this event, and it counts {total}", payload
        )

    def error(self, what: str, payload: bytes = b"") -> SGLangDecodingError:
        """Return the error that a stream of another shape is."""
        return SGLangDecodingError(
            f"stream of {self._url} to request {self._rid}: {what}",
            body=payload[:500].decode("utf-8", "replace"),
            url=self._url,
            rid=self._rid,
        )

    def _fail(self, what: str, payload: bytes) -> NoReturn:
        raise self.error(what, payload)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_entry(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and type(value[0]) in (float, int, type(None))


def _merged(before: list[Any], given: list[Any], total: int) -> list[Any] | None:
    """Return all entries there are now, or None when they do not number `total`."""
    if len(given) == total:
        return given
    if len(before) + len(given) == total:
        return before + given
    # An abort of a queued request repeats its last entry.
    return before if len(before) == total else None

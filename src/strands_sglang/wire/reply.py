"""`GenerateReply`: one reply of `/generate`, validated whole.

Of every reply `len(output_ids) == completion_tokens`, and where log-probabilities were asked for
`len(output_logprobs) == len(output_ids)`, their ids are `output_ids`, and a value the server could not give is None.
The server must have read as many prompt tokens as were sent. Weight spans cover `[0, len(output_ids))` without gaps.

Unknown fields are ignored; what is used must be there. Nothing is padded, cut or defaulted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any, NoReturn

from strands_sglang.errors import SGLangDecodingError, SGLangGenerationError

from .request import GenerateRequest

_NAN = "NaN happened"
_VALUE, _OWNER = itemgetter(0), itemgetter(1)  # of a [log-probability, id, text]


class FinishType(StrEnum):
    """How a generation ended."""

    STOP = "stop"
    """A stop token, stop string or stop expression was sampled."""
    LENGTH = "length"
    """The token budget or the context is used up."""
    ABORT = "abort"
    """The generation was ended from outside; what there is of it is a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReason:
    """How and why a generation ended.

    Attributes:
        type: Stop, length or abort.
        matched: The stop token's id, or the stop string or expression; None unless `type` is stop.
        message: The server's words about an abort, else None.
        status_code: The HTTP status that the server attaches to an abort, or None.
    """

    type: FinishType
    matched: int | str | None = None
    message: str | None = None
    status_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSpan:
    """Which weights sampled `output_ids[start:end]`.

    Attributes:
        version: The server's name of the weights.
        start: First position in `output_ids`.
        end: One past the last position.
        widened: The server named one version for the whole reply, and it was taken for every token of it; tokens
            sampled before an update in mid-generation may be older.
    """

    version: str
    start: int
    end: int
    widened: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateReply:
    """What the server sampled.

    Attributes:
        output_ids: The sampled ids, the stop token included.
        output_logprobs: One value per sampled id, None where the server gave null; None when not asked for.
        finish_reason: How the generation ended.
        text: The server's text of the ids, without the stop; a view, never the truth. None where the server has no
            tokenizer, and for a reply joined from several parts.
        prompt_tokens: How many prompt tokens the server read (images expanded), or None (aborted in the queue).
        completion_tokens: `len(output_ids)`.
        cached_tokens: How many prompt tokens came from the prefix cache, or None where the server does not say.
        weight_versions: Spans over `output_ids`; empty where the server does not say, or nothing was sampled.
        prompt_token_ids: The ids the server read, or None when not asked for.
        input_logprobs: Values of the last `len(input_logprobs)` prompt tokens, the first of them None; None when
            not asked for.
        routed_experts: Base64 of the routing rows, or None when not asked for.
        indexer_topk: Base64 of the rows of a sparse-attention indexer, for all tokens but the last; None when not asked
            for.
        sampling_mask: For each sampled token, the ids that truncation left to choose from, itself among them; None when
            not asked for.
        sampling_logprobs: For each sampled token, its log-probability among those, None where the server gave null;
            None when not asked for.
        rid: The request id of the attempt that was answered.
        url: The server that answered.
        retries: How many attempts failed before.
        resumptions: How many times the generation was carried on after an abort.
        latency: Seconds from the call to the reply, waiting and retries included.
        raw: The body as it was decoded.
    """

    output_ids: list[int]
    output_logprobs: list[float | None] | None
    finish_reason: FinishReason
    text: str | None
    prompt_tokens: int | None
    completion_tokens: int
    cached_tokens: int | None = None
    weight_versions: tuple[WeightSpan, ...] = ()
    prompt_token_ids: list[int] | None = None
    input_logprobs: list[float | None] | None = None
    routed_experts: str | None = None
    indexer_topk: str | None = None
    sampling_mask: list[list[int]] | None = None
    sampling_logprobs: list[float | None] | None = None
    rid: str = ""
    url: str = ""
    retries: int = 0
    resumptions: int = 0
    latency: float = 0.0
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_body(cls, body: Any, request: GenerateRequest, *, rid: str = "", url: str = "") -> GenerateReply:
        """Validate a decoded body against the request it answers.

        Raises:
            SGLangDecodingError: The body is not what `/generate` gives for this request.
            SGLangGenerationError: The server reports that the generation itself failed.
        """
        return _Reading(body, request, rid, url).reply()


class _Reading:
    """One body being read; every complaint names the URL and the request."""

    def __init__(self, body: Any, request: GenerateRequest, rid: str, url: str) -> None:
        self.request, self.rid, self.url, self.body = request, rid, url, body
        if not isinstance(body, dict):
            self.fail(f"it answered a JSON {_json_type(body)}, not an object")
        if "meta_info" not in body:
            self.fail("its answer has no meta_info", hint="is this an SGLang server, and the URL its root?")
        self.meta = self.take(body, "meta_info", dict)

    def reply(self) -> GenerateReply:
        finish = self.finish_reason()
        aborted = finish.type is FinishType.ABORT
        ids = self.output_ids()
        mask = self.sampling_mask(ids, aborted)
        return GenerateReply(
            output_ids=ids,
            output_logprobs=self.output_logprobs(ids, aborted),
            finish_reason=finish,
            text=self.take(self.body, "text", str, optional=True),
            prompt_tokens=self.prompt_tokens(aborted),
            completion_tokens=len(ids),
            cached_tokens=self.take(self.meta, "cached_tokens", int, optional=True),
            weight_versions=self.weight_versions(len(ids)),
            prompt_token_ids=self.prompt_token_ids(),
            input_logprobs=self.input_logprobs(aborted),
            routed_experts=self.routed_experts(ids, aborted),
            indexer_topk=self.indexer_topk(ids, aborted),
            sampling_mask=mask,
            sampling_logprobs=None if mask is None else self.sampling_logprobs(ids, mask),
            rid=self.rid,
            url=self.url,
            raw=self.body,
        )

    def finish_reason(self) -> FinishReason:
        given = self.meta.get("finish_reason")
        if not isinstance(given, dict):
            self.fail(f"meta_info.finish_reason is {given!r}: the generation has not ended")
        try:
            kind = FinishType(str(given.get("type")))
        except ValueError:
            self.fail(f"meta_info.finish_reason has the unknown type {given.get('type')!r}")
        matched = given.get("matched") if kind is FinishType.STOP else None
        if matched == _NAN:
            raise SGLangGenerationError(
                f"{self.where()}: the model produced NaN, and the server ended the generation",
                url=self.url,
                rid=self.rid,
                hint="the weights or the kernels of the server are broken; check the last weight update",
            )
        return FinishReason(
            type=kind, matched=matched, message=given.get("message"), status_code=given.get("status_code")
        )

    def output_ids(self) -> list[int]:
        ids: list[int] = self.take(self.body, "output_ids", list)
        if not set(map(type, ids)) <= {int}:
            self.fail("output_ids holds something that is not an integer")
        count = self.take(self.meta, "completion_tokens", int)
        if count != len(ids):
            self.fail(f"it answered {len(ids)} output_ids, but meta_info.completion_tokens is {count}")
        return ids

    def output_logprobs(self, ids: list[int], aborted: bool) -> list[float | None] | None:
        if not self.request.return_logprob:
            return None
        if "output_token_logprobs" not in self.meta and aborted and not ids:
            return []
        values, owners = self.logprobs("output_token_logprobs")
        if not ids and self.request.max_new_tokens == 0:
            return []  # scoring only: some releases send one value for a token that was not sampled
        if len(values) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(values)} output_token_logprobs")
        if owners != ids:
            at = next(i for i, (a, b) in enumerate(zip(ids, owners, strict=True)) if a != b)
            self.fail(f"output_ids[{at}] is {ids[at]}, but its log-probability belongs to id {owners[at]}")
        return values

    def input_logprobs(self, aborted: bool) -> list[float | None] | None:
        request = self.request
        start = request.logprob_start_len
        if not request.return_logprob or start is None or start < 0 or (aborted and not self.meta.get("prompt_tokens")):
            return None
        values, owners = self.logprobs("input_token_logprobs")
        if request.image_data:
            return values  # placeholders are expanded by the server: the positions are its own
        wanted = request.input_ids[start:]
        if len(values) != len(wanted):
            self.fail(f"it answered {len(values)} input_token_logprobs, asked for {len(wanted)} from {start}")
        if owners != list(wanted) and not _are_but_clipped(owners, wanted, max(request.input_ids)):
            self.fail("the ids of input_token_logprobs are not those of the prompt that was sent")
        return values

    def logprobs(self, key: str) -> tuple[list[float | None], list[int]]:
        """Return the values and the ids they belong to."""
        if key not in self.meta:
            self.fail(
                f"log-probabilities were asked for, but meta_info has no {key}",
                hint="a router or proxy in between may drop return_logprob",
            )
        entries: list[Any] = self.take(self.meta, key, list)
        try:
            values = list(map(_VALUE, entries))
            owners = list(map(_OWNER, entries))
        except (TypeError, IndexError, KeyError):
            self.fail(f"meta_info.{key} holds an entry that is not [log-probability, id, text]")
        kinds = set(map(type, values))
        if not kinds <= {float, type(None)}:
            if not kinds <= {float, int, type(None)}:
                self.fail(f"meta_info.{key} holds a log-probability that is not a number")
            values = [None if value is None else float(value) for value in values]
        return values, owners

    def prompt_tokens(self, aborted: bool) -> int | None:
        count: int | None = self.take(self.meta, "prompt_tokens", int, optional=aborted)
        sent = len(self.request.input_ids)
        if count is not None and count != sent and not self.request.image_data:
            self.fail(
                f"it read {count} prompt tokens, but {sent} were sent",
                hint="the server may truncate prompts: start it without --allow-auto-truncate",
            )
        return count

    def prompt_token_ids(self) -> list[int] | None:
        if not self.request.return_prompt_token_ids:
            return None
        if "prompt_token_ids" not in self.body:
            self.fail(
                "return_prompt_token_ids was asked for, but prompt_token_ids is missing",
                hint="it needs SGLang 0.5.14 or newer and no router in between that drops the field",
            )
        read: list[int] = self.take(self.body, "prompt_token_ids", list)
        if not self.request.image_data and read != list(self.request.input_ids):
            self.fail("the prompt_token_ids that it read are not the input_ids that were sent")
        return read

    def routed_experts(self, ids: list[int], aborted: bool) -> str | None:
        if not self.request.return_routed_experts:
            return None
        start = self.request.routed_experts_start_len
        return self.rows("routed_experts", len(self.request.input_ids) + len(ids) - 1 - start, aborted)

    def indexer_topk(self, ids: list[int], aborted: bool) -> str | None:
        if not self.request.return_indexer_topk:
            return None
        return self.rows("indexer_topk", len(self.request.input_ids) + len(ids) - 1, aborted)

    def rows(self, key: str, count: int, aborted: bool) -> str | None:
        """Return a base64 text of so many rows of int32."""
        rows: str | None = self.take(self.meta, key, str, optional=True)
        if rows is None and not aborted:
            flag = key.replace("_", "-")
            self.fail(
                f"return_{key} was asked for, but meta_info has no {key}",
                hint=f"start the server with --enable-return-{flag}; some routers drop the field",
            )
        if rows is None or self.request.image_data:  # with images the positions are the server's own
            return rows
        if row_bytes(rows, count) is not None:
            return rows
        if aborted:
            return None  # what carries it on asks for all rows again
        self.fail(
            f"meta_info.{key} is {len(rows)} characters, which are not base64 of {count} rows of int32",
            hint="a server older than 0.5.12 sends all rows whatever routed_experts_start_len says"
            if key == "routed_experts"
            else None,
        )

    def sampling_mask(self, ids: list[int], aborted: bool) -> list[list[int]] | None:
        if not self.request.return_sampling_mask:
            return None
        key = "output_token_sampling_mask"
        if not ids and (aborted or key not in self.meta):
            return []
        if key not in self.meta:
            self.fail(
                f"return_sampling_mask was asked for, but meta_info has no {key}",
                hint="it needs SGLang 0.5.16 or newer and no router in between that drops the field",
            )
        rows: list[list[int]] = self.take(self.meta, key, list)
        if len(rows) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(rows)} rows of {key}")
        for at, (token, row) in enumerate(zip(ids, rows, strict=True)):
            if not isinstance(row, list) or not set(map(type, row)) <= {int}:
                self.fail(f"meta_info.{key}[{at}] is not a list of ids")
            if token not in row:
                self.fail(f"output_ids[{at}] is {token}, which is not among the ids of meta_info.{key}[{at}]")
        return rows

    def sampling_logprobs(self, ids: list[int], mask: list[list[int]]) -> list[float | None]:
        key = "output_token_sampling_logprobs"
        if not ids:
            return []
        given: list[Any] = self.take(self.meta, key, list)
        if len(given) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(given)} {key}")
        values: list[float | None] = []
        for at, (token, row, value) in enumerate(zip(ids, mask, given, strict=True)):
            if isinstance(value, list):  # of all that were left, where the request asked for these
                if len(value) != len(row):
                    self.fail(f"meta_info.{key}[{at}] has {len(value)} values for {len(row)} ids")
                value = value[row.index(token)]
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                self.fail(f"meta_info.{key}[{at}] is not a number")
            values.append(None if value is None else float(value))
        return values

    def weight_versions(self, count: int) -> tuple[WeightSpan, ...]:
        spans = self.take(self.meta, "weight_versions", list, optional=True)
        if not count:
            return ()
        if not spans:
            version = self.meta.get("weight_version")
            return () if version is None else (WeightSpan(version=str(version), start=0, end=count, widened=True),)
        return tuple(self.spans(spans, count))

    def spans(self, given: Sequence[Any], count: int) -> list[WeightSpan]:
        result: list[WeightSpan] = []
        reached = 0
        for entry in given:
            try:
                version, start, end = str(entry["version"]), entry["start"], entry["end"]
                fits = start == reached and start <= end
            except (TypeError, KeyError):
                self.fail(f"meta_info.weight_versions holds {entry!r}, not a span of version, start and end")
            if not fits:
                self.fail(f"meta_info.weight_versions has a gap or an overlap at output token {reached}: {given!r}")
            # Tokens that were sampled beyond a stop are not in output_ids, but a span may count them.
            if start < count and start < end:
                result.append(WeightSpan(version=version, start=start, end=min(end, count)))
            reached = end
        if reached < count:
            self.fail(f"meta_info.weight_versions covers {reached} of {count} output tokens: {given!r}")
        return result

    def take(self, holder: dict[str, Any], key: str, kind: type, *, optional: bool = False) -> Any:
        value = holder.get(key)
        if value is None and optional:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            name = key if holder is self.body else f"meta_info.{key}"
            what = "is missing" if key not in holder else f"is {value!r:.60}, not a JSON {_JSON_NAMES[kind]}"
            self.fail(f"{name} {what}")
        return value

    def where(self) -> str:
        return f"reply of {self.url or '/generate'}" + (f" to request {self.rid}" if self.rid else "")

    def fail(self, what: str, *, hint: str | None = None) -> NoReturn:
        raise SGLangDecodingError(
            f"{self.where()}: {what}", body=repr(self.body)[:500], url=self.url, rid=self.rid, hint=hint
        )


def _are_but_clipped(told: Sequence[int], wanted: Sequence[int], highest: int) -> bool:
    """Whether ids differ only as SGLang's do: of prompts it tells the last id of the vocabulary as 0."""
    return all(theirs == ours or (theirs == 0 and ours == highest) for theirs, ours in zip(told, wanted, strict=True))


def row_bytes(rows: str, count: int) -> int | None:
    """Return the bytes of each of so many rows of int32 in a base64 text, 0 for no rows; None where they do not fit."""
    size, rest = divmod(len(rows), 4)
    size = 3 * size - rows[-2:].count("=")
    if rest or count < 0 or (not count and size):
        return None
    if not count:
        return 0
    width, rest = divmod(size, count)
    return width if width and not rest and not width % 4 else None


_JSON_NAMES = {dict: "object", list: "array", str: "string", int: "integer", float: "number", bool: "boolean"}


def _json_type(value: Any) -> str:
    return "null" if value is None else _JSON_NAMES.get(type(value), type(value).__name__)

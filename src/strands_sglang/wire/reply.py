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
from typing import Any

from strands_sglang.errors import SGLangGenerationError

from .columns import Columns, WeightSpan
from .request import GenerateRequest
from .rows import Stretches, refed_rows

_NAN = "NaN happened"


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
        weight_versions: Spans over `output_ids`; empty where the server does not say, or nothing was sampled. Of a
            generation that was carried on they leave out a part of which the server did not say.
        prompt_token_ids: The ids the server read, or None when not asked for.
        input_logprobs: Values of the last `len(input_logprobs)` prompt tokens, the first of them None; None when
            not asked for.
        routed_experts: Base64 of the routing rows, or None when not asked for, or when an abort that left nothing of
            the budget brought none.
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
        retractions: How many times the server put it back into its queue and prefilled its tokens again; None where it
            does not say.
        routed_experts_refed: Positions `(start, end)` whose routing rows are of a later prefill by other weights than
            those that sampled; see `rows`.
        indexer_topk_refed: The same of the indexer's rows.
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
    retractions: int | None = None
    routed_experts_refed: Stretches = ()
    indexer_topk_refed: Stretches = ()
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


class _Reading(Columns):
    """One body being read."""

    def reply(self) -> GenerateReply:
        finish = self.finish_reason()
        aborted = finish.type is FinishType.ABORT
        ids = self.output_ids()
        mask = self.sampling_mask(ids, aborted)
        spans = self.weight_versions(len(ids))
        routed, topk = self.routed_experts(ids, aborted), self.indexer_topk(ids, aborted)
        return GenerateReply(
            output_ids=ids,
            output_logprobs=self.output_logprobs(ids, aborted),
            finish_reason=finish,
            text=self.take(self.body, "text", str, optional=True),
            prompt_tokens=self.prompt_tokens(aborted),
            completion_tokens=len(ids),
            cached_tokens=self.take(self.meta, "cached_tokens", int, optional=True),
            weight_versions=spans,
            prompt_token_ids=self.prompt_token_ids(),
            input_logprobs=self.input_logprobs(aborted),
            routed_experts=routed,
            indexer_topk=topk,
            sampling_mask=mask,
            sampling_logprobs=None if mask is None else self.sampling_logprobs(ids, mask),
            retractions=self.take(self.meta, "num_retractions", int, optional=True),
            routed_experts_refed=()
            if routed is None
            else self.refed(spans, len(ids), self.request.routed_experts_start_len),
            indexer_topk_refed=() if topk is None else self.refed(spans, len(ids), 0),
            rid=self.rid,
            url=self.url,
            raw=self.body,
        )

    def refed(self, spans: Sequence[WeightSpan], sampled: int, start: int) -> Stretches:
        retractions = self.take(self.meta, "num_retractions", int, optional=True)
        return refed_rows(spans, retractions, start=start, prompt=len(self.request.input_ids), sampled=sampled)

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

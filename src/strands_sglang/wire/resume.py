"""Carrying an aborted generation on from its own tokens.

The next request is the prompt followed by what was sampled, with what is left of the budget; the joined reply is one
turn: its ids, log-probabilities, spans and routing rows are those of the parts, in order, each with the values it was
sampled with. `len(joined.output_ids) == sum(len(part.output_ids))`.

Nothing is sampled twice or recomputed. What a stop string would have matched across the seam is not found: the server
looks at the tokens of one request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .columns import WeightSpan
from .prompt import PromptIds
from .reply import FinishReason, FinishType, GenerateReply
from .request import GenerateRequest
from .rows import Stretches, joined_rows, refed_by_resumption

T = TypeVar("T")

# Lists of meta_info with an entry for each sampled token.
_PER_TOKEN = (
    "output_token_logprobs",
    "output_top_logprobs",
    "output_token_ids_logprobs",
    "output_token_sampling_mask",
    "output_token_sampling_logprobs",
)

# Lists of meta_info with an entry for each prompt token from where they were asked for; those of a continuation begin
# with the same and go on with the tokens of the part before.
_OF_THE_PROMPT = ("input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs")
# What is laid out by the request that it answers.
_OF_ONE_REQUEST = ("hidden_states",)


def resume_request(request: GenerateRequest, partial: GenerateReply) -> GenerateRequest | None:
    """Return the request that carries `partial` on, or None when the budget is used up.

    Args:
        request: The request as the caller made it.
        partial: Everything sampled for it so far.
    """
    done = len(partial.output_ids)
    if not done:
        return request
    sampling = dict(request.sampling_params)
    budget = request.max_new_tokens
    if budget is not None:
        if done >= budget:
            return None
        sampling["max_new_tokens"] = budget - done
    if sampling.get("min_new_tokens"):
        sampling["min_new_tokens"] = max(0, sampling["min_new_tokens"] - done)
    prompt: PromptIds = request.prompt.extended(partial.output_ids)
    # With images the positions are the server's own, and the rows of two parts cannot be put together.
    has_rows = partial.routed_experts is not None and not request.image_data
    return replace(
        request,
        input_ids=prompt,
        sampling_params=sampling,
        logprob_start_len=None if partial.input_logprobs is not None else request.logprob_start_len,
        # The last sampled token of a part was never fed to the model: its row is the first one of the next part.
        routed_experts_start_len=len(prompt) - 1 if has_rows else request.routed_experts_start_len,
    )


def join_replies(request: GenerateRequest, first: GenerateReply, second: GenerateReply) -> GenerateReply:
    """Return one reply to `request` from a partial one and the one that carried it on."""
    if not first.output_ids:
        return second
    if not second.output_ids and second.finish_reason.type is FinishType.ABORT:
        return _ended(first, second.finish_reason)  # aborted again before anything was sampled
    offset = len(first.output_ids)
    ids = first.output_ids + second.output_ids
    experts, topk = _joined_experts(request, first, second), _joined_topk(request, first, second)
    # A continuation that asked for the prompt's values gets those of the first part's tokens on top.
    inputs = first.input_logprobs
    if inputs is None and second.input_logprobs is not None:
        inputs = second.input_logprobs[: len(second.input_logprobs) - offset]
    read = second.prompt_token_ids
    spans = _join_spans(first.weight_versions, second.weight_versions, offset)
    return replace(
        second,
        output_ids=ids,
        output_logprobs=_join_lists(first.output_logprobs, second.output_logprobs),
        text=None,
        prompt_tokens=_known(first.prompt_tokens, second.prompt_tokens, offset),
        completion_tokens=len(ids),
        cached_tokens=first.cached_tokens if first.cached_tokens is not None else second.cached_tokens,
        weight_versions=spans,
        prompt_token_ids=None if read is None else read[: len(read) - offset],
        input_logprobs=inputs,
        routed_experts=experts.payload,
        routed_experts_refed=experts.refed,
        indexer_topk=topk.payload,
        indexer_topk_refed=topk.refed,
        sampling_mask=_join_lists(first.sampling_mask, second.sampling_mask),
        sampling_logprobs=_join_lists(first.sampling_logprobs, second.sampling_logprobs),
        retractions=_sum(first.retractions, second.retractions),
        raw=_join_raw(first, second, ids, spans, {"routed_experts": experts.payload, "indexer_topk": topk.payload}),
    )


def ended_by_budget(partial: GenerateReply) -> GenerateReply:
    """Return a part whose abort came when nothing of the budget or the context was left: nothing of it is missing."""
    return _ended(partial, FinishReason(type=FinishType.LENGTH))


def _ended(reply: GenerateReply, finish: FinishReason) -> GenerateReply:
    told: dict[str, Any] = {"type": finish.type.value}
    told |= {"length": len(reply.output_ids)} if finish.type is FinishType.LENGTH else {"message": finish.message}
    meta = {**reply.raw.get("meta_info", {}), "finish_reason": told}
    return replace(reply, finish_reason=finish, raw={**reply.raw, "meta_info": meta})


def _join_lists(first: list[T] | None, second: list[T] | None) -> list[T] | None:
    return None if first is None or second is None else first + second


def _sum(first: int | None, second: int | None) -> int | None:
    """Add what is told; a part that tells nothing leaves a sum of 0 open."""
    known = (first or 0) + (second or 0)
    return known if known or (first is not None and second is not None) else None


def _known(first: int | None, second: int | None, offset: int) -> int | None:
    if first is not None:
        return first
    return None if second is None else second - offset


def _join_spans(first: tuple[WeightSpan, ...], second: tuple[WeightSpan, ...], offset: int) -> tuple[WeightSpan, ...]:
    moved = [replace(span, start=span.start + offset, end=span.end + offset) for span in second]
    # Across a part of which nothing was told no span goes on.
    touching = bool(first and moved) and first[-1].end == moved[0].start
    if touching and (first[-1].version, first[-1].widened) == (moved[0].version, moved[0].widened):
        seam = replace(first[-1], end=moved[0].end)
        return (*first[:-1], seam, *moved[1:])
    return (*first, *moved)


@dataclass(frozen=True, slots=True)
class _Rows:
    """One kind of rows of a reply of two parts."""

    payload: str | None
    refed: Stretches


def _joined_experts(request: GenerateRequest, first: GenerateReply, second: GenerateReply) -> _Rows:
    """Join the routing rows: the continuation was asked for its own, or for all where the part before has none."""
    start, seam = request.routed_experts_start_len, _seam(request, first)
    head, tail = None if request.image_data else first.routed_experts, second.routed_experts
    if head is None or tail is None:
        return _Rows(tail, () if tail is None else _refed(first, second, second.routed_experts_refed, start, seam))
    payload = joined_rows(
        *(head, tail),
        head_rows=seam - start,
        tail_rows=len(second.output_ids),
        skipped=0,
        url=second.url,
        rid=second.rid,
    )
    return _Rows(payload, first.routed_experts_refed + second.routed_experts_refed)


def _joined_topk(request: GenerateRequest, first: GenerateReply, second: GenerateReply) -> _Rows:
    """Join the indexer's rows, which a continuation brings for the tokens of the part before, too."""
    seam = _seam(request, first)
    head, tail = None if request.image_data else first.indexer_topk, second.indexer_topk
    if head is None or tail is None:
        return _Rows(tail, () if tail is None else _refed(first, second, second.indexer_topk_refed, 0, seam))
    payload = joined_rows(
        *(head, tail),
        head_rows=seam,
        tail_rows=seam + len(second.output_ids),
        skipped=seam,
        url=second.url,
        rid=second.rid,
    )
    own = tuple((max(start, seam), end) for start, end in second.indexer_topk_refed if end > seam)
    return _Rows(payload, first.indexer_topk_refed + own)


def _seam(request: GenerateRequest, first: GenerateReply) -> int:
    """Return the position of the last token of a part, which the continuation feeds first."""
    return len(request.input_ids) + len(first.output_ids) - 1


def _refed(first: GenerateReply, second: GenerateReply, own: Stretches, start: int, seam: int) -> Stretches:
    """Return what a continuation fed again that brings the rows of the part before, beside what it refed itself."""
    again = refed_by_resumption(
        first.weight_versions, second.weight_versions, start=start, seam=seam, sampled=len(first.output_ids)
    )
    return again + tuple((max(begin, seam), end) for begin, end in own if end > seam) if again else own


def _join_raw(
    first: GenerateReply,
    second: GenerateReply,
    ids: list[int],
    spans: tuple[WeightSpan, ...],
    rows: dict[str, str | None],
) -> dict[str, Any]:
    """Return the body that the server would have sent for the whole; what cannot be put together is left out."""
    before, after = first.raw.get("meta_info", {}), second.raw.get("meta_info", {})
    offset = len(first.output_ids)
    meta = {
        **after,
        "completion_tokens": len(ids),
        **{name: given for name, given in rows.items() if given is not None},
    }
    for key in _PER_TOKEN:
        if key in before and key in after:
            meta[key] = before[key] + after[key]
    if "weight_versions" in after:
        meta["weight_versions"] = [{"version": s.version, "start": s.start, "end": s.end} for s in spans]
    for key in ("output_token_logprobs_length", "output_token_sampling_mask_length"):
        if key in after:
            meta[key] = len(ids)
    for key in ("prompt_tokens", "cached_tokens"):
        if before.get(key) is not None:
            meta[key] = before[key]
    for key in _OF_THE_PROMPT:
        if before.get(key) is not None:
            meta[key] = before[key]
        elif isinstance(after.get(key), list):
            meta[key] = after[key][: max(0, len(after[key]) - offset)]
    if (retractions := _sum(first.retractions, second.retractions)) is not None:
        meta["num_retractions"] = retractions
    for key in _OF_ONE_REQUEST:
        meta.pop(key, None)
    joined = {**second.raw, "output_ids": ids, "meta_info": meta}
    if (read := second.prompt_token_ids) is not None:
        joined["prompt_token_ids"] = read[: len(read) - offset]
    before_text, after_text = first.raw.get("text"), joined.pop("text", None)
    if before_text is not None and after_text is not None:
        joined["text"] = before_text + after_text
    return joined

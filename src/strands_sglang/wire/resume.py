"""Carrying an aborted generation on from its own tokens.

The next request is the prompt followed by what was sampled, with what is left of the budget; the joined reply is one
turn: its ids, log-probabilities, spans and routing rows are those of the parts, in order, each with the values it was
sampled with. `len(joined.output_ids) == sum(len(part.output_ids))`.

Nothing is sampled twice or recomputed. What a stop string would have matched across the seam is not found: the server
looks at the tokens of one request.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import Any, TypeVar

from strands_sglang.errors import SGLangDecodingError

from .columns import WeightSpan, row_bytes
from .prompt import PromptIds
from .reply import GenerateReply
from .request import GenerateRequest

T = TypeVar("T")

# Lists of meta_info with an entry for each sampled token.
_PER_TOKEN = (
    "output_token_logprobs",
    "output_top_logprobs",
    "output_token_ids_logprobs",
    "output_token_sampling_mask",
    "output_token_sampling_logprobs",
)


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
    has_rows = partial.routed_experts is not None
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
    offset = len(first.output_ids)
    ids = first.output_ids + second.output_ids
    rows = _join_rows(request, first, second)
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
        routed_experts=rows,
        sampling_mask=_join_lists(first.sampling_mask, second.sampling_mask),
        sampling_logprobs=_join_lists(first.sampling_logprobs, second.sampling_logprobs),
        retractions=_sum(first.retractions, second.retractions),
        raw=_join_raw(first.raw, second.raw, ids, spans, rows),
    )


def _join_lists(first: list[T] | None, second: list[T] | None) -> list[T] | None:
    return None if first is None or second is None else first + second


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first + (second or 0)


def _known(first: int | None, second: int | None, offset: int) -> int | None:
    if first is not None:
        return first
    return None if second is None else second - offset


def _join_spans(first: tuple[WeightSpan, ...], second: tuple[WeightSpan, ...], offset: int) -> tuple[WeightSpan, ...]:
    moved = [replace(span, start=span.start + offset, end=span.end + offset) for span in second]
    if first and moved and (first[-1].version, first[-1].widened) == (moved[0].version, moved[0].widened):
        seam = replace(first[-1], end=moved[0].end)
        return (*first[:-1], seam, *moved[1:])
    return (*first, *moved)


def _join_rows(request: GenerateRequest, first: GenerateReply, second: GenerateReply) -> str | None:
    """Return the rows of both parts; those of the second alone where it was asked for all of them."""
    if first.routed_experts is None or second.routed_experts is None:
        return second.routed_experts
    head_rows = len(request.input_ids) + len(first.output_ids) - 1 - request.routed_experts_start_len
    widths = {
        width
        for part, count in ((first, head_rows), (second, len(second.output_ids)))
        if (width := row_bytes(part.routed_experts or "", count)) != 0
    }
    if None in widths or len(widths) > 1:
        raise SGLangDecodingError(
            f"routed_experts of the continuation does not go on from that of the part before it: "
            f"{len(second.routed_experts)} characters for {len(second.output_ids)} rows after "
            f"{len(first.routed_experts)} characters for {head_rows}",
            url=second.url,
            rid=second.rid,
            hint="do all servers behind this address run the same model?",
        )
    try:
        head, tail = (base64.b64decode(rows, validate=True) for rows in (first.routed_experts, second.routed_experts))
    except (binascii.Error, ValueError) as error:
        raise SGLangDecodingError(f"routed_experts is not base64: {error}", url=second.url, rid=second.rid) from error
    return base64.b64encode(head + tail).decode()


def _join_raw(
    first: dict[str, Any], second: dict[str, Any], ids: list[int], spans: tuple[WeightSpan, ...], rows: str | None
) -> dict[str, Any]:
    before, after = first.get("meta_info", {}), second.get("meta_info", {})
    meta = {**after, "completion_tokens": len(ids)}
    for key in _PER_TOKEN:
        if key in before and key in after:
            meta[key] = before[key] + after[key]
    if rows is not None:
        meta["routed_experts"] = rows
    if "weight_versions" in after:
        meta["weight_versions"] = [{"version": s.version, "start": s.start, "end": s.end} for s in spans]
    for key in ("output_token_logprobs_length", "output_token_sampling_mask_length"):
        if key in after:
            meta[key] = len(ids)
    for key in ("prompt_tokens", "cached_tokens", "input_token_logprobs"):
        if before.get(key) is not None:
            meta[key] = before[key]
    joined = {**second, "output_ids": ids, "meta_info": meta}
    if "text" in first and "text" in second:
        joined["text"] = first["text"] + second["text"]
    return joined

"""What is kept of a sampled turn beside its tokens; docs/record.md lists the keys.

Facts are JSON values. What the server did not tell is left out, never filled in.
"""

from __future__ import annotations

from typing import Any

from strands_sglang.rollout import LogprobKind, SamplingSupport
from strands_sglang.tool_parsers import ParsedTurn, ToolParseResult
from strands_sglang.wire import GenerateReply, GenerateRequest

# SGLang's own: the temperature of a request that names none, and the one below which it samples greedily.
_DEFAULT_TEMPERATURE = 1.0
_GREEDY_BELOW = 1e-6


def sampled_facts(
    request: GenerateRequest, reply: GenerateReply, parsed: ParsedTurn, *, carried: int = 0
) -> dict[str, Any]:
    """Return the facts of a sampled segment.

    Args:
        request: What was sent.
        reply: What came back.
        parsed: What the answer says.
        carried: How many ids of an earlier, truncated turn were read together with this turn's: spans of calls count
            from this turn's first id, and are negative before it.
    """
    temperature = request.sampling_params.get("temperature")
    temperature = _DEFAULT_TEMPERATURE if temperature is None else temperature
    kind = _logprob_kind(temperature, request.sampling_params.get("top_k"))
    facts: dict[str, Any] = {
        "finish_reason": reply.finish_reason.type.value,
        "matched": reply.finish_reason.matched,
        "sampling_params": dict(request.sampling_params),
        "temperature": temperature,
        "logprob_kind": None if reply.output_logprobs is None else kind,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "latency": reply.latency,
        "rid": reply.rid,
        "retries": reply.retries or None,
        "resumptions": reply.resumptions or None,
        "retractions": reply.retractions or None,
        "weights_widened": [[span.start, span.end] for span in reply.weight_versions if span.widened] or None,
        "routed_experts": reply.routed_experts,
        "routed_experts_refed": [list(stretch) for stretch in reply.routed_experts_refed] or None,
        "routed_experts_start_len": None if reply.routed_experts is None else request.routed_experts_start_len,
        "indexer_topk": reply.indexer_topk,
        "indexer_topk_refed": [list(stretch) for stretch in reply.indexer_topk_refed] or None,
        "sampling_mask": support.to_fact() if (support := _support(reply)) is not None else None,
        "calls": [_call_facts(call, carried) for call in parsed.calls] or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _logprob_kind(temperature: float, top_k: object) -> str | None:
    """Return of which distribution the values are; None where the request alone does not decide it.

    With top_k 1 SGLang leaves the temperature out while every request of its batch is greedy, and divides by it in a
    batch with others. Nothing in the reply tells which batch a token was sampled in.
    """
    if temperature < _GREEDY_BELOW:
        return LogprobKind.UNTEMPERED.value
    return None if top_k == 1 and temperature != 1 else LogprobKind.TEMPERED.value


def _support(reply: GenerateReply) -> SamplingSupport | None:
    """Return what truncation left to choose from, where the server was asked for it."""
    return None if reply.sampling_mask is None else SamplingSupport.of(reply.sampling_mask, reply.sampling_logprobs)


def _call_facts(call: ToolParseResult, carried: int) -> dict[str, Any]:
    """Return what a trainer may want to know of a call attempt."""
    span = None if call.token_span is None else [place - carried for place in call.token_span]
    facts: dict[str, Any] = {"name": call.name, "id": call.id, "status": str(call.status), "token_span": span}
    if call.is_error and call.reason:
        facts["reason"] = call.reason
    return facts

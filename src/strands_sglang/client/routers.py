"""What stands behind an address, and what it is known to drop.

SGLang's routers parse a request into a structure of their own and write it anew: fields they do not know are gone,
without an error, and a dropped constraint changes what is sampled. Which router drops what was found by sending the
fields through `sglang-router` 0.3.2 and `smg` 1.13.0.

Only names; asks nothing itself.
"""

from __future__ import annotations

from enum import StrEnum

from strands_sglang.wire import GenerateRequest


class ServerKind(StrEnum):
    """What answers at an address."""

    ENGINE = "engine"
    """An SGLang server itself."""
    SGLANG_ROUTER = "sglang-router"
    """The router of the SGLang tree, up to 0.3."""
    SMG = "smg"
    """The gateway that followed it."""
    UNKNOWN = "unknown"
    """It gave no answer that tells."""


_SAMPLING_DROPPED_BY_BOTH = frozenset(
    {"stop_regex", "logit_bias", "structural_tag", "spaces_between_special_tokens", "stream_interval"}
)
_TOP_DROPPED = {
    ServerKind.SGLANG_ROUTER: frozenset(
        {
            "return_routed_experts",
            "routed_experts_start_len",
            "return_prompt_token_ids",
            "cache_salt",
            "routed_dp_rank",
            "session_id",
            "return_flat_raw_top_logprobs",
            "return_sampling_mask",
            "max_thinking_tokens",
        }
    ),
    ServerKind.SMG: frozenset[str](),
}
_SAMPLING_DROPPED = {
    ServerKind.SGLANG_ROUTER: _SAMPLING_DROPPED_BY_BOTH | {"custom_params"},
    ServerKind.SMG: _SAMPLING_DROPPED_BY_BOTH,
}


def dropped_fields(kind: ServerKind, request: GenerateRequest) -> frozenset[str]:
    """Return the fields of a request that do not reach the engine."""
    top = _TOP_DROPPED.get(kind, frozenset()) & _top_level(request)
    return top | (_SAMPLING_DROPPED.get(kind, frozenset()) & request.sampling_params.keys())


def may_be_dropped(request: GenerateRequest) -> bool:
    """Whether any known router drops any field of a request."""
    return bool(dropped_fields(ServerKind.SGLANG_ROUTER, request))


def _top_level(request: GenerateRequest) -> set[str]:
    names = set(request.extra)
    if request.return_routed_experts:
        names |= {"return_routed_experts"}
    if request.return_sampling_mask:
        names |= {"return_sampling_mask"}
    if request.return_prompt_token_ids:
        names |= {"return_prompt_token_ids"}
    return names

"""The options of `SGLangModel`, validated when it is made and whenever they change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast

from strands_sglang.errors import SGLangConfigError, nearest


class SGLangConfig(TypedDict, total=False):
    """Options of `SGLangModel`.

    Attributes:
        sampling_params: SGLang's sampling parameters, sent as they are. Without `max_new_tokens` a turn may use what
            is left of the context (SGLang's own default would cut it after 128 tokens).
        return_logprob: Ask for the logprob of each sampled token. Default True.
        return_prompt_logprob: Ask for the logprobs of prompt tokens too, which costs the server logits for each.
            Default False.
        return_routed_experts: Ask for the expert rows of a MoE model. Default False.
        return_indexer_topk: Ask for the positions that a sparse-attention indexer chose, of all tokens in every turn.
            Default False.
        return_sampling_mask: Ask for the tokens that top-k, top-p and min-p left to choose from, for each sampled token
            (`Segment.support`). The server takes it with a `top_k` up to its `--sampling-mask-max-tokens`. Default
            False.
        enable_thinking: Passed to the chat template when it is not None.
        chat_template_kwargs: Further arguments of the chat template, the same for every rendering.
        on_divergence: "branch" (default): when the host's history is no longer the recorded one, go on from the
            deepest turn that still agrees. "raise": raise `HistoryDivergedError`.
        control_tokens: What to do with the text of control tokens in content: "escape" (default) encodes it as plain
            text, "raise" refuses it, "allow" lets it become control tokens.
        continue_truncated: When the agent is invoked again without a prompt after an answer was cut by length, sample
            on from its tokens instead of closing it. What is new, and the calls of the whole answer, become the next
            message. Default False.
        check_template: Check the chat template with a few conversation shapes, once per tokenizer and process, and
            refuse one that would drift. Default True.
        stream: Send text to the agent as it is sampled. The record is the same; it costs events and bytes. Default
            False.
        context_window_limit: Tokens that a prompt must stay below; a longer one is refused before it is sent. Default:
            what the server says, for which each client asks once. Given, it also makes `count_tokens` exact.
    """

    sampling_params: dict[str, Any] | None
    return_logprob: bool | None
    return_prompt_logprob: bool | None
    return_routed_experts: bool | None
    return_indexer_topk: bool | None
    return_sampling_mask: bool | None
    enable_thinking: bool | None
    chat_template_kwargs: dict[str, Any] | None
    on_divergence: Literal["branch", "raise"]
    control_tokens: Literal["escape", "raise", "allow"]
    continue_truncated: bool
    check_template: bool
    stream: bool
    context_window_limit: int | None


_CHOICES = {"on_divergence": ("branch", "raise"), "control_tokens": ("escape", "raise", "allow")}
_FLAGS = (
    "return_logprob",
    "return_prompt_logprob",
    "return_routed_experts",
    "return_indexer_topk",
    "return_sampling_mask",
    "enable_thinking",
    "continue_truncated",
    "check_template",
    "stream",
)
_MAPPINGS = ("sampling_params", "chat_template_kwargs")


def validated(options: Mapping[str, Any]) -> SGLangConfig:
    """Return the options as a config.

    Raises:
        SGLangConfigError: If an option does not exist, or its value cannot be meant.
    """
    known = SGLangConfig.__annotations__.keys()
    for name, value in options.items():
        if name not in known:
            raise SGLangConfigError(
                f"unknown option {name!r}{nearest(name, known)}; SGLangModel takes: {', '.join(sorted(known))}"
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            raise SGLangConfigError(f"{name} must be one of {', '.join(_CHOICES[name])}, got {value!r}")
        if name in _FLAGS and value not in (None, True, False):
            raise SGLangConfigError(f"{name} must be True, False or None, got {value!r}")
        if name in _MAPPINGS and not (value is None or isinstance(value, Mapping)):
            raise SGLangConfigError(f"{name} must be a mapping or None, got {type(value).__name__}")
        if name == "chat_template_kwargs":
            _check_json(value)
        if name == "context_window_limit" and not (value is None or (type(value) is int and value > 0)):
            raise SGLangConfigError(f"context_window_limit must be a positive integer or None, got {value!r}")
    return cast(SGLangConfig, dict(options))


def _check_json(template_kwargs: Any) -> None:
    """Refuse arguments of a template that are no JSON values: renderings are shared by their value."""
    try:
        json.dumps(template_kwargs, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise SGLangConfigError(f"chat_template_kwargs must hold JSON values under names: {error}") from error

"""One `/generate` request, read: the prompt, the sampling, and what the answer shall contain.

Owns the order of SGLang's checks: the body's types, the schema of `sampling_params`, then values and lengths.
Invariant: what `read` returns can be generated; what cannot is refused before it reaches the scheduler.
Fields that SGLang ignores are ignored here too; those it would honour and this engine does not are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from strands_sglang.engine.answers import bad_body, bad_value
from strands_sglang.engine.info import RESERVED
from strands_sglang.engine.tiny.sampling import Sampling, check_ranges, read_types

UNSUPPORTED = (
    "input_embeds",
    "session_params",
    "custom_logit_processor",
    "lora_path",
    "return_hidden_states",
    "return_sampling_mask",
    "return_indexer_topk",
    "max_thinking_tokens",
    "watermark",
    "return_flat_raw_top_logprobs",
    "return_flat_raw_output_top_logprobs",
)
"""Fields that would change the answer of an SGLang server, and that this engine refuses when they are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that can be generated.

    Attributes:
        prompt: The prompt ids, never empty, all in the vocabulary.
        sampling: How to sample; its budget is what still fits the context.
        stream: Answer with chunks.
        return_logprob: Give log-probabilities of the output.
        logprob_start_len: First prompt position with a log-probability; the prompt's length for none.
        top_logprobs_num: Alternatives per position.
        token_ids_logprob: Tokens whose log-probabilities are wanted at every position, or None.
        return_text_in_logprobs: Fill the text of each triple.
        return_prompt_token_ids: Give the prompt back.
        namespace: Requests share cached prefixes within one.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int
    top_logprobs_num: int = 0
    token_ids_logprob: tuple[int, ...] | None = None
    return_text_in_logprobs: bool = False
    return_prompt_token_ids: bool = False
    namespace: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a model can take."""

    context: int
    vocabulary: int
    encode: Callable[[str], list[int]]


def read_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with its types checked and `sampling_params` replaced by the fields that were given.

    Raises:
        SGLangBadRequestError: A field has another type, or `sampling_params` is against its schema.
    """
    for name, kinds in _TYPES.items():
        value = body.get(name, _DEFAULTS.get(name))
        if type(value) not in kinds:
            raise bad_body(
                f"1 validation error:\n  {{'type': 'type_error', 'loc': ('body', '{name}'), 'input': {value!r}}}"
            )
    _check_ids("input_ids", body.get("input_ids") or [])
    _check_ids("token_ids_logprob", body.get("token_ids_logprob") or [])
    params = body.get("sampling_params")
    return {**body, "sampling_params": read_types({} if params is None else params)}


def _check_ids(name: str, ids: list[Any]) -> None:
    if any(type(each) is not int for each in ids) and not all(isinstance(each, list) for each in ids):
        raise bad_body(
            f"1 validation error:\n  {{'type': 'int_type', 'loc': ('body', '{name}'), "
            "'msg': 'Input should be a valid integer'}"
        )


_DEFAULTS: dict[str, Any] = {
    "stream": False,
    "return_text_in_logprobs": False,
    "return_prompt_token_ids": False,
}
_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "input_ids": (list, _NONE),
    "text": (str, list, _NONE),
    "rid": (str, list, _NONE),
    "sampling_params": (dict, _NONE),
    "stream": (bool,),
    "return_logprob": (bool, list, _NONE),
    "logprob_start_len": (int, list, _NONE),
    "top_logprobs_num": (int, list, _NONE),
    "token_ids_logprob": (list, _NONE),
    "return_text_in_logprobs": (bool,),
    "return_prompt_token_ids": (bool,),
    "extra_key": (str, list, _NONE),
    "cache_salt": (str, list, _NONE),
}


def read(body: dict[str, Any], limits: Limits) -> Ask:
    """Return the request of a body that `read_body` has seen.

    Raises:
        SGLangBadRequestError: A value is out of range, the prompt does not fit, or something is not supported.
    """
    prompt = _prompt(body, limits)
    _refuse_unsupported(body)
    given = body["sampling_params"]
    _check_context(len(prompt), given.get("max_new_tokens"), limits.context)
    tokens = _wanted_tokens(body, limits.vocabulary)
    sampling = check_ranges(given, vocabulary=limits.vocabulary)
    logprob = bool(body.get("return_logprob"))
    return Ask(
        prompt=tuple(prompt),
        sampling=_within_context(sampling, len(prompt), limits.context),
        stream=body.get("stream", False),
        return_logprob=logprob,
        logprob_start_len=_start(body, len(prompt)) if logprob else len(prompt),
        top_logprobs_num=(body.get("top_logprobs_num") or 0) if logprob else 0,
        token_ids_logprob=tokens if logprob else None,
        return_text_in_logprobs=body.get("return_text_in_logprobs", False),
        return_prompt_token_ids=body.get("return_prompt_token_ids", False),
        namespace=(body.get("extra_key") or "", body.get("cache_salt") or ""),
    )


def _prompt(body: dict[str, Any], limits: Limits) -> list[int]:
    text, ids = body.get("text"), body.get("input_ids")
    if text is None and ids is None:
        raise bad_value("Either text, input_ids or input_embeds should be provided.")
    prompt = ids if ids is not None else limits.encode(text) if isinstance(text, str) else text
    if not prompt:
        raise bad_value("input_ids cannot be empty.")
    if not isinstance(prompt[0], int):
        raise bad_value("Batches are not supported by this engine: send one request per prompt.")
    for each in prompt:
        if not 0 <= each < limits.vocabulary:
            raise bad_value(
                f"input_ids contains out-of-vocabulary token id {each}; valid range is [0, {limits.vocabulary})."
            )
    return prompt


def _refuse_unsupported(body: dict[str, Any]) -> None:
    for name in UNSUPPORTED:
        if body.get(name):
            raise bad_value(f"{name} is not supported by this engine.")
    listed = [name for name, kinds in _TYPES.items() if list in kinds and isinstance(body.get(name), list)]
    for name in listed:
        if name not in ("input_ids", "token_ids_logprob"):
            raise bad_value(f"A list for {name} is not supported by this engine: send one request per prompt.")


def _check_context(prompt: int, budget: int | None, context: int) -> None:
    if prompt >= context:
        raise bad_value(f"The input ({prompt} tokens) is longer than the model's context length ({context} tokens).")
    if budget is not None and prompt + budget > context:
        raise bad_value(
            f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested a "
            f"total of {prompt + budget} tokens: {prompt} tokens from the input messages and {budget} tokens for the "
            "completion. Please reduce the number of tokens in the input messages or the completion to fit within the "
            "limit."
        )


def check_admission(ask: Ask, limits: Limits) -> None:
    """Check what SGLang's scheduler checks, after the request was accepted: a stream has begun by then.

    Raises:
        SGLangBadRequestError: The prompt leaves no room to generate, or its log-probabilities begin behind its end.
    """
    prompt, most, start = len(ask.prompt), limits.context - RESERVED, ask.logprob_start_len
    if prompt >= most:
        raise bad_value(
            f"Input length ({prompt} tokens) exceeds the maximum allowed length ({most} tokens). Use a shorter input "
            "or enable --allow-auto-truncate."
        )
    if start > prompt:
        raise bad_value(
            f"req.logprob_start_len={start} is higher than the number of input tokens "
            f"len(req.origin_input_ids)={prompt}. Please use a smaller logprob_start_len."
        )


def _within_context(sampling: Sampling, prompt: int, context: int) -> Sampling:
    room = max(0, context - prompt - 2)
    budget = room if sampling.max_new_tokens is None else min(sampling.max_new_tokens, room)
    return replace(sampling, max_new_tokens=budget, min_new_tokens=min(sampling.min_new_tokens, budget))


def _start(body: dict[str, Any], prompt: int) -> int:
    start = body.get("logprob_start_len")
    if start is None or start == -1:
        return prompt
    if start < 0:
        raise bad_value(f"logprob_start_len must be -1 or at least 0, got {start}.")
    return int(start)


def _wanted_tokens(body: dict[str, Any], vocabulary: int) -> tuple[int, ...] | None:
    wanted = body.get("token_ids_logprob")
    for token in wanted or ():
        if not isinstance(token, int):
            raise bad_value("token_ids_logprob must be a flat list of integers.")
        if not 0 <= token < vocabulary:
            raise bad_value(
                f"token_ids_logprob contains out-of-vocabulary token id {token}; valid range is [0, {vocabulary})."
            )
    return tuple(wanted) if wanted else None

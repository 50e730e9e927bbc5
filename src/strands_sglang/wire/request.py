"""`GenerateRequest`: one prompt for `/generate`.

It refuses what would harm a server or cannot be meant, before anything is sent: an empty prompt, a log-probability
start below -1 (an engine dies of it), several prompts or samples in one request. A field whose value is None is left
out of the body: servers answer an explicit null with an error.

It carries no request id and no stream flag: those belong to an attempt, and the client gives them to `body`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from strands_sglang.errors import SGLangConfigError

from .prompt import PromptIds

_OWN_FIELDS = frozenset(
    {
        "input_ids",
        "sampling_params",
        "return_logprob",
        "logprob_start_len",
        "return_prompt_token_ids",
        "return_routed_experts",
        "routed_experts_start_len",
        "return_indexer_topk",
        "return_sampling_mask",
        "image_data",
    }
)
_FIELDS_OF_AN_ATTEMPT = frozenset({"rid", "stream"})
_OTHER_INPUTS = frozenset({"text", "input_embeds"})
_GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")
# `max_new_tokens: null` means "up to the context"; it is the one null that says something.
_NULLABLE_SAMPLING = frozenset({"max_new_tokens"})
_DEFAULT_MAX_NEW_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One prompt and how to continue it.

    Attributes:
        input_ids: The whole prompt. A `PromptIds` spares encoding it again.
        sampling_params: SGLang's sampling parameters, as they are.
        return_logprob: Ask for the log-probability of every sampled token.
        logprob_start_len: First prompt position whose log-probabilities are wanted, 0 to the prompt's length; None
            or -1 for none. The value at the start itself is always None.
        return_prompt_token_ids: Ask the server for the ids it read; they are compared with `input_ids`.
        return_routed_experts: Ask for the experts that each token was routed to (mixture-of-experts models).
        routed_experts_start_len: First absolute position of the routing rows.
        return_indexer_topk: Ask for the positions that a sparse-attention indexer chose for each token; always those of
            the whole sequence.
        return_sampling_mask: Ask for the tokens that top-k, top-p and min-p left to choose from, for each sampled
            token. The server takes it with a `top_k` from 1 to its `--sampling-mask-max-tokens`.
        image_data: Images, in the order of their placeholders; empty for none.
        extra: Further top-level fields of `/generate`, such as `lora_path` or `priority`.
        conversation_id: What the turns of one conversation have in common; keeps them on one worker. Not sent in
            the body. None: every request goes anywhere.
    """

    input_ids: Sequence[int]
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    return_logprob: bool = True
    logprob_start_len: int | None = None
    return_prompt_token_ids: bool = False
    return_routed_experts: bool = False
    routed_experts_start_len: int = 0
    return_indexer_topk: bool = False
    return_sampling_mask: bool = False
    image_data: Sequence[Any] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        length = len(self.input_ids)
        if not length:
            raise SGLangConfigError("input_ids is empty: /generate needs at least one token")
        if self.logprob_start_len is not None and not -1 <= self.logprob_start_len <= length:
            raise SGLangConfigError(
                f"logprob_start_len must be between -1 and the prompt's length {length}, got {self.logprob_start_len}"
            )
        if not 0 <= self.routed_experts_start_len <= length:
            raise SGLangConfigError(
                f"routed_experts_start_len must be between 0 and the prompt's length {length}, "
                f"got {self.routed_experts_start_len}"
            )
        if self.sampling_params.get("n") not in (None, 1):
            raise SGLangConfigError("sampling_params['n'] must be 1: send one request per sample")
        self._check_extra()

    def _check_extra(self) -> None:
        if own := sorted(_OWN_FIELDS & self.extra.keys()):
            raise SGLangConfigError(f"{own[0]} is a field of GenerateRequest of its own, not one of `extra`")
        if theirs := sorted(_FIELDS_OF_AN_ATTEMPT & self.extra.keys()):
            raise SGLangConfigError(f"{theirs[0]} is chosen by the client for each attempt and cannot be given")
        if other := sorted(_OTHER_INPUTS & self.extra.keys()):
            raise SGLangConfigError(f"{other[0]} cannot be sent beside input_ids: this library sends ids only")

    @property
    def max_new_tokens(self) -> int | None:
        """The token budget: as given, SGLang's own default when not given, None for "up to the context"."""
        budget: int | None = self.sampling_params.get("max_new_tokens", _DEFAULT_MAX_NEW_TOKENS)
        return budget

    @property
    def is_constrained(self) -> bool:
        """Whether the answer must follow a grammar, which the server begins with each request."""
        return any(self.sampling_params.get(name) for name in _GRAMMARS)

    @property
    def prompt(self) -> PromptIds:
        """The prompt with its JSON; encodes `input_ids` unless they are a `PromptIds` already."""
        return self.input_ids if isinstance(self.input_ids, PromptIds) else PromptIds.once(self.input_ids)

    def encoded(self) -> GenerateRequest:
        """Return this request with its prompt encoded, so that every attempt can use the encoding."""
        return self if isinstance(self.input_ids, PromptIds) else replace(self, input_ids=self.prompt)

    def payload(self) -> dict[str, Any]:
        """Return the body as a plain dict, without request id and stream flag."""
        return {"input_ids": list(self.input_ids), **self._fields()}

    def body(self, *, rid: str, stream: bool = False) -> bytes:
        """Encode the body of one attempt.

        Raises:
            SGLangConfigError: A field cannot be written as JSON, or an id is not an integer of 0 or more.
        """
        fields = {"rid": rid, **self._fields()}
        if stream:
            fields["stream"] = True
        try:
            rest = orjson.dumps(fields)
        except TypeError as error:
            raise SGLangConfigError(f"the request cannot be written as JSON: {error}") from error
        if b"null" in rest:
            _check_finite(fields, "the request")
        return b"".join((b'{"input_ids":[', *self.prompt.json, b"],", rest[1:]))

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "sampling_params": {
                key: value
                for key, value in self.sampling_params.items()
                if value is not None or key in _NULLABLE_SAMPLING
            },
            "return_logprob": self.return_logprob,
        }
        if self.logprob_start_len is not None and self.return_logprob:
            fields["logprob_start_len"] = self.logprob_start_len
        if self.return_prompt_token_ids:
            fields["return_prompt_token_ids"] = True
        if self.return_routed_experts:
            fields["return_routed_experts"] = True
            if self.routed_experts_start_len:
                fields["routed_experts_start_len"] = self.routed_experts_start_len
        if self.return_indexer_topk:
            fields["return_indexer_topk"] = True
        if self.return_sampling_mask:
            fields["return_sampling_mask"] = True
        if self.image_data:
            fields["image_data"] = list(self.image_data)
        fields.update((key, value) for key, value in self.extra.items() if value is not None)
        return fields


def _check_finite(value: Any, place: str) -> None:
    """Refuse NaN and infinities, which JSON does not have: they would be sent as null."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SGLangConfigError(
            f"{place} is {value}, which JSON cannot hold", hint="to ban a token, give a large number"
        )
    if isinstance(value, Mapping):
        for name, item in value.items():
            _check_finite(item, f"{place}[{name!r}]" if place != "the request" else str(name))
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            _check_finite(item, f"{place}[{at}]")

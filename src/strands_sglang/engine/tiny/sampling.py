"""`sampling_params`: what `/generate` takes there, its types, its ranges, and what this engine refuses.

Owns the table of fields. Invariant: a field is honoured, refused in SGLang's words, or refused as not supported;
none is dropped. The wordings are those of SGLang's schema gate (types, unknown fields) and of its own checks (ranges).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.engine.answers import bad_schema, bad_value

WHOLE_VOCABULARY = 1 << 30
"""`top_k` when it does not cut."""

MOST_STOPS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample one sequence.

    Attributes:
        max_new_tokens: The budget; None: up to the context.
        temperature: Divides the logits; below 1e-6 the most likely token is taken.
        top_p: Keep the likeliest tokens that reach this probability together.
        top_k: Keep this many of the likeliest tokens; 1 is greedy.
        min_p: Keep tokens that are at least this likely, relative to the likeliest.
        frequency_penalty: Taken off a token's logit once per time it was sampled.
        presence_penalty: Taken off the logit of every token that was sampled.
        repetition_penalty: Shrinks the logits of tokens that were sampled; 1 does nothing.
        min_new_tokens: So many tokens before a stop token may be sampled.
        stop: Texts that end the sequence.
        stop_regex: Patterns that end the sequence.
        stop_token_ids: Tokens that end the sequence, besides the model's own.
        ignore_eos: Go on through the model's and the request's stop tokens.
        skip_special_tokens: Leave special tokens out of `text`.
        no_stop_trim: Leave what ended the sequence in `text`.
        stream_interval: Tokens per streamed chunk; 0 is the server's default, one.
        logit_bias: Added to the logits of these tokens.
        sampling_seed: Makes the draw a function of the request; None: of the engine's seed and the order of arrival.
    """

    max_new_tokens: int | None = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = WHOLE_VOCABULARY
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_regex: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    stream_interval: int = 1
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    sampling_seed: int | None = None

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken; log-probabilities are then those of temperature 1."""
        return self.temperature < 1e-6 or self.top_k == 1

    @property
    def truncates(self) -> bool:
        """Whether top-k, top-p or min-p cut the support."""
        return self.top_p < 1 or self.top_k < WHOLE_VOCABULARY or self.min_p > 0

    @property
    def penalises(self) -> bool:
        """Whether earlier tokens change the logits."""
        return self.frequency_penalty != 0 or self.presence_penalty != 0 or self.repetition_penalty != 1


def _wrong_type(value: Any, expected: str) -> Exception:
    return bad_schema(f"invalid type: {_shown(value)}, expected {expected}")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case str():
            return f'string "{value}"'
    return "sequence" if isinstance(value, list) else "map"


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong_type(value, "i64")


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _wrong_type(value, "f64")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong_type(value, "a boolean")


def _text(value: Any, expected: str = "a string") -> str:
    if isinstance(value, str):
        return value
    raise _wrong_type(value, expected)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(_text(each) for each in value)
    return (_text(value, "a value or an array of values for StringOrList"),)


def _wholes(value: Any) -> frozenset[int]:
    if not isinstance(value, list):
        raise _wrong_type(value, "a sequence")
    return frozenset(_whole(each) for each in value)


def _biases(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise _wrong_type(value, "a map")
    return {key: _number(bias) for key, bias in value.items()}


FIELDS: dict[str, Callable[[Any], Any]] = {
    "max_new_tokens": _whole,
    "stop": _texts,
    "stop_token_ids": _wholes,
    "stop_regex": _texts,
    "temperature": _number,
    "top_p": _number,
    "top_k": _whole,
    "min_p": _number,
    "frequency_penalty": _number,
    "presence_penalty": _number,
    "repetition_penalty": _number,
    "min_new_tokens": _whole,
    "n": _whole,
    "json_schema": _text,
    "regex": _text,
    "ebnf": _text,
    "structural_tag": _text,
    "ignore_eos": _flag,
    "skip_special_tokens": _flag,
    "spaces_between_special_tokens": _flag,
    "no_stop_trim": _flag,
    "stream_interval": _whole,
    "logit_bias": _biases,
    "sampling_seed": _whole,
    "custom_params": lambda value: value,  # read by custom logit processors alone, which are refused
    "beam_width": _whole,
    "watermark": lambda value: value,
    "choice": lambda value: value,
}
"""Every field there is, in the order in which SGLang lists them, with the reader of its value."""

GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")


def read_types(params: Any) -> dict[str, Any]:
    """Return the fields that were given, checked for their types; null counts as not given, except for the budget.

    Raises:
        SGLangBadRequestError: A field is unknown or has another type.
    """
    if not isinstance(params, dict):
        raise _wrong_type(params, "struct SamplingParams")
    for name in params:
        if name not in FIELDS:
            known = ", ".join(f"`{each}`" for each in FIELDS)
            raise bad_schema(f"unknown field `{name}`, expected one of {known}")
    fields = {name: FIELDS[name](value) for name, value in params.items() if value is not None}
    return fields if params.get("max_new_tokens", 0) is not None else {**fields, "max_new_tokens": None}


def check_ranges(given: dict[str, Any], *, vocabulary: int) -> Sampling:
    """Return the sampling of fields whose types are right.

    Raises:
        SGLangBadRequestError: A value is out of its range, or asks for what this engine does not do.
    """
    _refuse_unsupported(given)
    names = Sampling.__dataclass_fields__
    fields = {name: value for name, value in given.items() if name in names}
    if fields.get("top_k") == -1:
        fields["top_k"] = WHOLE_VOCABULARY
    _check_numbers(fields)
    _check_lengths(fields)
    _check_stops(fields)
    fields["logit_bias"] = _bias_by_token(fields.get("logit_bias", {}), vocabulary)
    return Sampling(**fields)


def _refuse_unsupported(given: dict[str, Any]) -> None:
    if any(given.get(name) for name in GRAMMARS):
        raise bad_value(
            "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not supported by this engine"
        )
    for name in ("n", "beam_width"):
        if given.get(name, 1) > 1:
            raise bad_value(f"{name}={given[name]} is not supported by this engine: send one request per sample")
    for name in ("watermark", "choice"):
        if given.get(name):
            raise bad_value(f"{name} is not supported by this engine")


_RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("temperature", lambda x: math.isfinite(x) and x >= 0, "temperature must be a non-negative finite number, got {}."),
    ("top_p", lambda x: 0 < x <= 1, "top_p must be in (0, 1], got {}."),
    ("min_p", lambda x: 0 <= x <= 1, "min_p must be in [0, 1], got {}."),
    ("top_k", lambda x: x >= 1, "top_k must be -1 (disable) or at least 1, got {}."),
    ("frequency_penalty", lambda x: -2 <= x <= 2, "frequency_penalty must be in [-2, 2], got {}."),
    ("presence_penalty", lambda x: -2 <= x <= 2, "presence_penalty must be in [-2, 2], got {}."),
    (
        "repetition_penalty",
        lambda x: 0 < x <= 2,
        "repetition_penalty must be in (0, 2] (1.0 = no penalty), got {}.",
    ),
)


def _check_numbers(fields: dict[str, Any]) -> None:
    for name, allowed, message in _RANGES:
        if name in fields and not allowed(fields[name]):
            raise bad_value(message.format(fields[name]))


def _check_lengths(fields: dict[str, Any]) -> None:
    least, most = fields.get("min_new_tokens", 0), fields.get("max_new_tokens", 128)
    if least < 0:
        raise bad_value(f"min_new_tokens must be in [0, max_new_tokens], got {least}.")
    if most is not None and most < 0:
        raise bad_value(f"max_new_tokens must be at least 0, got {most}.")
    if most is not None and least > most:
        raise bad_value(f"min_new_tokens must be in [0, max_new_tokens({most})], got {least}.")


def _check_stops(fields: dict[str, Any]) -> None:
    for name, called in (("stop", "stop strings"), ("stop_regex", "stop_regex patterns")):
        count = len(fields.get(name, ()))
        if count > MOST_STOPS:
            raise bad_value(f"at most {MOST_STOPS} {called} are allowed, got {count}")
    for pattern in fields.get("stop_regex", ()):
        try:
            re.compile(pattern)
        except re.error as error:
            raise bad_value(f"invalid stop_regex {pattern!r}: {error}") from None


def _bias_by_token(biases: Mapping[str, float], vocabulary: int) -> dict[int, float]:
    try:
        by_token = {int(key): bias for key, bias in biases.items()}
    except ValueError as error:
        raise bad_value(str(error)) from None
    for token in by_token:
        if not 0 <= token < vocabulary:
            raise bad_value(f"logit_bias must has keys in [0, {vocabulary - 1}], got {token}.")
    return by_token

"""Options of exporters: their values are checked against the types that their fields declare, and read from text.

One mechanism for every exporter, also one written elsewhere: what a field's annotation says (and `Exporter.choices`) is
what the option can be. An annotation that is none of the usual ones is not checked.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from strands_sglang.errors import SGLangConfigError
from strands_sglang.rollout.values import shown

_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    str: "text",
    type(None): "none",
}
_CALLABLE = get_origin(Callable[[], None])


def check_options(exporter: Any) -> None:
    """Refuse values of options that cannot be meant.

    Args:
        exporter: The exporter; it has its options.

    Raises:
        SGLangConfigError: If a value is none of those that its option takes; the message lists these.
    """
    cls: Any = type(exporter)
    kinds = _kinds(cls)
    for option, choices in exporter.choices.items():
        kinds = {**kinds, option: (Literal[choices],)}
    for option, allowed in kinds.items():
        given = getattr(exporter, option)
        if not any(_fits(given, kind) for kind in allowed):
            raise _refused(exporter.name, option, given, allowed)


def option_of_text(cls: Any, option: str, text: str) -> Any:
    """Return the value that a text means for an option, such as a command line gives.

    Args:
        cls: The exporter's class.
        option: The option's name; one that there is not gets the text as it is.
        text: "true" and "false", a number, a JSON list of names or one name, "null" for none, or plain text, as the
            option takes.

    Raises:
        SGLangConfigError: If the option does not take what the text says.
    """
    choices = cls.choices.get(option) if hasattr(cls, "choices") else None
    allowed = (str,) if choices is not None else _kinds(cls).get(option)
    if allowed is None:
        return text
    value = text.lower() == "true" if bool in allowed and text.lower() in ("true", "false") else _json(text)
    if any(_fits(value, kind) for kind in allowed if kind is not str):
        return value
    if str in allowed:
        return value if isinstance(value, str) and text.startswith('"') else text
    if any(get_origin(kind) is tuple for kind in allowed) and not isinstance(value, list | dict):
        return (text,)
    raise _refused(cls.name, option, text, allowed)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return text


@functools.cache
def _kinds(cls: Any) -> Mapping[str, tuple[Any, ...]]:
    """Return the types that each option can have, for those whose annotation says it."""
    if not dataclasses.is_dataclass(cls):
        return {}
    try:
        hints = get_type_hints(cls)
    except (AttributeError, NameError, TypeError):  # an annotation that is not there at run time
        return {}
    found = {field.name: _parts(hints.get(field.name)) for field in dataclasses.fields(cls) if field.init}
    return {name: parts for name, parts in found.items() if all(map(_is_known, parts))}


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_known(kind: Any) -> bool:
    return kind in _WORDS or kind == tuple[str, ...] or get_origin(kind) in (Literal, _CALLABLE)


def _fits(value: Any, kind: Any) -> bool:
    """Say whether a value is of a kind."""
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    return callable(value) if get_origin(kind) is _CALLABLE else isinstance(value, kind)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def _refused(name: str, option: str, given: Any, allowed: tuple[Any, ...]) -> SGLangConfigError:
    words = ", ".join(word for kind in allowed for word in _words(kind))
    return SGLangConfigError(f"{name}: {option}={shown(given)}; it can be {words}")


def _words(kind: Any) -> list[str]:
    """Return what an option of a kind can be."""
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    if get_origin(kind) is tuple:
        return ["a list of names"]
    return ["a function of token ids (decode=tokenizer.decode)"] if get_origin(kind) is _CALLABLE else [_WORDS[kind]]

"""Calls whose body is JSON: an object with a name and an object of arguments.

Owns `JSONShape`, what such an object looks like in a format, and `read_object`, which turns one JSON value into
the outcome of an attempt. The members are exactly the format's own: no other spelling is accepted, none may
be missing, and one that the format does not have is an error rather than lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.tool_parsers.reading.strict_json import JSONRead
from strands_sglang.tool_parsers.result import ToolParseStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class JSONShape:
    """The members of a call object.

    Attributes:
        name: The member that holds the tool's name.
        arguments: The member that holds the arguments.
        id: The member that holds the model's own id, or None.
        also: Members that may be there, with the only value each may have.
    """

    name: str = "name"
    arguments: str = "arguments"
    id: str | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        members = [f'"{self.name}": string', f'"{self.arguments}": object']
        return "{" + ", ".join(members) + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """What a body says, apart from where it stands."""

    status: ToolParseStatus = ToolParseStatus.OK
    name: str | None = None
    input: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    native_id: str | None = None


def read_object(read: JSONRead, shape: JSONShape) -> CallOutcome:
    """Return the call that a JSON value is in this shape, or what is wrong with it."""
    if read.status is not ToolParseStatus.OK:
        return CallOutcome(status=read.status, reason=read.reason)
    value = read.value
    if not isinstance(value, dict):
        return CallOutcome(status=ToolParseStatus.MALFORMED, reason=f"the body must be one JSON object {shape}")
    name, native_id = value.get(shape.name), value.get(shape.id) if shape.id else None
    if not isinstance(name, str) or not name:
        return CallOutcome(
            status=ToolParseStatus.MISSING_NAME, reason=f'"{shape.name}" must be the name of a tool, as a string'
        )
    wrong = _wrong_member(value, shape)
    if wrong:
        return CallOutcome(status=ToolParseStatus.MALFORMED, name=name, reason=wrong)
    return _with_arguments(name, value.get(shape.arguments), f'"{shape.arguments}"', native_id)


def arguments_of(name: str, read: JSONRead, *, native_id: str | None = None) -> CallOutcome:
    """Return the call of `name` with these arguments, which must be an object."""
    if read.status is not ToolParseStatus.OK:
        return CallOutcome(status=read.status, name=name, reason=read.reason, native_id=native_id)
    return _with_arguments(name, read.value, "the arguments", native_id)


def _with_arguments(name: str, value: Any, label: str, native_id: str | None) -> CallOutcome:
    if not isinstance(value, dict):
        reason = f"{label} must be a JSON object; for a tool without parameters it is {{}}"
        return CallOutcome(status=ToolParseStatus.INVALID_ARGUMENTS, name=name, reason=reason, native_id=native_id)
    return CallOutcome(name=name, input=value, native_id=native_id)


def _wrong_member(value: Mapping[str, Any], shape: JSONShape) -> str:
    for member, content in value.items():
        if member in (shape.name, shape.arguments):
            continue
        if member == shape.id:
            if not isinstance(content, str):
                return f'"{member}" must be a string'
        elif member not in shape.also or shape.also[member] != content:
            return f"the member {member!r} does not belong in a call; it is {shape}"
    return ""

"""How records are written as JSON values, and read again.

What was written is read back exactly or refused: a saved record names its format and version, a file of an older
version passes through `Format.upgraders`, and every complaint names the place within the record. Nothing is repaired,
guessed or skipped. Numbers that JSON does not have (NaN, infinities) are neither written nor read. What is written as
text ends with the checksum of its values, so that no changed digit passes for another token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, Self, TypeVar, overload

from strands_sglang.errors import RecordError, RecordFormatError

from .checksum import checksum
from .segment import Segment, SegmentKind
from .values import identity, json_name, kind_name, member, name_of, number, plain_object, shown, whole

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V")

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the fields of one version into those of the next."""

_REQUIRED: Any = object()
_CHECKSUM = "crc32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The name and version of a kind of record.

    Attributes:
        name: What `format` says in a saved record, such as "strands-sglang/rollout".
        version: The version that this release writes.
        upgraders: For each older version that can still be read, how it becomes the next one.
    """

    name: str
    version: int
    upgraders: Mapping[int, Upgrade] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """What to call a record of this format in a sentence."""
        return self.name.rpartition("/")[2]

    @property
    def oldest(self) -> int:
        """The oldest version that can be read."""
        return min(self.upgraders, default=self.version)

    def header(self) -> dict[str, Any]:
        """Return the fields with which a saved record begins."""
        return {"format": self.name, "version": self.version}

    def dumps(self, saved: Mapping[str, Any]) -> str:
        """Write a record as one line of JSON, the checksum of its values at its end.

        Raises:
            RecordError: If it cannot be written, as a thread with a small stack may find of a deep one.
        """
        try:
            text = json.dumps({**saved, _CHECKSUM: checksum(saved)}, separators=(",", ":"), allow_nan=False)
        except (RecursionError, TypeError, ValueError) as error:
            raise RecordError(f"the {self.noun} cannot be written as JSON: {error}") from error
        return text

    def loads(self, text: str | bytes) -> Any:
        """Read JSON, no object of which has a key twice.

        Raises:
            RecordFormatError: If it is not JSON.
        """
        try:
            return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
        except (RecursionError, ValueError) as error:
            raise RecordFormatError(f"not a saved {self.noun}: {error}") from error

    def open(self, saved: object) -> Fields:
        """Return the fields of a saved record, brought up to this release's version, to be read one by one.

        Raises:
            RecordFormatError: If it is of another format or of an unknown version.
        """
        if not isinstance(saved, Mapping) or saved.get("format") != self.name:
            given = saved.get("format") if isinstance(saved, Mapping) else saved
            raise RecordFormatError(f"not a saved {self.noun}: expected format {self.name!r}, found {shown(given)}")
        version, content = saved.get("version"), dict(saved)
        if type(version) is not int or not self.oldest <= version <= self.version:
            readable = str(self.version) if self.oldest == self.version else f"{self.oldest} to {self.version}"
            raise RecordFormatError(f"{self.noun} version {shown(version)} is unknown; this release reads {readable}")
        is_intact = self._is_intact(content)
        content.pop(_CHECKSUM, None)
        for older in range(version, self.version):
            content = self.upgraders[older](content)
        fields = Fields(content, self.noun, "", is_intact=is_intact)
        fields.skip("format", "version")
        return fields

    def _is_intact(self, saved: Mapping[str, Any]) -> bool:
        """Whether a record holds the values that were written, as far as it says which those are."""
        if _CHECKSUM not in saved:
            return True
        rest = {name: value for name, value in saved.items() if name != _CHECKSUM}
        try:
            return bool(saved[_CHECKSUM] == checksum(rest))
        except RecursionError as error:  # called from deep within a program
            raise RecordFormatError(f"not a saved {self.noun}: {error}") from error
        except TypeError:  # no JSON values; what reads them says which
            return False


class Fields:
    """The fields of one saved object, read one by one; every complaint names the place."""

    def __init__(self, saved: object, noun: str, place: str, *, is_intact: bool = True) -> None:
        """Begin to read.

        Args:
            saved: The saved object.
            noun: What kind of record it is a part of.
            place: Where it stands in it, such as "turns[3].prompt"; "" for the record itself.
            is_intact: Whether its checksum is that of its values. `close` tells: what says the place of the damage
                comes first.
        """
        self._is_intact = is_intact
        self.noun = noun
        self.place = place
        if not isinstance(saved, Mapping):
            self.fail(None, f"is {json_name(saved)}, not an object")
        self._left = dict(saved)
        for name in self._left:
            self.checked(name_of, name, place or "the record")

    def take(self, key: str, *kinds: type, default: Any = _REQUIRED) -> Any:
        """Return a field of one of the given types, or its default where it is not there."""
        if key not in self._left:
            if default is _REQUIRED:
                self.fail(key, "is missing")
            return default
        value = self._left.pop(key)
        if kinds and type(value) not in kinds:
            wanted = " or ".join(kind_name(kind) for kind in kinds)
            self.fail(key, f"is {json_name(value)}, not {wanted}")
        if type(value) is int and float not in kinds:
            self.checked(whole, value, self.place_of(key))
        return value

    def take_value(self, key: str, read: Callable[[Any, str], V], *, default: Any = _REQUIRED) -> V:
        """Return a field as one of the functions of `values.py` reads it."""
        return self.checked(read, self.take(key, default=default), self.place_of(key))

    def checked(self, read: Callable[[Any, str], V], value: Any, place: str) -> V:
        """Return a value as one of the functions of `values.py` reads it."""
        try:
            return read(value, place)
        except RecordError as error:
            raise RecordFormatError(f"damaged {self.noun}: {error}", place=place) from error

    def take_list(self, key: str, *kinds: type, default: Any = _REQUIRED) -> Any:
        """Return a list whose entries are all of the given types."""
        values = self.take(key, list, default=default)
        if values and not set(map(type, values)) <= set(kinds):
            at = next(at for at, value in enumerate(values) if type(value) not in kinds)
            wanted = " or ".join(kind_name(kind) for kind in kinds)
            self.fail(f"{key}[{at}]", f"is {json_name(values[at])}, not {wanted}")
        return values

    def take_member(self, key: str, enum: type[E]) -> E:
        """Return the member of an enum that a string names."""
        return enum(self.take_value(key, lambda value, place: member(value, enum, place)))

    @overload
    def take_number(self, key: str, *, optional: Literal[False]) -> float: ...

    @overload
    def take_number(self, key: str, *, optional: bool = True) -> float | None: ...

    def take_number(self, key: str, *, optional: bool = True) -> float | None:
        """Return a finite number as a float, or None where null may stand for it."""
        value = self.take(key, float, int, *([type(None)] if optional else []))
        return None if value is None else self.checked(number, value, self.place_of(key))

    @property
    def names(self) -> list[str]:
        """The names of the fields that were not read yet."""
        return list(self._left)

    def inner(self, key: str) -> Fields:
        """Return the fields of an object within."""
        return Fields(self.take(key), self.noun, self.place_of(key))

    def skip(self, *keys: str) -> None:
        """Take note of fields that were read before."""
        for key in keys:
            self._left.pop(key, None)

    def close(self) -> None:
        """Refuse what was not read: it would be lost; of a whole record also what was changed since it was written."""
        if self._left:
            self.fail(next(iter(self._left)), "is not a field of this version")
        if not self._is_intact:
            self.fail(
                None,
                "is not what was written: its checksum is wrong, so a value was changed, as by a tool that rounds "
                f"numbers. Without {_CHECKSUM} it is read as it is",
            )

    def place_of(self, key: str | None) -> str:
        """Return where a field stands within the record."""
        return ".".join(part for part in (self.place, key) if part)

    def fail(self, key: str | None, words: str) -> NoReturn:
        """Raise a complaint about a field, or about the object itself."""
        place = self.place_of(key)
        raise RecordFormatError(f"damaged {self.noun}: {place or 'the record'} {words}", place=place or None)


def segment_to_dict(segment: Segment, place: str) -> dict[str, Any]:
    """Return a segment as JSON values, leaving out what is at its default."""
    row: dict[str, Any] = {"kind": member(segment.kind, SegmentKind, f"{place}.kind"), "ids": segment.ids.tolist()}
    if segment.logprobs is not None:
        row["logprobs"] = segment.logprob_list()
    if segment.replaces:
        row["replaces"] = whole(segment.replaces, f"{place}.replaces")
    if segment.weight_spans:
        row["weight_spans"] = [
            _span(span, f"{place}.weight_spans[{at}]") for at, span in enumerate(segment.weight_spans)
        ]
    if segment.message_index is not None:
        row["message_index"] = whole(segment.message_index, f"{place}.message_index")
    if segment.facts:
        row["facts"] = plain_object(segment.facts, f"{place}.facts")
    return row


def segment_from_fields(fields: Fields) -> Segment:
    """Read what `segment_to_dict` wrote."""
    kind = fields.take_member("kind", SegmentKind)
    spans = [
        fields.checked(_span, span, fields.place_of(f"weight_spans[{at}]"))
        for at, span in enumerate(fields.take_list("weight_spans", list, default=[]))
    ]
    ids = fields.take_list("ids", int)
    logprobs = fields.take_list("logprobs", float, int, type(None), default=None)
    rest: dict[str, Any] = {
        "replaces": fields.take("replaces", int, default=0),
        "message_index": fields.take("message_index", int, type(None), default=None),
        "facts": fields.take_value("facts", plain_object, default={}),
        "weight_spans": tuple((version, start, end) for version, start, end in spans),
    }
    fields.close()
    try:
        return Segment.of(kind, ids, logprobs, **rest)
    except RecordError as error:
        fields.fail(None, f"is not a segment: {error}")


def _span(span: Any, place: str) -> list[Any]:
    """Return the span of a weight version."""
    if not isinstance(span, list | tuple) or len(span) != 3:
        raise RecordError(f"{place} is not [version, start, end]")
    return [identity(span[0], place), whole(span[1], place), whole(span[2], place)]


class Saveable(Protocol):
    """A record that `pydantic_schema` can describe."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values."""

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""


def pydantic_schema(cls: type[Saveable]) -> CoreSchema:
    """Let a record be a field of a pydantic model: kept as it is, serialised by `to_dict`."""
    from pydantic_core import core_schema

    read = core_schema.no_info_plain_validator_function(cls.from_dict)
    return core_schema.json_or_python_schema(
        json_schema=read,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), read]),
        serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, no name of which stands twice: programs differ in which of the two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice[:80]!a} twice")
    return found

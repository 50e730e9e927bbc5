"""Texts that cannot be looked at unnoticed.

Owns the record of what a template does with the texts it is given. A `Sealed` text is printed as a private-use
character, its place, and stands for a real value: what only reshapes it becomes a step that gives a further place, what
looks at it becomes a condition with the result that the real value has. Invariant: for all texts under which the
conditions have the same results, the template prints the same, with the steps' results in the places. Whatever is not
known to be one or the other raises `UnprovableError`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

FIRST_PLACE, _LAST_PLACE = 0xF0000, 0xFFFFD
PLACES = re.compile(f"[{chr(FIRST_PLACE)}-{chr(_LAST_PLACE)}]")
_PARTS = re.compile(f"({PLACES.pattern})")
_MOST = 1000

_RESHAPE = (
    *("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix"),
    *("removesuffix", "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill"),
)
_LOOK = (
    *("count", "endswith", "find", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier"),
    *("islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "rfind", "startswith"),
)
_CUT = ("partition", "rpartition", "rsplit", "split", "splitlines")
METHODS = frozenset([*_RESHAPE, *_LOOK, *_CUT])
_OWN = frozenset(
    (
        *("__class__", "__delattr__", "__dict__", "__doc__", "__getattribute__", "__init__"),
        *("__init_subclass__", "__module__", "__new__", "__setattr__", "__str__", "__subclasshook__"),
        *("__weakref__",),
    )
)


class UnprovableError(BaseException):
    """A template does something with a text that is not known to be harmless.

    No `Exception`, so that nothing that takes a template's errors for its refusal takes this for one.
    """


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand that is not known before there are texts: a leaf, or the result of a step."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function of slots and constants, and what it gives: a further slot, or the result that is required."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]

    def run(self, values: Mapping[int, Any] | Sequence[Any]) -> Any:
        """Return what the function gives for the values of the slots."""
        return self.function(*(values[o.number] if type(o) is Slot else o for o in self.operands))


class Proof:
    """What was done with some texts.

    Attributes:
        values: The real values: of the leaves, then of the steps' results.
        steps: What gives each value; None for a leaf.
        conditions: What was asked, each with its result.
        failed: Why nothing is proven, or None.
    """

    def __init__(self, leaves: Sequence[str]) -> None:
        """Begin with texts of which nothing is known."""
        self.values: list[str] = list(leaves)
        self.steps: list[Step | None] = [None] * len(leaves)
        self.conditions: dict[Any, tuple[Step, Any]] = {}
        self.failed: str | None = None
        self._known: dict[Any, int] = {}

    def fail(self, reason: str) -> NoReturn:
        """Give up; noted, too, so that nothing that swallows the error makes a proof of it."""
        self.failed = self.failed or reason
        raise UnprovableError(reason)

    def at(self, number: int) -> Sealed:
        """Return the text in a slot."""
        return Sealed(chr(FIRST_PLACE + number), self)

    def sealed(self, shown: str) -> Sealed:
        """Return a text from how it is printed."""
        return Sealed(shown, self)

    def derive(self, function: Callable[..., str], *operands: Any) -> Sealed:
        """Return what a function of texts and constants gives, as a text in a place of its own."""
        step, key = self._step(function, operands)
        number = self._known.get(key)
        if number is None:
            value = self._run(step)
            if type(value) is not str or len(self.values) >= _MOST:
                self.fail(f"{function} gives no text, or too many places are needed")
            number = self._known[key] = len(self.values)
            self.values.append(value)
            self.steps.append(step)
        return self.at(number)

    def ask(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Return what a function of texts and constants gives for the real values, and require it from now on."""
        step, key = self._step(function, operands)
        if key not in self.conditions:
            result = self._run(step)
            if type(result) not in (bool, int) or len(self.conditions) >= _MOST:
                self.fail(f"{function} gives neither a number nor a truth, or too much is asked")
            self.conditions[key] = (step, result)
        return self.conditions[key][1]

    def _run(self, step: Step) -> Any:
        try:
            return step.run(self.values)
        except Exception as error:  # what fails for these texts may not fail for others
            self.fail(f"{step.function} fails: {error}")

    def _step(self, function: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[Step, Any]:
        given = tuple(self._operand(operand) for operand in operands)
        return Step(function=function, operands=given), (function, tuple((type(item), item) for item in given))

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, Sealed):
            if operand.proof is not self:
                self.fail("a text of another proof")
            return self._slot(operand.shown)
        texts = operand if type(operand) is tuple else (operand,)
        if any(
            type(text) is not str and (texts is operand or type(text) not in (int, bool, type(None))) for text in texts
        ):
            self.fail(f"a {type(operand).__name__} as an argument")
        if any(type(text) is str and PLACES.search(text) for text in texts):
            self.fail("a place that has lost its seal")
        return operand

    def _slot(self, shown: str) -> Slot:
        """Return the slot of a text: its place, or a step that joins what it is made of."""
        if len(shown) == 1:
            return Slot(ord(shown) - FIRST_PLACE)
        parts = [part for part in _PARTS.split(shown) if part]
        made = self.derive(_joined, *(self.sealed(part) if PLACES.match(part) else part for part in parts))
        return Slot(ord(made.shown) - FIRST_PLACE)


class Sealed(str):
    """A text that tells its proof what is done with it; C code that takes it for a str sees places only.

    Attributes:
        proof: Where it is told.
        shown: How it is printed.
    """

    proof: Proof
    shown: str

    def __new__(cls, shown: str, proof: Proof) -> Sealed:
        """Seal a text that holds places."""
        made = super().__new__(cls, shown)
        made.proof, made.shown = proof, shown
        return made

    def __str__(self) -> str:
        return self

    def __bool__(self) -> bool:
        return bool(self.proof.ask(bool, self))

    def __len__(self) -> int:
        return int(self.proof.ask(len, self))

    def __contains__(self, item: Any) -> bool:
        return bool(self.proof.ask(operator.contains, self, item))

    def __add__(self, other: Any) -> Any:
        return self.proof.sealed(self.shown + shown(other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return self.proof.sealed(shown(other) + self.shown) if isinstance(other, str) else NotImplemented

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.proof.derive(_slice, self, index.start, index.stop, index.step)
        return self.proof.derive(operator.getitem, self, index)


class Method:
    """A method of a sealed text, which can be called and nothing else."""

    def __init__(self, text: Sealed, name: str) -> None:
        """Take the method of that name."""
        self.text = text
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return getattr(self.text, self.name)(*args, **kwargs)

    def _refused(self, *_: Any) -> Any:
        self.text.proof.fail(f"the method {self.name} as a value")

    __eq__ = __ne__ = __hash__ = __repr__ = __str__ = __format__ = _refused


def shown(text: str) -> str:
    """Return how a text is printed, as a plain str."""
    return text.shown if isinstance(text, Sealed) else text


def joined(parts: Iterator[str] | Sequence[str]) -> str:
    """Return texts in a row, sealed if one of them is."""
    texts = list(parts)
    first = next((text for text in texts if isinstance(text, Sealed)), None)
    row = "".join(map(shown, texts))
    return row if first is None else first.proof.sealed(row)


def first_sealed(value: Any) -> Sealed | None:
    """Return a sealed text that plain data holds, or None."""
    if isinstance(value, Sealed):
        return value
    if isinstance(value, Mapping):
        return first_sealed([*value.keys(), *value.values()])
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := first_sealed(item)) is not None), None)
    return None


def to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Return JSON as chat templates get it, in which a sealed text is one that JSON has escaped."""
    found = first_sealed(value)
    if found is None:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    proof, inner = found.proof, []

    def written(item: Any) -> Any:
        if isinstance(item, Sealed):
            inner.append(proof.derive(json_inner, item, bool(ensure_ascii)).shown)
            return inner[-1]
        if isinstance(item, Mapping):
            return {key: written(below) for key, below in item.items()}
        return list(map(written, item)) if isinstance(item, list | tuple) else item

    plain = written(value)
    text = json.dumps(plain, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    for place in inner if ensure_ascii else ():
        text = text.replace(json.dumps(place)[1:-1], place)
    return proof.sealed(text)


def json_inner(text: str, ensure_ascii: bool) -> str:
    """Return what JSON writes between the quotation marks of a text."""
    return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]


def _joined(*parts: str) -> str:
    return "".join(parts)


def _slice(text: str, start: int | None, stop: int | None, step: int | None) -> str:
    return text[start:stop:step]


def _number_of_parts(text: str, method: str, *arguments: Any) -> int:
    return len(getattr(text, method)(*arguments))


def _part(text: str, method: str, number: int, *arguments: Any) -> str:
    part: str = getattr(text, method)(*arguments)[number]
    return part


# --- every method and operation of a str -----------------------------------------------------------------


def _reshaping(name: str) -> Callable[..., Any]:
    def method(self: Sealed, *arguments: Any, **named: Any) -> Any:
        if named:
            self.proof.fail(f"{name} with named arguments")
        return self.proof.derive(getattr(str, name), self, *arguments)

    return method


def _looking(name: str) -> Callable[..., Any]:
    def method(self: Sealed, *arguments: Any, **named: Any) -> Any:
        if named:
            self.proof.fail(f"{name} with named arguments")
        return self.proof.ask(getattr(str, name), self, *arguments)

    return method


def _cutting(name: str) -> Callable[..., Any]:
    def method(self: Sealed, *arguments: Any, **named: Any) -> Any:
        if named:
            self.proof.fail(f"{name} with named arguments")
        count = self.proof.ask(_number_of_parts, self, name, *arguments)
        parts = [self.proof.derive(_part, self, name, number, *arguments) for number in range(count)]
        return tuple(parts) if "partition" in name else parts

    return method


def _comparing(name: str) -> Callable[..., Any]:
    def method(self: Sealed, other: Any) -> Any:
        return self.proof.ask(getattr(operator, name), self, other) if isinstance(other, str) else NotImplemented

    return method


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Sealed, *arguments: Any, **named: Any) -> Any:
        self.proof.fail(name)

    return method


def _close(cls: type) -> None:
    """Give a class a method of its own for everything that a str can do."""
    for names, make in ((_RESHAPE, _reshaping), (_LOOK, _looking), (_CUT, _cutting)):
        for name in names:
            setattr(cls, name, make(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(cls, f"__{name}__", _comparing(name))
    for name in {*dir(str), "__reversed__", "__rmul__", "__rmod__"} - vars(cls).keys() - _OWN:
        setattr(cls, name, _refused(name))


_close(Sealed)

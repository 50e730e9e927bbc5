"""The sandbox in which a template shows what it does with the texts it is given.

Owns the places where jinja, or C code on its behalf, would look at a text behind its back: operators, comparisons,
joins, filters, tests, calls and attributes all pass through here. Invariant: what a template prints is what `Sandbox`
makes it print, and every look at a sealed text is in its proof; what is not on a list here gets no sealed text.
Imported only where a template is compiled for a proof.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jinja2
from jinja2.compiler import CodeGenerator
from jinja2.ext import Extension
from jinja2.nodes import Const, Filter
from jinja2.runtime import Macro, Undefined

from .sandbox import Sandbox
from .sealed import METHODS, PLACES, Method, Sealed, UnprovableError, first_sealed, joined, to_json

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
}
# Filters that hand items on, or look at nothing but what a sealed text tells its proof.
_FILTERS = (
    *("count", "d", "default", "first", "items", "last", "length", "list", "map", "reject", "rejectattr"),
    *("reverse", "select", "selectattr", "string"),
)
# Tests that look at the type alone, or compare.
_TESTS = (
    *("boolean", "callable", "defined", "false", "float", "integer", "mapping", "none", "number", "string"),
    *("true", "undefined", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge", "<"),
    *("lt", "lessthan", "<=", "le"),
)


class RefusalError(jinja2.TemplateError):
    """A template refuses what it is given."""


class _Generator(CodeGenerator):
    """Code in which comparisons and joins are calls."""

    def visit_Compare(self, node: Any, frame: Any) -> None:  # noqa: N802 - jinja's name
        if len(node.ops) != 1:
            raise UnprovableError("a chain of comparisons")
        expr, length = node.expr, False
        if isinstance(expr, Filter) and expr.name in ("length", "count") and isinstance(node.ops[0].expr, Const):
            # How long a text is says much more than how its length compares.
            expr, length = expr.node, True
        self.write(f"environment.{'length_compared' if length else 'compared'}(")
        self.visit(expr, frame)
        self.write(f", {node.ops[0].op!r}, ")
        self.visit(node.ops[0].expr, frame)
        self.write(")")

    def visit_Concat(self, node: Any, frame: Any) -> None:  # noqa: N802 - jinja's name
        self.write("concat(map(str, (")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write(")))")

    def _refuse(self, node: Any, frame: Any) -> None:
        raise UnprovableError(f"a {type(node).__name__}")

    visit_EvalContextModifier = visit_ScopedEvalContextModifier = _refuse  # noqa: N815 - jinja's names
    visit_Include = visit_Import = visit_FromImport = visit_Extends = _refuse  # noqa: N815
    visit_MarkSafe = visit_MarkSafeIfAutoescape = visit_ImportedName = visit_InternalName = _refuse  # noqa: N815
    visit_EnvironmentAttribute = _refuse  # noqa: N815


class ProvingSandbox(Sandbox):
    """The sandbox, with an eye on sealed texts."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["//", "%", "+", "*", "-", "/", "**"])
    intercepted_unops = frozenset(["+", "-"])
    concat = staticmethod(joined)  # type: ignore[assignment]

    def close(self, takes_sealed: tuple[Any, ...]) -> None:
        """Let sealed texts only where they are safe; called once filters and globals are in place.

        Args:
            takes_sealed: Callables of the globals that only keep or print what they are given.
        """
        self._takes_sealed = takes_sealed
        own_filters = {"tojson": to_json, "trim": _trim, "join": _join(self.filters["join"])}
        own_filters |= {"lower": _method("lower"), "upper": _method("upper"), "replace": _replace(self.filters)}
        kept = {name: self.filters[name] for name in _FILTERS}
        self.filters.update({name: _without_sealed(name, function) for name, function in self.filters.items()})
        self.filters.update({**kept, **own_filters})
        # What chance gives once it may not give again.
        self.filters["random"] = self.globals["lipsum"] = _chance
        kept = {name: self.tests[name] for name in _TESTS}
        own_tests = {name: _true_of_texts(self.tests[name]) for name in ("iterable", "sequence")}
        self.tests.update({name: _without_sealed(name, function) for name, function in self.tests.items()})
        self.tests.update({**kept, **own_tests, "in": lambda value, container: self.compared(value, "in", container)})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return `obj.attribute`, or the item of that name."""
        if isinstance(obj, Sealed):
            return self._of_text(obj, attribute)
        return super().getattr(_whole(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return `obj[argument]`, or the attribute of that name."""
        if isinstance(argument, Sealed):
            argument.proof.fail("a text as a key")
        if isinstance(obj, Sealed):
            return self._of_text(obj, argument) if isinstance(argument, str) else obj[argument]
        return super().getitem(_whole(obj), argument)

    def _of_text(self, text: Sealed, attribute: str) -> Any:
        if attribute in METHODS:
            return Method(text, attribute)
        if hasattr(str, attribute):
            text.proof.fail(f"the attribute {attribute}")
        return self.undefined(obj="", name=attribute)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call something that a template can reach."""
        # Jinja hands the variables around a call on to itself; a function does not see them.
        given = {name: value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
        if isinstance(obj, Method):
            return obj(*args, **given)
        if not self._may_take(obj, args):
            if hasattr(obj, "jinja_pass_arg"):
                raise UnprovableError("a function that sees the template's variables")
            _require_none_sealed(getattr(obj, "__name__", type(obj).__name__), args, given)
        return _whole(super().call(context, obj, *args, **kwargs))

    def _may_take(self, obj: Any, args: tuple[Any, ...]) -> bool:
        owner = getattr(obj, "__self__", None)
        if type(owner) is dict and obj.__name__ == "get":
            return not isinstance(args[:1] and args[0], Sealed)
        return type(obj) is Macro or isinstance(owner, Extension) or any(obj is one for one in self._takes_sealed)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return `left operator right`."""
        sealed = next((one for one in (left, right) if isinstance(one, Sealed)), None)
        if sealed is not None:
            if operator != "+" or not (isinstance(left, str) and isinstance(right, str)):
                sealed.proof.fail(f"the operator {operator}")
            return joined((left, right))
        if operator == "%" and isinstance(left, str):
            _require_none_sealed("%", (right,), {})
        return _whole(super().call_binop(context, operator, _whole(left), _whole(right)))

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Return `operator arg`."""
        _require_none_sealed(operator, (arg,), {})
        return super().call_unop(context, operator, arg)

    def length_compared(self, value: Any, operation: str, number: Any) -> Any:
        """Return `(value | length) operation number`."""
        if isinstance(value, Sealed) and operation in _COMPARISONS:
            return value.proof.ask(_length_compared, value, operation, number)
        return self.compared(len(value), operation, number)

    def compared(self, left: Any, operation: str, right: Any) -> Any:
        """Return `left operation right`."""
        left, right = _whole(left), _whole(right)
        if operation in _COMPARISONS:
            return _COMPARISONS[operation](left, right)
        if isinstance(left, Sealed) and isinstance(right, str):
            # C code looks for a text in a plain one without telling it.
            found = left.proof.ask(operator.contains, right, left)
        else:
            found = left in right
        return found if operation == "in" else not found


def _chance(*args: Any, **kwargs: Any) -> Any:
    raise UnprovableError("chance")


def _length_compared(text: str, operation: str, number: int) -> bool:
    return bool(_COMPARISONS[operation](len(text), number))


def _without_sealed(name: str, function: Any) -> Callable[..., Any]:
    """Return a filter or test that gets no sealed text."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def closed(*args: Any, **kwargs: Any) -> Any:
        _require_none_sealed(name, args[first:], kwargs)
        return _whole(function(*args, **kwargs))

    return closed


def _require_none_sealed(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = [*args, *kwargs.values()]
    if not all(map(_is_free, given)):
        if (found := first_sealed(given)) is not None:
            found.proof.fail(f"{name} of a text")
        raise UnprovableError(f"{name} of what may hold a text")


def _is_free(value: Any) -> bool:
    """Return whether a value certainly holds no sealed text."""
    if isinstance(value, dict):
        return all(map(_is_free, value)) and all(map(_is_free, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_free, value))
    if isinstance(value, str):
        return not isinstance(value, Sealed) and PLACES.search(value) is None
    return value is None or isinstance(value, bool | int | float | Undefined)


def _whole(value: Any) -> Any:
    """Return a value; a plain text that holds a place has lost its seal."""
    if isinstance(value, str) and not isinstance(value, Sealed) and PLACES.search(value):
        raise UnprovableError("a place that has lost its seal")
    return value


# --- filters and tests of sealed texts -------------------------------------------------------------------


def _trim(value: Any, chars: str | None = None) -> Any:
    if isinstance(value, Sealed):
        return value.strip(chars)
    _require_none_sealed("trim", (value, chars), {})
    return jinja2.filters.do_trim(value, chars)


def _method(name: str) -> Callable[[Any], Any]:
    def applied(value: Any) -> Any:
        if not isinstance(value, Sealed):
            _require_none_sealed(name, (value,), {})
            value = str(value)
        return getattr(value, name)()

    return applied


def _replace(filters: dict[str, Any]) -> Callable[..., Any]:
    plain = _without_sealed("replace", filters["replace"])

    @functools.wraps(plain)
    def replace(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(value, Sealed) or len(args) != 2:
            return plain(context, value, *args, **kwargs)
        return value.replace(*args, **kwargs)

    return replace


def _join(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def join(context: Any, value: Any, d: Any = "", attribute: Any = None) -> Any:
        if attribute is not None:
            _require_none_sealed("join", (value, d, attribute), {})
            return function(context, value, d, attribute)
        parts: list[str] = []
        for item in value:
            parts += [str(d), str(item)]
        return joined(parts[1:])

    return join


def _true_of_texts(function: Any) -> Callable[[Any], bool]:
    def test(value: Any) -> bool:
        return isinstance(value, Sealed) or bool(function(value))

    return test

"""The parts of a chat template that say the same in every rendering with the same tools.

A template writes its tools at the head of every conversation, and what follows a turn is read off such renderings: an
agent with fifty tools would pay for writing them all in every turn. Here a loop or an expression that depends on the
tools, and on nothing that differs between two renderings, is found in the parsed template and wrapped, so that its text
is kept for as long as the tools are (`remember`).

Owns the judgement of what may be kept. It is lexical and errs on the side of not keeping: only kinds of nodes that are
listed here may occur in such a part; every name it reads must be an input that never differs, or be set from nothing
but such inputs; it may set names of its own scope only. Messages and the generation prompt are the inputs that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension

from .template import KEPT

# What differs, and what makes objects that change; a namespace may only be made on the spot.
_DIFFER = frozenset({"messages", "add_generation_prompt", "cycler", "joiner", "lipsum", "namespace"})
_SPECIAL = frozenset({"loop", "caller", "self", "super", "varargs", "kwargs"})
_PURE_GLOBALS = frozenset({"range", "dict", "raise_exception", "strftime_now"})
_UNLIKE = ("random", "map")  # filters that are not to be called by name: map("random")
# Filters whose result can be gone through once, and those that go through it at once.
_ONCE = frozenset(
    {"map", "select", "reject", "selectattr", "rejectattr", "batch", "slice", "unique", "items", "reverse"}
)
_AT_ONCE = frozenset(
    {"list", "join", "length", "count", "sort", "first", "last", "tojson", "string", "sum", "min", "max"}
)
_PLAIN = (
    *(nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock),
    *(nodes.Break, nodes.Continue),
    *(nodes.Const, nodes.Name, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword),
    *(nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice),
    *(nodes.Concat, nodes.Compare, nodes.Operand, nodes.BinExpr, nodes.UnaryExpr),
)
# Where one of these occurs, no part is kept: other files, and escapes that filters apply by who calls a macro.
_FAR_REACHING = (
    *(nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends, nodes.Block),
    *(nodes.EvalContextModifier, nodes.ScopedEvalContextModifier),
)


class ConstantParts(Extension):
    """Keeps the text of parts that were wrapped by `wrap_constant_parts`."""

    def remember(self, number: int, *read: Any, caller: Callable[[], str]) -> str:
        """Return the text of a part, written only where it is not kept.

        Args:
            number: Number of the part within its template.
            *read: What the part reads; not looked at.
            caller: Writes the part.
        """
        kept = KEPT.get()
        if kept is None:
            return caller()
        text: str | None = kept.get(number)
        if text is None:
            text = kept[number] = caller()
        return text

    def wrap(self, number: int, part: nodes.Node) -> nodes.Node:
        """Return a part so that it is written through `remember`."""
        # Names that the part reads in the scope around it are still read there: a scope in which a name is set before
        # it is ever read does not see what the scopes around call by that name.
        around = part.iter if isinstance(part, nodes.For) else part
        names = sorted({name.name for name in _names(around)})
        arguments = [nodes.Const(number), *(nodes.Name(name, "load") for name in names)]
        call = self.call_method("remember", arguments, lineno=part.lineno)
        return nodes.CallBlock(call, [], [], [part]).set_lineno(part.lineno)


def wrap_constant_parts(template: nodes.Template, extension: ConstantParts) -> None:
    """Wrap, in place, every part of a parsed template that depends on the tools and on nothing that differs.

    Args:
        template: The parsed template.
        extension: Writes the parts.
    """
    environment = extension.environment
    # That a filter or test is missing is found out early or late, by where it is used.
    missing = any(each.name not in environment.filters for each in template.find_all(nodes.Filter)) or any(
        each.name not in environment.tests for each in template.find_all(nodes.Test)
    )
    if not missing and next(template.find_all(_FAR_REACHING), None) is None:
        _Wrapping(_Known.of(template), extension).of_body(template, frozenset())


def _names(node: nodes.Node) -> Iterator[nodes.Name]:
    if isinstance(node, nodes.Name):
        yield node
    yield from node.find_all(nodes.Name)


# --- what is read, and what is set ---------------------------------------------------------------------------


def _reads(node: nodes.Node, bound: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names that are read and not bound by a loop or a macro inside; those that are set inside count."""
    if isinstance(node, nodes.Name):
        if node.ctx == "load" and node.name not in bound:
            yield node.name
        return
    if isinstance(node, nodes.NSRef):
        yield node.name
        return
    inner: dict[int, frozenset[str]] = {}
    if isinstance(node, nodes.For):
        targets = bound | {name.name for name in _names(node.target)}
        inner = {id(child): targets | {"loop"} for child in node.body}
        inner[id(node.test)] = targets  # which sees the loop around
    elif isinstance(node, nodes.Macro):
        inner = {id(child): bound | {argument.name for argument in node.args} for child in node.body}
    elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == "namespace":
        inner[id(node.node)] = bound | {"namespace"}  # calls are judged by themselves
    for child in node.iter_child_nodes():
        yield from _reads(child, inner.get(id(child), bound))


@dataclass(frozen=True, slots=True)
class _Setting:
    """One place where names of a scope are set.

    Attributes:
        names: The names.
        values: What decides about their values: what is assigned, and the conditions around it.
        order: Its place in the order of the template.
    """

    names: tuple[str, ...]
    values: tuple[nodes.Node, ...]
    order: int


def _settings(body: list[nodes.Node], conditions: tuple[nodes.Node, ...], order: Iterator[int]) -> Iterator[_Setting]:
    """Yield what the statements of one scope set in it, those in branches included."""
    for node in body:
        place = next(order)
        if isinstance(node, nodes.If):
            tests = (*conditions, node.test)
            yield from _settings(node.body, tests, order)
            for branch in node.elif_:
                tests = (*tests, branch.test)
                yield from _settings(branch.body, tests, order)
            yield from _settings(node.else_, tests, order)
        elif isinstance(node, nodes.Assign):
            names = tuple(name.name for name in _names(node.target))
            yield _Setting(names, (node.node, *conditions), place)
        elif isinstance(node, nodes.AssignBlock):
            yield _Setting(tuple(name.name for name in _names(node.target)), (node, *conditions), place)
        elif isinstance(node, nodes.Macro):
            yield _Setting((node.name,), (node, *conditions), place)


# --- what is known of a template -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """The names of a template's own scope.

    Attributes:
        settings: Where they are set.
        differ: Names that may differ between two renderings with the same tools.
        macros: Macros that write the same whenever they are given the same.
        stored: How often each name is bound or set, anywhere in the template.
        namespaces: Names of namespaces that are changed.
        of_tools: Names that depend on the tools.
    """

    settings: list[_Setting]
    differ: set[str]
    macros: dict[str, nodes.Macro]
    stored: Counter[str]
    namespaces: set[str]
    of_tools: set[str] = field(default_factory=lambda: {"tools"})

    @classmethod
    def of(cls, template: nodes.Template) -> _Known:
        """Look at a template: every name counts as one that never differs until something shows that it may."""
        settings = list(_settings(template.body, (), iter(range(1 << 30))))
        set_once = {name for each in settings for name in each.names}
        set_once -= {name for name in set_once if sum(name in each.names for each in settings) > 1}
        defined = [node for each in settings if isinstance(node := each.values[0], nodes.Macro)]
        macros = {node.name: node for node in defined if node.name in set_once}
        # A namespace is changed from anywhere, loops included.
        changed = {reference.name for reference in template.find_all(nodes.NSRef)}
        others = {macro.name for macro in template.find_all(nodes.Macro)} - set(macros)
        known = cls(
            settings=settings,
            differ={*_DIFFER, *changed, *others},
            macros=macros,
            stored=_stored(template),
            namespaces=changed,
        )
        while known._take_out():
            pass
        while known._follow_tools():
            pass
        return known

    def _take_out(self) -> bool:
        """Take out names and macros that cannot be kept after all; return whether there were any."""
        before = len(self.differ)
        for name, macro in list(self.macros.items()):
            # A macro is called at different times: what it reads must have been set before it was defined.
            late = self.set_after(macro) - {name}
            if not self.is_constant(*macro.body, *macro.defaults, reads=_reads(macro), differ=late):
                del self.macros[name]
                self.differ.add(name)
        for setting in self.settings:
            value = setting.values[0]
            if isinstance(value, nodes.Macro):
                if not self.is_constant(*setting.values[1:]):
                    self.differ.update(setting.names)
                continue
            if not self.is_constant(*setting.values) or _is_used_up(value):
                self.differ.update(setting.names)
        return len(self.differ) > before

    def _follow_tools(self) -> bool:
        """Note what depends on the tools by way of others; return whether there was anything new."""
        before = len(self.of_tools)
        for setting in self.settings:
            if any(self.depends_on_tools(value) for value in setting.values):
                self.of_tools.update(setting.names)
        return len(self.of_tools) > before

    def set_after(self, macro: nodes.Node) -> frozenset[str]:
        """Return the names that the template sets in its own scope after a macro, the macro's own included.

        For what is no macro of the template's own scope these are all.
        """
        place = next((each.order for each in self.settings if each.values[0] is macro), -1)
        return frozenset(name for each in self.settings if each.order >= place for name in each.names)

    def depends_on_tools(self, node: nodes.Node) -> bool:
        """Whether a part reads the tools."""
        return not self.of_tools.isdisjoint(_reads(node))

    def is_constant(
        self, *parts: nodes.Node, reads: Iterable[str] | None = None, differ: frozenset[str] = frozenset()
    ) -> bool:
        """Whether parts depend on nothing that differs and change nothing around them.

        Args:
            *parts: The parts.
            reads: The names they read; None: whatever is found in them.
            differ: Further names that differ.
        """
        stored = sum((_stored(part) for part in parts), Counter[str]())
        own = frozenset(name for name in self.namespaces if 0 < stored[name] == self.stored[name])
        own -= _DIFFER | _SPECIAL
        if not all(_is_plain(part, own, in_loop=False) and self._calls_are_pure(part, own) for part in parts):
            return False
        names = set(reads if reads is not None else (name for part in parts for name in _reads(part))) - own
        return names.isdisjoint(self.differ) and names.isdisjoint(differ) and names.isdisjoint(_SPECIAL)

    def _calls_are_pure(self, node: nodes.Node, own: frozenset[str]) -> bool:
        calls = [*([node] if isinstance(node, nodes.Call) else []), *node.find_all(nodes.Call)]
        for call in calls:
            if isinstance(call.node, nodes.Name):
                name = call.node.name
                pure = name in _PURE_GLOBALS or (name == "namespace" and bool(own))
                if name not in self.macros and (not pure or name in self.stored):
                    return False
            elif not isinstance(call.node, nodes.Getattr):
                return False
        return True


def _stored(node: nodes.Node) -> Counter[str]:
    """Return how often each name is bound or set in a part."""
    names = [name.name for name in node.find_all(nodes.Name) if name.ctx in ("store", "param")]
    return Counter([*names, *(macro.name for macro in node.find_all(nodes.Macro))])


def _is_used_up(value: nodes.Node) -> bool:
    """Whether a value can be gone through only once, so that who reads it first leaves nothing to the next."""
    filters = [*([value] if isinstance(value, nodes.Filter) else []), *value.find_all(nodes.Filter)]
    if any(each.name == "map" and any(name.value in _ONCE for name in each.find_all(nodes.Const)) for each in filters):
        return True  # each of a list
    gone_through: set[int] = set()
    if isinstance(value, nodes.Filter) and value.name in _AT_ONCE:
        inner = value.node
        while isinstance(inner, nodes.Filter) and inner.name in _ONCE:
            gone_through.add(id(inner))
            inner = inner.node
    return any(each.name in _ONCE and id(each) not in gone_through for each in filters)


def _is_plain(node: nodes.Node, own: frozenset[str], *, in_loop: bool) -> bool:
    """Whether a part is made of nodes that have no effect but their text and names of its own.

    Args:
        node: The part.
        own: Namespaces that nothing outside the part knows.
        in_loop: Whether it is in the body of a loop of the part.
    """
    if isinstance(node, nodes.NSRef):
        return node.name in own
    if not isinstance(node, _PLAIN):
        return False
    if isinstance(node, nodes.Break | nodes.Continue):
        return in_loop
    if isinstance(node, nodes.Filter) and (node.name == "random" or (node.name == "map" and not _is_plain_map(node))):
        return False
    if isinstance(node, nodes.For) and node.recursive:
        return False
    body = {id(child) for child in node.body} if isinstance(node, nodes.For) else set()
    return all(_is_plain(child, own, in_loop=in_loop or id(child) in body) for child in node.iter_child_nodes())


def _is_plain_map(node: nodes.Filter) -> bool:
    """Whether the filter that is applied to each, if any, is known and none that chance has a hand in."""
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        return False
    name = node.args[0] if node.args else nodes.Const("")
    return isinstance(name, nodes.Const) and name.value not in _UNLIKE


# --- wrapping ------------------------------------------------------------------------------------------------


class _Wrapping:
    """Wraps the parts of one template."""

    def __init__(self, known: _Known, extension: ConstantParts) -> None:
        self._known = known
        self._extension = extension
        self._count = 0

    def of_body(self, node: nodes.Node, differ: frozenset[str]) -> None:
        """Wrap what can be kept among the statements of a node, at any depth.

        Args:
            node: The node.
            differ: Names that are bound or set in the scopes around its statements, the template's own left out.
        """
        for name in ("body", "else_", "elif_"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, [new for each in statements for new in self._wrapped(each, differ)])

    def _wrapped(self, node: nodes.Node, differ: frozenset[str]) -> list[nodes.Node]:
        if isinstance(node, nodes.For) and self._may_be_kept(node, differ):
            return [self._wrap(node)]
        if isinstance(node, nodes.Output):
            return self._wrapped_output(node, differ)
        if not isinstance(node, nodes.If):
            differ |= set(_stored(node))
        if isinstance(node, nodes.Macro | nodes.CallBlock) or (isinstance(node, nodes.For) and node.recursive):
            differ |= self._known.set_after(node)  # may be called at any time, by way of a namespace
        self.of_body(node, differ)
        return [node]

    def _wrapped_output(self, output: nodes.Output, differ: frozenset[str]) -> list[nodes.Node]:
        """Return an output in pieces, those that can be kept by themselves."""
        pieces: list[nodes.Node] = []
        for shown in output.nodes:
            alone = nodes.Output([shown]).set_lineno(output.lineno)
            if _takes_long(shown) and self._may_be_kept(alone, differ):
                pieces.append(self._wrap(alone))
            elif pieces and isinstance(pieces[-1], nodes.Output):
                pieces[-1].nodes.append(shown)
            else:
                pieces.append(alone)
        return pieces

    def _may_be_kept(self, node: nodes.Node, differ: frozenset[str]) -> bool:
        return self._known.depends_on_tools(node) and self._known.is_constant(node, differ=differ)

    def _wrap(self, node: nodes.Node) -> nodes.Node:
        self._count += 1
        return self._extension.wrap(self._count, node)


def _takes_long(shown: nodes.Node) -> bool:
    """Whether showing something is worth keeping: a macro or a method is called, or JSON is written."""
    inside = [shown, *shown.find_all((nodes.Call, nodes.Filter))]
    return any(
        isinstance(each, nodes.Call) or (isinstance(each, nodes.Filter) and each.name == "tojson") for each in inside
    )

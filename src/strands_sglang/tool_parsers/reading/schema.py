"""What a tool's JSON schema says about how raw text is to be read.

Owns `ToolSchemas` and `typed_value`. Templates of raw-value formats print strings as they are and everything
else as JSON, so `5` and `"5"` look the same; the declared types undo that and nothing else does:

1. only string is declared: the text, unchanged
2. string is not declared: one JSON value of a declared type, or an error
3. string and others: `null` where null is declared, else a JSON value of another declared type, else the text
4. nothing is declared: the text, unchanged

Never validates: whether a tool or parameter exists, and what a value may be, is for others to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers.reading.literals import LiteralError, PythonReader
from strands_sglang.tool_parsers.reading.strict_json import JSON_SPACE, JSONRead, read_all
from strands_sglang.tool_parsers.result import ToolParseStatus

Spellings = Literal["json", "names", "python"]

_PYTHON_NAMES = {"True": True, "False": False, "None": None}
_MAX_REFERENCES = 64
_JSON_TYPES = frozenset(["null", "boolean", "integer", "number", "string", "array", "object"])
_ONE_TYPE = {name: frozenset([name]) for name in _JSON_TYPES}
_SAY_MORE = frozenset(["enum", "const", "$ref", "anyOf", "oneOf", "allOf", "nullable"])


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value read from raw text, or why it could not be."""

    value: Any
    status: ToolParseStatus = ToolParseStatus.OK
    reason: str = ""


class ToolSchemas:
    """The parameter schemas of the tools the model was shown, by tool name."""

    def __init__(self, tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Create the table from OpenAI tool objects, bare function objects, or Strands tool specs."""
        self._schemas = dict(_named_schema(tool) for tool in tools or ())
        self._types: dict[tuple[str, str], frozenset[str] | None] = {}

    def declared_types(self, tool: str, parameter: str) -> frozenset[str] | None:
        """Return the JSON types declared for a parameter; None where nothing is declared."""
        key = (tool, parameter)
        if key not in self._types:
            self._types[key] = self.of(tool).member(parameter).types()
        return self._types[key]

    def of(self, tool: str) -> Schema:
        """Return the schema of a tool's arguments; one that says nothing where there is none."""
        root = self._schemas.get(tool)
        return Schema(root if isinstance(root, Mapping) else {}, (root,))


def _named_schema(tool: Mapping[str, Any]) -> tuple[str, Any]:
    # A plain dict is told first: asking for a mapping takes longer than all the rest, for every tool in every turn.
    function = tool.get("function", tool) if type(tool) is dict or isinstance(tool, Mapping) else None
    name = function.get("name") if type(function) is dict or isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise SGLangConfigError(
            f"a tool has no name: {str(tool)[:120]}", hint="pass OpenAI tool objects or Strands tool specs"
        )
    if "inputSchema" in function:
        schema = function["inputSchema"]
        return name, schema.get("json", schema) if isinstance(schema, Mapping) else None
    return name, function.get("parameters")


class Schema:
    """A place in a tool's schema: the alternatives that may describe the value there."""

    def __init__(self, root: Mapping[str, Any], alternatives: Sequence[Any]) -> None:
        """Create the place from the whole schema and what is said of the value there."""
        self._root = root
        self._alternatives = alternatives

    def types(self) -> frozenset[str] | None:
        """Return the JSON types declared here; None where nothing is declared."""
        found = [_types(schema, self._root, _MAX_REFERENCES) for schema in self._alternatives]
        if not found or None in found:
            return None
        return frozenset().union(*(types for types in found if types is not None))

    def member(self, key: str) -> Schema:
        """Return the place of an object's member."""
        properties = (schema.get("properties") for schema in self._expanded())
        return Schema(self._root, [p[key] for p in properties if isinstance(p, Mapping) and key in p])

    def items(self) -> Schema:
        """Return the place of a list's elements."""
        return Schema(self._root, [schema["items"] for schema in self._expanded() if "items" in schema])

    def _expanded(self) -> list[Mapping[str, Any]]:
        """Return the alternatives with references and combinations followed."""
        expanded: list[Mapping[str, Any]] = []
        pending = list(self._alternatives)
        while pending and len(expanded) < _MAX_REFERENCES:
            schema = pending.pop()
            if not isinstance(schema, Mapping):
                continue
            expanded.append(schema)
            if "$ref" in schema:
                pending.append(_resolve(schema["$ref"], self._root))
            for word in ("allOf", "anyOf", "oneOf"):
                pending.extend(schema[word] if isinstance(schema.get(word), list) else ())
        return expanded


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str] | None:
    """Return the JSON types a schema allows, or None where it does not say."""
    if not isinstance(schema, Mapping) or depth <= 0:
        return None
    said: list[frozenset[str]] = []
    declared = schema.get("type")
    if isinstance(declared, str) and declared in _ONE_TYPE and _SAY_MORE.isdisjoint(schema):
        return _ONE_TYPE[declared]
    names = declared if isinstance(declared, list) else [declared]
    known = frozenset(name for name in names if isinstance(name, str) and name in _JSON_TYPES)
    # A name that JSON Schema does not know, such as "any", says nothing.
    if known and len(known) == len(names):
        said.append(known)
    if isinstance(schema.get("enum"), list):
        said.append(frozenset(_type_of(value) for value in schema["enum"]))
    if "const" in schema:
        said.append(frozenset([_type_of(schema["const"])]))
    if isinstance(schema.get("$ref"), str):
        said.extend(_said(_types(_resolve(schema["$ref"], root), root, depth - 1)))
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            branches = [_types(branch, root, depth - 1) for branch in schema[word]]
            if None not in branches:
                said.append(frozenset().union(*(b for b in branches if b is not None)))
    for branch in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        said.extend(_said(_types(branch, root, depth - 1)))
    if not said and isinstance(schema.get("properties"), Mapping):
        said.append(frozenset(["object"]))
    if not said and ("items" in schema or "prefixItems" in schema):
        said.append(frozenset(["array"]))
    if not said:
        return None
    types = said[0]
    for other in said[1:]:
        types = _meet(types, other) or types
    return types | {"null"} if schema.get("nullable") is True else types


def _said(types: frozenset[str] | None) -> list[frozenset[str]]:
    return [] if types is None else [types]


def _meet(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    both = left & right
    if ("integer" in left and "number" in right) or ("number" in left and "integer" in right):
        both |= {"integer"}
    return both


def _resolve(reference: Any, root: Mapping[str, Any]) -> Any:
    """Follow a reference within the schema, such as `#/$defs/Unit`; None where it leads nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return target


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _is_of(value: Any, types: frozenset[str]) -> bool:
    actual = _type_of(value)
    if actual in types or (actual == "integer" and "number" in types):
        return True
    return actual == "number" and "integer" in types and value.is_integer()


def typed_value(text: str, types: frozenset[str] | None, *, spellings: Spellings = "json") -> TypedValue:
    """Read a raw value.

    Args:
        text: The text, without the format's framing.
        types: The declared types, or None.
        spellings: How values are written where no string is declared: "json", "names" for JSON and the names
            `True`, `False` and `None`, or "python" for JSON and Python literals.

    Returns:
        The value, or why the text is none of the declared types.
    """
    if types is None or types == {"string"}:
        return TypedValue(text)
    if "string" in types:
        read = read_all(text)
        typed = read.status is ToolParseStatus.OK and _is_of(read.value, types) and not isinstance(read.value, str)
        return TypedValue(read.value if typed else text)
    read = _read_spelled(text, spellings)
    wanted = " or ".join(sorted(types))
    if read.status is ToolParseStatus.DUPLICATE_KEY:
        return TypedValue(None, read.status, f"is wrong: {read.reason}")
    if read.status is not ToolParseStatus.OK:
        return TypedValue(None, ToolParseStatus.INVALID_ARGUMENTS, f"must be {wanted} as JSON: {read.reason}")
    if not _is_of(read.value, types):
        reason = f"must be {wanted}, but is {_type_of(read.value)}"
        return TypedValue(None, ToolParseStatus.INVALID_ARGUMENTS, reason)
    return TypedValue(read.value)


def _read_spelled(text: str, spellings: Spellings) -> JSONRead:
    name = text.strip(JSON_SPACE)
    if spellings != "json" and name in _PYTHON_NAMES:
        return JSONRead(_PYTHON_NAMES[name], len(text))
    read = read_all(text)
    if spellings != "python" or read.status is not ToolParseStatus.INVALID_JSON:
        return read
    try:
        value, end = PythonReader(name).value(0)
    except LiteralError:
        return read
    return JSONRead(value, end) if end == len(name) else read

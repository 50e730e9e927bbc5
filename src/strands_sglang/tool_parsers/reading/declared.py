"""What a Hugging Face `response_template` says of a format, as far as it can be read strictly.

Owns `Declaration` and `declaration_of`. A response template names regions of an answer by what opens and closes them,
and how a call is taken from its region. It may use any regular expression, and says little of what is wrong; what is
taken over here is only what has one reading: marks that are text, JSON, parameters between tags, Python calls. All
else is refused, with its place in the template. Never reads a turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers.reading.turn import Frame, Reasoning

_REASONING = ("thinking", "reasoning", "reasoning_content")
_FIELDS = (*_REASONING, "content", "tool_calls")
_KINDS = ("json", "xml-inline", "python-call-list")
_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")
_SPACES = re.compile(r"\\s\*|\\s\+|\\n[*?]?|\\r\??|\n|[ \t]*\[\^?\\s\]\*")
_LITERAL = re.compile(r"(?:\\[^\w]|[^\\.^$*+?{}\[\]()|])+")
_VALUE = "(?P<value>.*?)"
_SHORTEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A response template's account of its format.

    Attributes:
        kind: How calls are written: "json", "xml-inline" or "python-call-list".
        opener: The text that opens a call.
        head: Matches the whole opening of a call, with its groups, or None where `opener` is all of it.
        end_tags: Text that must, or may, stand before the closer.
        end_tags_needed: Whether they must.
        closer: The text that closes a call, or "" where nothing does.
        each: Whether the body is a list of calls.
        paths: Where the name, the arguments and the id stand: `content`, a member of it, or a group of `head`.
        parameter: Matches the opening of a parameter up to its value.
        value_opener: How the opening of a parameter begins.
        value_closer: The text that closes a value.
        stripped: Whether space around a value is framing.
        reasoning: The marks of reasoning.
        frames: The marks around content.
    """

    kind: str
    opener: str
    head: re.Pattern[str] | None
    end_tags: tuple[str, ...]
    end_tags_needed: bool
    closer: str
    each: bool
    paths: Mapping[str, str]
    parameter: re.Pattern[str] | None = None
    value_opener: str = ""
    value_closer: str = ""
    stripped: bool = False
    reasoning: tuple[Reasoning, ...] = ()
    frames: tuple[Frame, ...] = ()


def declaration_of(template: Any) -> Declaration:
    """Return what a response template says of calls, reasoning and content.

    Raises:
        SGLangConfigError: It says nothing of calls, or something that cannot be read strictly.
    """
    fields = template.get("fields") if isinstance(template, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("tool_calls"), Mapping):
        raise _refused("it has no field tool_calls")
    if template.get("version", 1) != 1:
        raise _refused(f"its version is {template['version']!r}, and only 1 is known")
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise _refused(f"it has the field {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    shapeless = [name for name, field in fields.items() if not isinstance(field, Mapping)]
    if shapeless:
        raise _refused(f"its field {shapeless[0]!r} is {fields[shapeless[0]]!r}, and no object")
    thinking = [fields[name] for name in _REASONING if name in fields]
    return _calls(
        fields["tool_calls"],
        reasoning=tuple(marks for field in thinking for marks in _reasoning(field)),
        frames=tuple(Frame(mark=mark) for mark in _marks_of(fields.get("content", {}), "content")),
    )


def _calls(field: Mapping[str, Any], *, reasoning: tuple[Reasoning, ...], frames: tuple[Frame, ...]) -> Declaration:
    kind = field.get("content", "text")
    if kind not in _KINDS:
        raise _refused(f"tool_calls.content is {kind!r}; read are {', '.join(_KINDS)}")
    given = field.get("content_args", {})
    if not isinstance(given, Mapping):
        raise _refused(f"tool_calls.content_args is {given!r}, and no object")
    arguments = {key: value for key, value in given.items() if value}
    if kind == "json" and arguments.keys() - {"allow_non_json"}:
        raise _refused(f"tool_calls.content_args has {', '.join(sorted(arguments))}, and so it is not JSON")
    opener, head = _opening(field)
    closes = _closing(field)
    end_tags, needed = closes[:-1], True
    if head is not None and not end_tags:
        # A template may leave out the tag that ends what its opening begins; its own parser skips such text.
        names = re.findall(r"<(\w[\w:|]*)", head.pattern.replace("\\", ""))
        end_tags, needed = tuple(f"</{name}>" for name in reversed(names) if f"</{name}>" not in closes), False
    each = bool(field.get("transform_each")) or kind == "python-call-list"
    paths = _paths(field.get("transform"), head, each=each)
    _check_paths(paths, kind, each=each, patterned=head is not None)
    declared = Declaration(
        kind=kind,
        opener=opener,
        head=head,
        end_tags=end_tags,
        end_tags_needed=needed,
        closer=closes[-1] if closes else "",
        each=each,
        paths=paths,
        reasoning=reasoning,
        frames=frames,
    )
    return _with_parameters(declared, arguments) if kind == "xml-inline" else declared


def _with_parameters(declared: Declaration, arguments: Mapping[str, Any]) -> Declaration:
    """Add how parameters are written, out of the pattern that matches one."""
    pattern = arguments.get("tag_pattern")
    if not isinstance(pattern, str) or pattern.count(_VALUE) != 1 or "(?P<key>" not in pattern.partition(_VALUE)[0]:
        raise _refused(f"tool_calls.content_args.tag_pattern must hold a key and {_VALUE}, but is {pattern!r}")
    if arguments.get("merge_duplicates"):
        raise _refused("tool_calls.content_args.merge_duplicates makes a list of what is given twice")
    before, _, after = pattern.partition(_VALUE)
    closers = _literals(after, "tool_calls.content_args.tag_pattern")
    if len(closers) != 1:
        raise _refused(f"what stands behind the value in tag_pattern must be one text, but is {after!r}")
    return replace(
        declared,
        parameter=_compiled(before, "tool_calls.content_args.tag_pattern"),
        value_opener=_prefix(before),
        value_closer=closers[0],
        stripped=after.startswith(r"\s*") or before.endswith(r"\s*"),
    )


def _opening(field: Mapping[str, Any]) -> tuple[str, re.Pattern[str] | None]:
    """Return the text that opens a call, and what matches the whole opening where that is a pattern."""
    if "open_pattern" not in field:
        opens = _marks(field, "open", "tool_calls")
        if len(opens) != 1:
            raise _refused("tool_calls.open must be one text")
        return opens[0], None
    pattern = re.sub(r"^(?:\\s[*+]|\\n[*?])+", "", _text(field["open_pattern"], "tool_calls.open_pattern"))
    prefix = _prefix(pattern)
    if len(prefix.strip()) < _SHORTEST or prefix != prefix.strip():
        raise _refused(f"tool_calls.open_pattern must begin with a text that marks a call, but is {pattern!r}")
    return prefix, _compiled(pattern, "tool_calls.open_pattern")


def _closing(field: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts that close a call one after the other."""
    if "close_pattern" not in field:
        closes = _marks(field, "close", "tool_calls")
        if len(closes) > 1:
            raise _refused("tool_calls.close must be one text")
        return tuple(close.strip() for close in closes)
    pattern = _text(field["close_pattern"], "tool_calls.close_pattern")
    if "|" in pattern.replace(r"\|", ""):
        closes = _literals(pattern, "tool_calls.close_pattern")
        if len(closes) != 1:
            raise _refused(f"tool_calls.close_pattern must be one text, but is {pattern!r}")
        return tuple(closes)
    parts = [part for part in _SPACES.split(pattern) if part]
    if not all(_LITERAL.fullmatch(part) for part in parts):
        raise _refused(f"tool_calls.close_pattern must be text with space between, but is {pattern!r}")
    return tuple(_unescaped(part) for part in parts)


def _paths(transform: Any, head: re.Pattern[str] | None, *, each: bool) -> dict[str, str]:
    """Return where a call's name, arguments and id stand."""
    call = transform.get("function", transform) if isinstance(transform, Mapping) else None
    if call is None and each:
        call = {"name": "{name}", "arguments": "{arguments}"}
    if call == "{content}":
        call = {"name": "{content.name}", "arguments": "{content.arguments}"}
    if not isinstance(call, Mapping):
        raise _refused("tool_calls.transform does not say where a call's name and arguments stand")
    given = {"name": call.get("name"), "arguments": call.get("arguments")}
    if isinstance(transform, Mapping) and "id" in transform:
        given["id"] = transform["id"]
    paths: dict[str, str] = {}
    for what, placeholder in given.items():
        match = _PLACEHOLDER.fullmatch(placeholder) if isinstance(placeholder, str) else None
        if not match:
            raise _refused(f"tool_calls.transform gives {placeholder!r} for a call's {what}")
        path = f"content.{match[1]}" if each and "." not in match[1] else match[1]
        root, _, member = path.partition(".")
        if "." in member or (root != "content" and (member or head is None or root not in head.groupindex)):
            raise _refused(f"tool_calls.transform takes a call's {what} from {placeholder}, which nothing gives")
        paths[what] = path
    return paths


def _check_paths(paths: Mapping[str, str], kind: str, *, each: bool, patterned: bool) -> None:
    """Refuse what a call is not taken from: it is all in its body, or named by its opening with arguments as body."""
    members = all(path.startswith("content.") for path in paths.values())
    grouped = paths["arguments"] == "content" and not any(
        path.startswith("content") for what, path in paths.items() if what != "arguments"
    )
    if each and patterned:
        raise _refused("tool_calls.open_pattern opens a list of calls, whose opening must be a text")
    if kind == "python-call-list" and paths != {"name": "content.name", "arguments": "content.arguments"}:
        raise _refused("tool_calls.transform must take the name and the arguments of Python calls as they are")
    if (kind == "xml-inline" and (each or not grouped)) or not (members or grouped):
        raise _refused(f"tool_calls.transform takes a call from {', '.join(paths.values())}, which do not go together")


def _reasoning(field: Mapping[str, Any]) -> list[Reasoning]:
    opens, closes = _marks(field, "open", "thinking"), _marks(field, "close", "thinking")
    if not opens or len(closes) != 1:
        raise _refused("the field thinking must say by which text it opens and by which one text it closes")
    return [Reasoning(open=opened, close=closes[0]) for opened in opens]


def _marks_of(field: Mapping[str, Any], name: str) -> list[str]:
    return [*_marks(field, "open", name), *_marks(field, "close", name)]


def _marks(field: Mapping[str, Any], side: str, name: str) -> list[str]:
    """Return the texts that open or close a region, space around them aside."""
    if f"{side}_pattern" in field:
        return _literals(field[f"{side}_pattern"], f"{name}.{side}_pattern")
    given = field.get(side, [])
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise _refused(f"{name}.{side} must be a text or a list of texts, but is {given!r}")
    return list(dict.fromkeys(text.strip() for text in texts))


def _literals(pattern: Any, where: str) -> list[str]:
    """Return the texts that a pattern matches, space aside: one, or the alternatives of one group."""
    plain = _SPACES.sub("", _text(pattern, where)).removeprefix("^").removesuffix("$")
    if plain.startswith("(?:") and plain.endswith(")"):
        plain = plain[3:-1]
    parts = [part for part in re.split(r"(?<!\\)\|", plain) if part not in ("", "^", "$", r"\Z")]
    if not parts or not all(_LITERAL.fullmatch(part) for part in parts):
        raise _refused(f"{where} must match a text, or one of several, but is {pattern!r}")
    return list(dict.fromkeys(_unescaped(part) for part in parts))


def _text(pattern: Any, where: str) -> str:
    if not isinstance(pattern, str):
        raise _refused(f"{where} must be a regular expression, but is {pattern!r}")
    return pattern


def _prefix(pattern: str) -> str:
    """Return the text that all that a pattern matches begins with."""
    match = _LITERAL.match(pattern)
    if not match:
        return ""
    # What a quantifier applies to is no part of it.
    end = match.end() - (pattern[match.end() : match.end() + 1] in ("*", "+", "?", "{") and 1)
    return _unescaped(pattern[:end])


def _unescaped(literal: str) -> str:
    return re.sub(r"\\(.)", r"\1", literal)


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise _refused(f"{where} is no regular expression: {error}") from error


def _refused(reason: str) -> SGLangConfigError:
    return SGLangConfigError(
        f"the response template cannot be read strictly: {reason}",
        hint="name the format's own parser: get_tool_parser(NAME), with NAME from docs/tool-parsers.md",
    )

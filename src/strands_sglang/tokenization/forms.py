"""In which form a template takes messages that can be given in several.

Owns the choice between forms that say the same: call arguments as a mapping or as JSON text, empty content beside
calls as "" or as nothing, blocks of text as blocks or as one text. Invariant: what a template takes as it comes is
given as it comes. The choice is made by rendering a probe, so that nothing is lost unnoticed: content that a template
cannot express in any form is refused.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from strands_sglang.errors import ChatTemplateError, UnsupportedContentError

Render = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
EmptyContent = Literal["keep", "omit", "null"]

_ARGUMENTS = {"key": "qvalue"}
_CALL = {"id": "call00000", "type": "function", "function": {"name": "probe", "arguments": _ARGUMENTS}}
_USER = {"role": "user", "content": "Hi."}
_CALLING = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "call00000", "name": "probe", "content": "1"}
_TOOL = {
    "type": "function",
    "function": {"name": "probe", "description": "Probe.", "parameters": {"type": "object", "properties": {}}},
}
_BEFORE: Mapping[str, list[dict[str, Any]]] = {
    "user": [],
    "system": [],
    "developer": [],
    "assistant": [_USER],
    "tool": [_USER, _CALLING],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How a template wants calls in history, where it does not take them as they come.

    Attributes:
        text_arguments: Arguments are passed as JSON text instead of a mapping.
        empty_content: What becomes of empty content beside calls: "keep" it, "omit" the key, or pass None as "null".
            Some templates drop the calls otherwise.
    """

    text_arguments: bool = False
    empty_content: EmptyContent = "keep"

    def apply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message in this form."""
        if not message.get("tool_calls"):
            return message
        message = dict(message)
        if self.empty_content != "keep" and not message.get("content"):
            message.pop("content", None)
            if self.empty_content == "null":
                message["content"] = None
        if self.text_arguments:
            message["tool_calls"] = [_with_text_arguments(call) for call in message["tool_calls"]]
        return message


class Forms:
    """The forms one template takes."""

    def __init__(self, render: Render, name: str) -> None:
        """Probe the template.

        Args:
            render: Renders messages and tools as they are.
            name: Name of the tokenizer, for messages.
        """
        self._render = render
        self._name = name
        self._native: dict[tuple[str, frozenset[str]], bool] = {}
        self._call_form = self._find_call_form()

    def apply(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages in the forms the template takes.

        Raises:
            UnsupportedContentError: If a message holds blocks that the template cannot express.
        """
        return [self._call_form.apply(self._expressed(message, i)) for i, message in enumerate(messages)]

    def _find_call_form(self) -> CallForm:
        """Return the first form in which the template prints the arguments of calls, and as data."""
        forms = itertools.product(((), (_TOOL,)), (False, True), get_args(EmptyContent))
        for tools, text_arguments, empty_content in forms:
            form = CallForm(text_arguments=text_arguments, empty_content=empty_content)
            text = self._try([_USER, form.apply(_CALLING), _RESULT], tools)
            if text is not None and "qvalue" in text and str(_ARGUMENTS) not in text:
                return form
        return CallForm()

    def _expressed(self, message: Mapping[str, Any], index: int) -> dict[str, Any]:
        """Return a message whose blocks the template takes: as they are, or text blocks joined by line breaks."""
        # transformers drops keys that are None, and templates rely on it.
        message = {key: value for key, value in message.items() if value is not None}
        content = message.get("content")
        if not isinstance(content, list | tuple):
            return message
        kinds = frozenset(_kind(block, self._name, index) for block in content)
        if self._takes_blocks(str(message.get("role")), kinds):
            return message
        if kinds <= {"text"}:
            return {**message, "content": "\n".join(str(block["text"]) for block in content)}
        raise UnsupportedContentError(
            f"message {index} ({message.get('role')}) holds blocks of {', '.join(sorted(kinds))}, which the chat "
            f"template of {self._name} does not write out",
            model=self._name,
            message_index=index,
        )

    def _takes_blocks(self, role: str, kinds: frozenset[str]) -> bool:
        known = self._native.get((role, kinds))
        if known is None:
            known = all(self._takes_block(role, kind) for kind in kinds | {"text"})
            self._native[role, kinds] = known
        return known

    def _takes_block(self, role: str, kind: str) -> bool:
        """Return whether the template writes texts of blocks like a text, and a block of another kind as something."""
        plain = self._with_content(role, "qone")
        blocks = [{"type": "text", "text": "qone"}]
        if kind == "text":
            two = self._with_content(role, [*blocks, {"type": "text", "text": "qtwo"}])
            return plain is not None and self._with_content(role, blocks) == plain and "qtwo" in (two or "")
        other = self._with_content(role, [*blocks, {"type": kind, kind: "data:,"}])
        return other is not None and other != plain and "data:," not in other

    def _with_content(self, role: str, content: Any) -> str | None:
        message = {"role": role, "content": content}
        if role == "tool":
            message = {**_RESULT, "content": content}
        after = [_USER] if role in ("system", "developer") else []
        return self._try([*_BEFORE.get(role, []), message, *after], ())

    def _try(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str | None:
        try:
            form = getattr(self, "_call_form", CallForm())
            return self._render([form.apply(dict(message)) for message in messages], tools)
        except ChatTemplateError:
            return None


def _kind(block: Any, name: str, index: int) -> str:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        raise UnsupportedContentError(
            f"message {index} holds a content block without a type: {str(block)[:60]}", model=name, message_index=index
        )
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        raise UnsupportedContentError(
            f"message {index} holds a text block without text: {str(block)[:60]}", model=name, message_index=index
        )
    return str(block["type"])


def _with_text_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    if isinstance(function.get("arguments"), Mapping):
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": function}

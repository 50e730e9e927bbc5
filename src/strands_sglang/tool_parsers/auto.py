"""Which format does a model write? Its chat template tells: it renders a call, and the format is the one that reads it.

Owns `detect_format`. A template that renders no call is judged by the delimiters in its text, and if those do not tell,
by the response template that a tokenizer may come with. Where that leaves none or several it refuses and lists what it
found: a wrong parser loses calls without a sound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers.registry import FORMATS, get_tool_parser
from strands_sglang.tool_parsers.response_template import template_of
from strands_sglang.tool_parsers.result import ToolParseStatus

_DECLARED = "response_template"
_NAMED = [name for name in FORMATS if name != _DECLARED]

_NAME = "probe_tool"
_TEXTS = ("\na b\n", "a b")
"""What the call says. The line breaks tell apart formats that frame values with them; some templates take none."""

_QUESTION = "What does the probe say?"
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "Probes.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "A text."},
                "count": {"type": "integer", "description": "A count."},
            },
            "required": ["text", "count"],
        },
    },
}

_TURN_END = re.compile(r"<[^<>]*>\s*\Z")

_TWINS = {"ernie45": ("hermes", "<response>"), "mistral": ("mistral_v3", ""), "hunyuan": ("hy_v3", "")}
"""Formats that read what another one reads too, that other one, and the text that speaks for the first; "" for none."""

_EVIDENCE = {
    "deepseek_v3": ("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json"),
    "apertus": ("<|tools_prefix|>", "<|tools_suffix|>"),
    "granite": ("<|tool_call|>",),
    "lfm2": ("<|tool_list_start|>",),
    "kimi_k2": ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"),
    "phi4_mini": ("functools[",),
    "minimax_m1": ("<tool_calls></tool_calls> XML tags", "<beginning_of_sentence>"),
    "nemotron_v2": ("<TOOLCALL>",),
    "step3": ("<｜tool_calls_begin｜>", "<steptml:invoke"),
}
"""Text that speaks for a format in templates that do not render a call given in the usual form."""


_MISPRINTED = ("step3",)
"""Formats whose own template prints calls wrong; any other that prints calls which nothing reads has another format."""


def detect_format(tokenizer: Any, chat_template: str | None = None) -> str:
    """Return the name of the format that a tokenizer's model writes.

    Args:
        tokenizer: A Hugging Face tokenizer.
        chat_template: The template to go by, where it is not the tokenizer's own.

    Returns:
        A name for `get_tool_parser`.

    Raises:
        SGLangConfigError: The template does not tell, or tells of several formats; the message lists them.
    """
    template = chat_template or getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("tool_use") or template.get("default")
    if not isinstance(template, str) and template_of(tokenizer) is not None:
        return _DECLARED
    if not isinstance(template, str):
        raise _undecided("the tokenizer has no chat template", _by_tokens(tokenizer, ""))
    rendered = False
    for text in _TEXTS:
        given = {"text": text, "count": 3}
        for answer in _rendered_calls(tokenizer, template, given):
            rendered = True
            found = _without_twins([name for name in _NAMED if _reads(name, answer, given)], template)
            if len(found) == 1:
                return found[0]
            if found:
                raise _undecided("several parsers read the calls that the chat template renders", found)
    evidence = {name: _EVIDENCE[name] for name in _MISPRINTED} if rendered else _EVIDENCE
    found = [name for name, texts in evidence.items() if all(text in template for text in texts)]
    if len(found) == 1:
        return found[0]
    if not found and template_of(tokenizer) is not None:
        return _DECLARED
    reason = "the chat template renders no tool call that a parser reads"
    raise _undecided(reason, found or _by_tokens(tokenizer, template))


def _rendered_calls(tokenizer: Any, template: str, given: dict[str, Any]) -> Iterator[str]:
    """Render an answer that makes the call, in each form that templates want."""
    question = {"role": "user", "content": _QUESTION}
    for arguments in (given, json.dumps(given)):
        for native_id in ("abcdef123", f"functions.{_NAME}:0"):
            call = {"id": native_id, "type": "function", "function": {"name": _NAME, "arguments": arguments}}
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                prompt = _render(tokenizer, template, [question], add_generation_prompt=True)
                whole = _render(tokenizer, template, [question, answer], add_generation_prompt=False)
            except Exception:  # a template may raise anything; the next form may suit it
                continue
            text = whole[_shared(prompt, whole) :]
            if _NAME in text:
                yield text
                yield _TURN_END.sub("", text)


def _shared(prompt: str, whole: str) -> int:
    """Return where the answer begins: behind what prompt and conversation share, cut back to the end of a mark."""
    if whole.startswith(prompt):
        return len(prompt)
    shared = next(i for i, (a, b) in enumerate(zip(prompt, whole + "\0", strict=False)) if a != b)
    return max(whole.rfind(end, 0, shared) + 1 for end in "\n>]")


def _render(tokenizer: Any, template: str, messages: list[Any], *, add_generation_prompt: bool) -> str:
    return str(
        tokenizer.apply_chat_template(
            messages,
            tools=[_TOOL],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
        )
    )


def _reads(name: str, answer: str, given: dict[str, Any]) -> bool:
    calls = get_tool_parser(name).parse(answer, tools=[_TOOL])
    read = [(call.name, call.input) for call in calls if call.status is ToolParseStatus.OK]
    return read == [(_NAME, given)] and len(calls) == 1


def _without_twins(found: list[str], template: str) -> list[str]:
    """Drop, of each two formats that read the same, the one that the template does not speak for."""
    for name, (other, text) in _TWINS.items():
        if name in found:
            found = [f for f in found if f != (other if text and text in template else name)]
    return found


def _by_tokens(tokenizer: Any, template: str) -> list[str]:
    """Return the formats of which at least the call's opener is a token, or stands in the template."""
    added = set(tokenizer.get_added_vocab())
    openers = {name: _opener(name) for name in _NAMED}
    return [name for name, opener in openers.items() if opener and (opener in added or opener in template)]


def _opener(name: str) -> str:
    parser = get_tool_parser(name)
    return str(getattr(parser, "group_opener", "") or getattr(parser, "opener", ""))


def _undecided(reason: str, candidates: list[str]) -> SGLangConfigError:
    listed = f"candidates: {', '.join(candidates)}" if candidates else "no parser's delimiters are among its tokens"
    hint = "name the parser: get_tool_parser(NAME), with NAME from docs/tool-parsers.md"
    return SGLangConfigError(f"cannot tell which tool parser to use: {reason}; {listed}", hint=hint)

"""What the template makes of what a call was given: an oracle that knows nothing of the library's conversion.

It renders with the `apply_chat_template` of transformers. Scripted answers are written as the template would print
them, so that equality is exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from strands_sglang import get_tokenizer
from strands_sglang.engine import TINY_MODEL

END = "<|im_end|>"
KEEP_REASONING = {"preserve_thinking": True}


@cache
def tokenizer() -> Any:
    return get_tokenizer(TINY_MODEL)


@dataclass(kw_only=True, eq=False)
class Call:
    """What one call of `stream` or `structured_output` was given, copied before anything could change it."""

    messages: list[dict[str, Any]]
    system: str | None
    specs: list[dict[str, Any]]
    options: dict[str, Any]
    thinking: bool


def rendered(call: Call) -> str:
    """What the template makes of what a call was given."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": spec["name"],
                "description": spec["description"],
                "parameters": spec["inputSchema"]["json"],
            },
        }
        for spec in call.specs
    ]
    options = {"enable_thinking": True, **KEEP_REASONING} if call.thinking else {}
    text = tokenizer().apply_chat_template(
        chat_of(call), tools=tools or None, add_generation_prompt=True, tokenize=False, **options
    )
    return str(text)


def chat_of(call: Call) -> list[dict[str, Any]]:
    chat: list[dict[str, Any]] = [{"role": "system", "content": call.system}] if call.system else []
    calls: list[dict[str, Any]] = []
    for message in call.messages:
        blocks = message["content"]
        if message["role"] == "assistant":
            calls = [block["toolUse"] for block in blocks if "toolUse" in block]
            chat.append(_assistant(blocks, calls))
            continue
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        chat += [{"role": "tool", "content": _result(result, calls)} for result in _ordered(results, calls)]
        rest = [block for block in blocks if "toolResult" not in block]
        if rest or not results:
            chat.append({"role": "user", "content": _text(rest)})
        calls = []
    return chat


def _assistant(blocks: Sequence[Any], calls: Sequence[Any]) -> dict[str, Any]:
    reasoning = [block["reasoningContent"]["reasoningText"]["text"] for block in blocks if "reasoningContent" in block]
    return {
        "role": "assistant",
        "content": _text([block for block in blocks if "text" in block]),
        "reasoning_content": "\n".join(reasoning),
        "tool_calls": [{"function": {"name": use["name"], "arguments": use["input"]}} for use in calls],
    }


def _ordered(results: Sequence[Any], calls: Sequence[Any]) -> list[Any]:
    """Results in the order of their calls; the nth result of an id belongs to the nth call of that id."""
    waiting, ordered = list(results), []
    for one in calls:
        for result in waiting:
            if result["toolUseId"] == one["toolUseId"]:
                ordered.append(result)
                waiting = [other for other in waiting if other is not result]
                break
    return ordered + waiting


def _result(result: Mapping[str, Any], calls: Sequence[Any]) -> str:
    failed = [one for one in calls if one["toolUseId"] == result["toolUseId"] and one["name"] == "invalid_tool_call"]
    return str(failed[0]["input"]["reason"]) if failed else _text(result["content"])


def _text(blocks: Iterable[Mapping[str, Any]]) -> str:
    texts = []
    for block in blocks:
        if "text" in block:
            texts.append(block["text"])
        elif "json" in block:
            texts.append(json.dumps(block["json"], ensure_ascii=False))
        elif "document" in block:
            document = block["document"]
            head = f'<document name="{document["name"]}" format="{document["format"]}">'
            texts.append(f"{head}\n{document['source']['bytes'].decode()}\n</document>")
        else:
            assert "cachePoint" in block
    return "\n".join(texts)

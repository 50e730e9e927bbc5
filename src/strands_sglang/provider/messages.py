"""Strands messages -> chat-template messages: every leaf of content appears, or an error says which cannot.

A pure function of the messages. Texts of one message are joined by a newline, results stand in the order of the calls
they answer, and text documents are written out under their name. What only steers another service (cache points,
signatures of reasoning, qualifiers of guarded content) and the status of a result, which Strands words in its content,
have no counterpart in a prompt and are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from strands_sglang.errors import UnsupportedContentError

INVALID_TOOL_CALL = "invalid_tool_call"
"""Reserved name under which a failed call attempt reaches the host, which knows no tool of that name."""

# Documents whose bytes are text; what others hold cannot be told without reading their format.
TEXT_DOCUMENTS = ("txt", "md", "csv", "html")

_KINDS = frozenset(
    {"audio", "cachePoint", "citationsContent", "document", "guardContent", "image", "json", "reasoningContent", "text",
     "toolResult", "toolUse", "video"}
)  # fmt: skip

Block = Mapping[str, Any]
ChatMessage = dict[str, Any]
Part = dict[str, str]


def to_chat(
    messages: Sequence[Mapping[str, Any]], start: int, stop: int, *, system_prompt: str | None = None
) -> list[ChatMessage]:
    """Convert `messages[start:stop]`.

    Args:
        messages: The host's whole history; messages before `start` are looked at for the calls that results answer.
        start: Index of the first message to convert; with 0 the system message comes first.
        stop: Index after the last one.
        system_prompt: The system prompt, or None.

    Raises:
        UnsupportedContentError: If a message holds content that a prompt cannot express.
    """
    chat: list[ChatMessage] = []
    if start == 0 and system_prompt:
        chat.append({"role": "system", "content": system_prompt})
    for index in range(start, stop):
        message = messages[index]
        _check_blocks(message["content"], index)
        if message["role"] == "assistant":
            chat.append(_assistant(message["content"], index))
        elif message["role"] == "user":
            calls = _tool_uses(messages[index - 1]) if index else []
            chat.extend(_user(message["content"], calls, index))
        else:
            raise UnsupportedContentError(
                f"message {index} has role {message['role']!r}; expected 'user' or 'assistant'", message_index=index
            )
    return chat


def images_of(messages: Sequence[Mapping[str, Any]], start: int, stop: int) -> tuple[str, ...]:
    """Return the images of `messages[start:stop]` as data URLs, in the order in which `to_chat` places them."""
    if not any(_has_image(block) for message in messages[start:stop] for block in message["content"]):
        return ()
    return tuple(
        part["image"]
        for message in to_chat(messages, start, stop)
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image"
    )


def _has_image(block: Block) -> bool:
    """Whether a block is an image or a tool result with one."""
    return "image" in block or any("image" in piece for piece in block.get("toolResult", {}).get("content", ()))


def to_tools(tool_specs: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Convert Strands tool specs to the tool objects that chat templates take; None where there are none.

    Raises:
        UnsupportedContentError: If a tool has the reserved name.
    """
    tools = []
    for spec in tool_specs or ():
        if spec["name"] == INVALID_TOOL_CALL:
            raise UnsupportedContentError(
                f"a tool is named {INVALID_TOOL_CALL!r}, which is reserved for failed call attempts; rename it"
            )
        schema = spec["inputSchema"]
        tools.append(
            {
                "type": "function",
                "function": {
                    "name": spec["name"],
                    "description": spec["description"],
                    "parameters": schema.get("json", schema),
                },
            }
        )
    return tools or None


def system_text(system_prompt: str | None, system_prompt_content: Sequence[Block] | None) -> str | None:
    """Return the system prompt as one text; blocks are joined by a newline.

    Raises:
        UnsupportedContentError: If a system block is neither text nor a cache point.
    """
    if system_prompt_content is None:
        return system_prompt
    texts = []
    for block in system_prompt_content:
        if "text" in block:
            texts.append(block["text"])
        elif "cachePoint" not in block:
            raise UnsupportedContentError(f"system prompt: a block of kind {_kind(block)} cannot be rendered")
    return "\n".join(texts) if texts else None


def _tool_uses(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tool uses of an assistant message, in order."""
    if message["role"] != "assistant":
        return []
    return [block["toolUse"] for block in message["content"] if "toolUse" in block]


def _assistant(blocks: Sequence[Block], index: int) -> ChatMessage:
    """Convert an assistant message."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        if "text" in block:
            texts.append(block["text"])
        elif "citationsContent" in block:
            texts.extend(_cited(block["citationsContent"], index))
        elif "toolUse" in block:
            calls.append(_call(block["toolUse"], index))
        elif "reasoningText" in block.get("reasoningContent", {}):
            reasoning.append(block["reasoningContent"]["reasoningText"].get("text", ""))
        elif "cachePoint" not in block:
            raise _unsupported(block, index)
    message: ChatMessage = {"role": "assistant", "content": "\n".join(texts)}
    if reasoning:
        message["reasoning_content"] = "\n".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def _cited(block: Mapping[str, Any], index: int) -> list[str]:
    """Return the text of a block with citations, if it names no sources."""
    if block.get("citations"):
        raise UnsupportedContentError(
            f"message {index}: the sources of cited text cannot be rendered into a prompt",
            message_index=index,
            hint="write them into the text before it enters the history",
        )
    return [piece["text"] for piece in block["content"]]


def _call(tool_use: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Convert a tool use; a template takes its arguments as an object."""
    if not isinstance(tool_use["input"], Mapping):
        raise UnsupportedContentError(
            f"message {index}: the input of tool use {tool_use['name']!r} is {type(tool_use['input']).__name__}, "
            "not an object",
            message_index=index,
        )
    function = {"name": tool_use["name"], "arguments": tool_use["input"]}
    return {"id": tool_use["toolUseId"], "type": "function", "function": function}


def _user(blocks: Sequence[Block], calls: Sequence[Mapping[str, Any]], index: int) -> list[ChatMessage]:
    """Convert a user message: tool results first, in the order of their calls, then the rest."""
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    chat = [_tool_message(result, call, index) for result, call in _in_call_order(results, calls)]
    rest = [block for block in blocks if "toolResult" not in block]
    if rest or not results:
        chat.append({"role": "user", "content": _content(rest, _user_part, index)})
    return chat


def _in_call_order(
    results: Iterable[Mapping[str, Any]], calls: Iterable[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Pair results with their calls, in the order of the calls; results of unknown calls keep their order, last."""
    waiting = list(results)
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = []
    for call in calls:
        # Two calls may share an id: each takes the first result that is left.
        found = next((result for result in waiting if result["toolUseId"] == call["toolUseId"]), None)
        if found is not None:
            waiting.remove(found)
            pairs.append((found, call))
    return [*pairs, *((result, None) for result in waiting)]


def _tool_message(result: Mapping[str, Any], call: Mapping[str, Any] | None, index: int) -> ChatMessage:
    """Convert one tool result; that of a failed call attempt begins with the reason of its failure."""
    blocks: list[Block] = list(result["content"])
    if call is not None and call["name"] == INVALID_TOOL_CALL and "reason" in call["input"]:
        # What Strands itself says of a tool that it does not know is no news to the model; anything else is.
        told = [] if blocks == [{"text": f"Unknown tool: {INVALID_TOOL_CALL}"}] else blocks
        blocks = [{"text": call["input"]["reason"]}, *told]
    _check_blocks(blocks, index)
    content = _content(blocks, _result_part, index)
    message: ChatMessage = {"role": "tool", "tool_call_id": result["toolUseId"], "content": content}
    if call is not None:
        message["name"] = call["name"]
    return message


def _content(blocks: Iterable[Block], convert: Callable[[Block, int], Part | None], index: int) -> str | list[Part]:
    """Return one text where all blocks are text, else a list of parts."""
    parts = [part for block in blocks if (part := convert(block, index)) is not None]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _user_part(block: Block, index: int) -> Part | None:
    """Convert a block of a user message; None for what has no text."""
    if "guardContent" in block:
        return {"type": "text", "text": block["guardContent"]["text"]["text"]}
    return _result_part(block, index)


def _result_part(block: Block, index: int) -> Part | None:
    """Convert a block that both user messages and tool results may hold; None for what has no text."""
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    if "json" in block:
        return {"type": "text", "text": _json(block["json"], index)}
    if "document" in block:
        return {"type": "text", "text": _document(block["document"], index)}
    if "image" in block:
        return {"type": "image", "image": _data_url(block["image"], index)}
    if "cachePoint" in block:
        return None
    raise _unsupported(block, index)


def _json(value: Any, index: int) -> str:
    """Return a value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise UnsupportedContentError(
            f"message {index}: a json block does not hold JSON: {error}", message_index=index
        ) from error


def _document(document: Mapping[str, Any], index: int) -> str:
    """Return a text document under its name, format and context."""
    described = {name: document[name] for name in ("name", "format", "context") if document.get(name) is not None}
    what = f"the document {document.get('name')!r}"
    if document.get("format") not in TEXT_DOCUMENTS:
        raise UnsupportedContentError(
            f"message {index}: {what} has the format {document.get('format')!r}; only {', '.join(TEXT_DOCUMENTS)} can "
            "be written into a prompt",
            message_index=index,
            hint="convert it to text before it enters the history",
        )
    try:
        text = _bytes(document.get("source", {}), what, index).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnsupportedContentError(
            f"message {index}: {what} is not text in UTF-8: {error}", message_index=index
        ) from error
    attributes = "".join(f" {name}={_json(value, index)}" for name, value in described.items())
    return f"<document{attributes}>\n{text}\n</document>"


def _data_url(image: Mapping[str, Any], index: int) -> str:
    """Return an image as a data URL."""
    content = _bytes(image["source"], "an image", index)
    return f"data:image/{image['format']};base64,{base64.b64encode(content).decode('ascii')}"


def _bytes(source: Mapping[str, Any], what: str, index: int) -> bytes:
    """Return the bytes of an image or document."""
    content = source.get("bytes")
    if not isinstance(content, bytes):
        given = "by location" if content is None else f"as {type(content).__name__}"
        raise UnsupportedContentError(
            f"message {index}: {what} is given {given}; only bytes can be sent", message_index=index
        )
    return content


def _check_blocks(blocks: Iterable[Block], index: int) -> None:
    """Refuse a block that is of two kinds: only one of them would appear."""
    for block in blocks:
        if len(block) > 1 and len(kinds := sorted(_KINDS & block.keys())) > 1:
            raise UnsupportedContentError(
                f"message {index}: one content block is of the kinds {' and '.join(kinds)}; give each its own",
                message_index=index,
            )


def _kind(block: Block) -> str:
    """Return a block's kind as its key."""
    return repr(next(iter(block), "empty"))


def _unsupported(block: Block, index: int) -> UnsupportedContentError:
    """Say which block of which message cannot be rendered."""
    return UnsupportedContentError(
        f"message {index}: a content block of kind {_kind(block)} cannot be rendered into a prompt",
        message_index=index,
        hint="convert it to text before it enters the history",
    )

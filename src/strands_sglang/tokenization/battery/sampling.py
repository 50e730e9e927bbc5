"""What a model would sample for a turn, told from a template's own renderings.

Owns the guess at a sampled text: what the template writes for the turn when it is the last message, after the
generation prompt, up to the token that stops the engine. Where prompt and history disagree about reasoning (a prompt
that opens a block which history does not show), the text is what a model has to write after that prompt.
Used by the template check only; never on the way of a real turn, whose ids come from the engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Opening and closing marks of reasoning blocks, with the blanks a model writes around the closing one.
_MARKS = (
    ("<think>", "\n</think>\n\n"),
    ("<think:opensource>", "</think:opensource>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<longcat_think>", "\n</longcat_think>\n"),
    ("<|channel>thought", "\n<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|start_think|>", "<|end_think|>"),
    ("<|thought_start|>", "<|thought_end|>"),
    ("<thinking>", "\n</thinking>\n"),
    ("<reasoning>", "\n</reasoning>\n"),
    ("<thought>", "\n</thought>\n"),
)
_ANALYSIS = "<|channel|>analysis<|message|>"
_ANY_MARK = "|".join(re.escape(mark.strip()) for pair in _MARKS for mark in pair)
_MARK = re.compile(_ANY_MARK)
_RUN = re.compile(rf"(?:(?:{_ANY_MARK})\s*)+")
_LAST_RUN = re.compile(rf"(?:(?:{_ANY_MARK})\s*)+\Z")
_CLOSING = re.compile("|".join(re.escape(close.strip()) for _, close in _MARKS))
_BLOCK = re.compile(
    rf"\s*(?:(?!{_ANY_MARK}).)*?(?:{_ANY_MARK})?(?:(?!{_ANY_MARK}).)*?(?:{_CLOSING.pattern})\s*", re.DOTALL
)
# What stands around reasoning: tags and control tokens, names of channels and roles, blanks.
_AROUND = re.compile(r"<[^<>]{0,40}>|\[/?THINK\]|\b(?:thought|analysis|final|assistant)\b|\s+")
_TAG = re.compile(r"</?[^<>\s]{1,40}>")
_ANCHOR = 80

Find = Callable[[str], Iterator[re.Match[str]]]
"""Finds the control tokens in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A turn as a model would write it.

    Attributes:
        text: Its text, without the stop token.
        stop: Text of the control token that ends it; "" where the template writes none and nothing follows.
        prompt_tail: The end of the generation prompt that history may lack: marks of reasoning.
        reasoned: Whether the text holds the message's reasoning.
        written: Whether the template writes the message's calls, if it has any.
        as_last: The turn as the template writes it where it is the last message, without marks of reasoning.
    """

    text: str
    stop: str
    prompt_tail: str
    reasoned: bool
    written: bool
    as_last: str


def expect(
    message: Mapping[str, Any],
    *,
    prompt: str,
    whole: str,
    following: Callable[[], str],
    find: Find,
    eos: str,
) -> Expectation:
    """Return what a model would sample.

    Args:
        message: The assistant message.
        prompt: Rendering of what is before it, with the generation prompt.
        whole: Rendering that ends with it, without one.
        following: Makes the rendering up to the next prompt; asked for only where the turn's own end is not written.
        find: Finds the control tokens in a text.
        eos: Text of the end-of-sequence token, or "".
    """
    head, tail, body = split_turn(prompt, whole, find)
    content = message.get("content")
    body = _without_next_prompt(body, prompt, find)
    calls = message.get("tool_calls") or ()
    if _goes_on(body, message, find):
        body = _without_more(body, split_turn(prompt, following(), find)[2], message, find)
    body, stop = _split_stop(body, find, eos, content)
    if calls and not _is_written(calls[0], body):
        # Some templates write a call in history only.
        history = _split_history(split_turn(prompt, following(), find)[2], calls, find)
        body, stop = history or (body, stop)
    if not stop:
        body = _without_separator(body, "" if calls else content)
        separator, stop = _next_header(following(), head[-_ANCHOR:] + body, find)
        body += separator
    reasoning, as_last = str(message.get("reasoning_content") or ""), without_marks(body) + stop
    if tail.strip():
        body = _after_marks(body, reasoning, closing_of(prompt))
    written = not calls or _is_written(calls[0], body)
    if calls:
        body = body if written else body + calls_as_text(calls)
        body = _text_before_calls(body, str(content or ""), calls[0]["function"]["name"])
    return Expectation(
        text=body,
        stop=stop,
        prompt_tail=max(tail if only_marks(tail) else "", _marks_at_end(prompt), key=len),
        reasoned=bool(reasoning) and reasoning in body,
        written=written,
        as_last=as_last,
    )


def split_turn(prompt: str, whole: str, find: Find) -> tuple[str, str, str]:
    """Split a prompt, and the rendering that has the turn after it, at the border between them.

    Returns:
        The prompt without its marks of reasoning that history lacks; those marks; the turn.
    """
    border = _border(prompt, whole, find)
    if only_marks(prompt[border:]):
        return prompt[:border], prompt[border:], whole[border:]
    # What was before the prompt is written otherwise by now: the border is where the prompt's end stands last.
    marks = _marks_at_end(prompt)
    head = prompt.removesuffix(marks)
    at = whole.rfind(head[-_ANCHOR:])
    if at < 0:
        return prompt[:border], prompt[border:], whole[border:]
    return head, marks, whole[at + len(head[-_ANCHOR:]) :]


def only_marks(text: str) -> bool:
    """Return whether a text holds nothing but marks of reasoning and blanks."""
    return not _RUN.sub("", text).strip()


def only_around(text: str) -> bool:
    """Return whether a text holds nothing but tags, control tokens, names of channels and blanks."""
    return not _AROUND.sub("", text)


def differing(one: str, other: str) -> tuple[str, str]:
    """Return what is left of two texts without what they begin and end with alike, marks of reasoning as wholes."""
    end = _common_end(one, other)
    one, other = one[: len(one) - end], other[: len(other) - end]
    pairs = enumerate(zip(one, other, strict=False))
    start = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    for text in (one, other):
        start -= next((start - m.start() for m in _MARK.finditer(text) if m.start() < start < m.end()), 0)
    return one[start:], other[start:]


def _common_end(one: str, other: str) -> int:
    pairs = enumerate(zip(reversed(one), reversed(other), strict=False))
    common = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    for text in (one, other):
        border = len(text) - common
        common -= next((m.end() - border for m in _MARK.finditer(text) if m.start() < border < m.end()), 0)
    return common


def without_marks(text: str) -> str:
    """Return a text without marks of reasoning and the blanks after them."""
    return _RUN.sub("", text)


def as_parsed(message: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """Return the message as a parser makes it of the text: what stands in a channel for reasoning is reasoning."""
    content = message.get("content")
    if not isinstance(content, str) or not content or _ANALYSIS + content not in text:
        return message
    return {**message, "content": "", "reasoning_content": content}


def _words_of(call: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that a call is written: a template may write its id in place of its name."""
    yield call["function"]["name"]
    yield call["id"]
    yield from (value for value in call["function"]["arguments"].values() if isinstance(value, str))


def _is_written(call: Mapping[str, Any], text: str) -> bool:
    return any(word in text for word in _words_of(call))


def calls_as_text(calls: Sequence[Mapping[str, Any]]) -> str:
    """Return calls in some form, for a template that does not write them."""
    return "".join(json.dumps(call["function"]) for call in calls)


def _text_before_calls(body: str, content: str, name: str) -> str:
    """Return a turn with the text beside its calls where a model writes it: templates move it or leave it out."""
    at = body.find(content.strip())
    if 0 <= at < body.find(name):
        return body
    body = body.replace(content, "", 1) if at >= 0 else body
    block = _BLOCK.match(body)
    return body[: block.end()] + content + body[block.end() :] if block else content + body


def _after_marks(body: str, reasoning: str, closing: str | None) -> str:
    """Return a turn as it goes on after a prompt whose marks of reasoning history lacks.

    Args:
        body: The turn as history has it.
        reasoning: The message's reasoning.
        closing: What closes the block the prompt leaves open; None if it leaves none open.
    """
    if closing is None:
        return _BLOCK.sub("", body, count=1) if _BLOCK.match(body) else body
    if reasoning and reasoning in body:
        return body[body.index(reasoning) :]
    if _CLOSING.match(body.lstrip()):
        return reasoning + body
    return reasoning + closing + (_BLOCK.sub("", body, count=1) if _BLOCK.match(body) else body)


def closing_of(prompt: str) -> str | None:
    """Return what closes the reasoning that a prompt leaves open; None if it leaves none open."""
    return next((close for opening, close in _MARKS if prompt.rstrip().endswith(opening)), None)


def _marks_at_end(prompt: str) -> str:
    run = _LAST_RUN.search(prompt)
    return run[0] if run else ""


def _border(prompt: str, whole: str, find: Find) -> int:
    """Return where prompt and whole part, never inside a control token or a tag of either."""
    pairs = enumerate(zip(prompt, whole, strict=False))
    border = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(whole)))
    if border == len(prompt):
        return border
    start = max(0, border - _ANCHOR)
    for text in (prompt, whole):
        near = text[start : border + _ANCHOR]
        wholes = [*find(near), *_TAG.finditer(near)]
        border = min([border, *(start + m.start() for m in wholes if m.start() < border - start < m.end())])
    return border


def _without_next_prompt(body: str, prompt: str, find: Find) -> str:
    """Return a turn without a generation prompt behind it, which some templates write unasked."""
    pairs = enumerate(zip(reversed(prompt), reversed(body), strict=False))
    shared = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(body)))
    tokens = list(find(body[len(body) - shared :]))
    # What ends a turn is shared as well: only a header, of several tokens, is taken for a prompt.
    return body[: len(body) - shared] + tokens[0][0] if len(tokens) > 2 and tokens[0].start() == 0 else body


def _goes_on(body: str, message: Mapping[str, Any], find: Find) -> bool:
    """Return whether ordinary text stands behind a control token behind what a message holds."""
    content, calls = message.get("content"), message.get("tool_calls") or ()
    words = [*([content] if isinstance(content, str) else []), *(word for call in calls for word in _words_of(call))]
    rest = body[max((body.find(word) + len(word) for word in words if word in body), default=0) :]
    return next(find(rest), None) is not None and bool(_ordinary(rest, find))


def _ordinary(text: str, find: Find) -> str:
    """Return the text behind the first control token of a text, without any further ones."""
    pieces, end = [], len(text)
    for number, match in enumerate(find(text)):
        if number:
            pieces.append(text[end : match.start()])
        end = match.end()
    return "".join([*pieces, text[end:]]).strip()


def _without_more(body: str, history: str, message: Mapping[str, Any], find: Find) -> str:
    """Return a turn without what a template writes behind the last message only, such as a note or an unasked header.

    Args:
        body: The turn and what is behind it where it is last.
        history: The turn and what is behind it where more messages follow.
        message: The turn's message.
        find: Finds the control tokens in a text.
    """
    pairs = enumerate(zip(body, history, strict=False))
    shared = body[: next((i for i, (a, b) in pairs if a != b), min(len(body), len(history)))]
    ends = list(find(shared))
    if not ends or not _ordinary(body[ends[-1].start() :], find):
        return body
    turn = shared[: ends[-1].end()]
    content, calls = message.get("content"), message.get("tool_calls") or ()
    written = all(_is_written(call, turn) or not _is_written(call, body) for call in calls)
    return turn if written and (not isinstance(content, str) or content in turn) else body


def _split_stop(body: str, find: Find, eos: str, content: Any) -> tuple[str, str]:
    """Split the rest of a rendering into the turn's text and the token that stops the engine, if one is written."""
    text, stop = body.rstrip(), ""
    for match in reversed(list(find(text))):
        if stop and isinstance(content, str) and content and text.endswith(content):
            break  # a blank text, and what is in front of it does not end the turn
        if match.end() != len(text.rstrip()) or _closes_a_block(match[0], text.rstrip()):
            break
        text, stop = text[: match.start()], match[0]
        if stop == eos:
            break
    if eos and eos in text:
        # Some templates end the last message twice; an engine stops at the first end.
        return text[: text.index(eos)], eos
    return (text, stop) if stop else (body, "")


def _split_history(body: str, calls: Sequence[Mapping[str, Any]], find: Find) -> tuple[str, str] | None:
    """Split a turn off what follows it, by its calls; None if they are not there."""
    end = 0
    for call in calls:
        name, _, *values = _words_of(call)
        if (at := body.find(name, end)) < 0:
            return None
        end = at + len(name)
        end = max([end, *(body.find(value, end) + len(value) for value in values if value in body[end:])])
    for match in find(body):
        if match.start() >= end and not _closes_a_block(match[0], body[: match.end()]):
            return body[: match.start()], match[0]
    return None


def _without_separator(body: str, content: Any) -> str:
    """Return a turn, whose end the template does not write, without what separates it from the next."""
    at = body.rfind(content) if isinstance(content, str) and content else -1
    return body[: at + len(content)] if at >= 0 else body.rstrip()


def _next_header(text: str, before: str, find: Find) -> tuple[str, str]:
    """Return the control token that follows the last occurrence of a text, and the blanks between the two."""
    at = text.rfind(before)
    rest = text[at + len(before) :] if at >= 0 else ""
    blanks = rest[: len(rest) - len(rest.lstrip())]
    match = next(find(rest), None)
    return (blanks, match[0]) if match is not None and match.start() == len(blanks) else ("", "")


def _closes_a_block(token: str, text: str) -> bool:
    """Return whether a token closes what was opened inside the turn, such as a tool call."""
    names = (("end", "begin"), ("END", "BEGIN"), ("end", "start"), ("END", "START"))
    opened = {token.replace("</", "<", 1), token.replace("[/", "[", 1), *(token.replace(*pair) for pair in names)}
    if token.endswith("|>") and not token.startswith("<|"):
        opened.add(f"<|{token[1:-2]}>")
    return any(mark in text[: -len(token)] for mark in opened - {token})

"""Whether a refusal is true.

Owns the search for what makes exact continuation impossible, in whole renderings alone: the template itself refuses,
rewrites what it wrote before, leaves out or moves what is in the turn, or puts no control token between the turn and
what follows. A refusal that none of these confirms is a fault of whoever refused.
Never looks at how the refusal came about or what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from strands_sglang.errors import ChatTemplateError

from .rehearsal import Rehearsal
from .sampling import Find, only_marks, split_turn, without_marks
from .shape import SOMETHING, Message

_WORDS = re.compile(r"[A-Za-z0-9_]{3,}")


def why_refused(rehearsal: Rehearsal, prompts: int) -> str | None:
    """Return what confirms that a shape has to be refused, or None.

    Args:
        rehearsal: The shape as far as it was played.
        prompts: How many prompts were made before the refusal.
    """
    sampled = rehearsal.shape.sampled()
    ends = [rehearsal.shape.given, *sampled[1:], len(rehearsal.messages)]
    messages = rehearsal.messages[: ends[prompts]]
    try:
        _render(rehearsal, messages)
    except ChatTemplateError as error:
        return f"the template refuses the whole conversation ({error.__cause__ or error})"
    if prompts == 0:
        return None
    try:
        return _unstable(
            rehearsal, [_probe(message, rehearsal.reference.find) for message in messages], sampled[prompts - 1]
        )
    except ChatTemplateError:
        return None


def _render(rehearsal: Rehearsal, messages: Sequence[Message], *, generation_prompt: bool = True) -> str:
    return rehearsal.reference.render(messages, rehearsal.shape.tools, generation_prompt=generation_prompt)


def _unstable(rehearsal: Rehearsal, messages: Sequence[Message], index: int) -> str | None:
    """Return how the rendering of a turn as history differs from what was there before, reasoning apart.

    Args:
        rehearsal: The shape.
        messages: Its messages up to the prompt that was refused, without reasoning.
        index: The turn after which it was refused.
    """
    find = rehearsal.reference.find
    context = _render(rehearsal, messages[:index], generation_prompt=False)
    prompt, whole = _render(rehearsal, messages[:index]), _render(rehearsal, messages)
    if not prompt.startswith(context):
        return "asking for a generation prompt changes what the template writes before it"
    # Marks of reasoning come and go without anything else being moved.
    stable, rendered = without_marks(context), without_marks(whole)
    if not rendered.startswith(stable):
        return f"what the template wrote before the turn changes: {_first_change(stable, rendered)}"
    if not only_marks(split_turn(prompt, whole, find)[1]):
        return f"history does not begin the turn as the generation prompt does ({prompt[len(context) :]!r})"
    turn = messages[index]
    if not turn.get("tool_calls") and not str(turn["content"]).strip():
        filled = [*messages[:index], {**turn, "content": SOMETHING}, *messages[index + 1 :]]
        if without_marks(_render(rehearsal, filled)).replace(SOMETHING, "") != rendered:
            return "the template writes a turn without text otherwise than one with text"
    return _misplaced(messages[index:], rendered[len(stable) :], find)


def _probe(message: Message, find: Find) -> Message:
    """Return a message without reasoning and control tokens, and with some text if it has none to look for."""
    probe = {key: value for key, value in message.items() if key != "reasoning_content"}
    if isinstance(probe["content"], str):
        for match in reversed(list(find(probe["content"]))):
            probe["content"] = f"{probe['content'][: match.start()]}words{probe['content'][match.end() :]}"
    return probe if any(_leaves(probe)) or probe["role"] == "assistant" else {**probe, "content": SOMETHING}


def _misplaced(messages: Sequence[Message], rest: str, find: Find) -> str | None:
    """Return which text of the turn, or of what follows, is not in its place."""
    position, bordered = 0, False
    for number, message in enumerate(messages):
        places = []
        for leaf in _leaves(message):
            found = rest.find(leaf, position)
            if found < 0:
                where = "the turn" if number == 0 else "a message after it"
                return f"the template {'writes in another order' if leaf in rest else 'leaves out'} {leaf!r} of {where}"
            places.append((found, found + len(leaf)))
        if not places:
            continue
        between = rest[position : min(places)[0]]
        if number and not bordered and next(find(between), None) is None:
            return f"no control token stands between the turn and what follows ({between!r})"
        position, bordered = max(end for _, end in places), number > 0
    return None


def _leaves(message: Message) -> Iterator[str]:
    """Yield a word of every text in a message that a rendering has to hold."""
    content = message.get("content") or ""
    for text in [content] if isinstance(content, str) else [block.get("text", "") for block in content]:
        yield from _word(text)
    for call in message.get("tool_calls") or ():
        yield from _word(call["function"]["name"])
        for value in call["function"]["arguments"].values():
            yield from _word(value)


def _word(value: Any) -> Iterator[str]:
    words = _WORDS.findall(value) if isinstance(value, str) else []
    if words:
        yield max(words, key=len)


def _first_change(before: str, after: str) -> str:
    shared = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    start = max(0, shared - 20)
    return f"{before[start : shared + 30]!r} becomes {after[start : shared + 30]!r}"

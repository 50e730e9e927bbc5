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
from .sampling import Find, closing_of, only_marks, split_turn, without_marks
from .shape import SOMETHING, Ending, Message, assistant, user

_WORDS = re.compile(r"[A-Za-z0-9_]{3,}")
_PLAIN = re.compile(r"\w[\w ]*\w", re.ASCII)


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
    probes = [_probe(message, rehearsal.reference.find) for message in messages]
    try:
        if prompts == 0:
            whole = _render(rehearsal, probes)
            return _begins_twice(whole, rehearsal.reference.find) or _left_out(probes, whole)
        return _unstable(rehearsal, probes, sampled[prompts - 1])
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
    rest = rendered[len(stable) :]
    return (
        _different_with_text(rehearsal, messages, index, stable, rest, asked=prompt != context)
        or _misplaced(messages[index:], rest, find)
        or _different_without_past(rehearsal, messages, index, rest)
    )


def _different_without_past(rehearsal: Rehearsal, messages: Sequence[Message], index: int, rest: str) -> str | None:
    """Return whether what follows the turn is written otherwise where the conversation before it is short."""
    last_user = max((i for i in range(index) if messages[i]["role"] == "user"), default=0)
    short = [message for i, message in enumerate(messages[:index]) if message["role"] == "system" or i == last_user]
    beginning = next(_leaves(messages[index]), None)
    try:
        whole = without_marks(_render(rehearsal, [*short, *messages[index:]]))
    except ChatTemplateError:
        return None
    if beginning is None or whole.count(beginning) != 1 or rest.count(beginning) != 1:
        return None
    after, after_all = whole.partition(beginning)[2], rest.partition(beginning)[2]
    if after == after_all:
        return None
    return f"what follows the turn depends on what was before it: {_first_change(after, after_all)}"


def _different_with_text(
    rehearsal: Rehearsal, messages: Sequence[Message], index: int, stable: str, rest: str, *, asked: bool
) -> str | None:
    """Return what a turn of plain text shows to stand in the way before or behind it.

    Args:
        rehearsal: The shape.
        messages: Its messages.
        index: The turn.
        stable: The rendering before the turn, without marks of reasoning.
        rest: The rendering from the turn on, without marks of reasoning.
        asked: Whether the template writes a generation prompt.
    """
    turn = messages[index]
    following = [user("Next")] if turn.get("tool_calls") else messages[index + 1 :]
    try:
        whole = _render(rehearsal, [*messages[:index], assistant(SOMETHING), *following])
    except ChatTemplateError:
        return None
    header, _, behind = without_marks(whole).removeprefix(stable).partition(SOMETHING)
    if not asked and header.strip():
        return f"the template asks for no generation prompt, yet opens the turn with {header!r}"
    if not turn.get("tool_calls") and not str(turn["content"]).strip() and header + behind != rest:
        return "the template writes a turn without text otherwise than one with text"
    return _ends_in_text(rehearsal, messages, index, behind) or _ends_before_calls(turn, behind, rest, rehearsal)


def _ends_in_text(rehearsal: Rehearsal, messages: Sequence[Message], index: int, behind: str) -> str | None:
    """Return whether ordinary text follows a turn directly, where no token ends it.

    Args:
        rehearsal: The shape.
        messages: Its messages.
        index: The turn.
        behind: What is behind a text in its place.
    """
    find = rehearsal.reference.find
    end = next(find(behind), None)
    if rehearsal.shape.ending is Ending.STOP:
        alone = _render(rehearsal, [*messages[:index], assistant(SOMETHING)], generation_prompt=False)
        if next(find(alone.rpartition(SOMETHING)[2]), None) is not None:
            return None
        merges = end is None or behind[: end.start()].strip()
        return f"no control token stands between a turn and what follows ({behind[:40]!r})" if merges else None
    if end is None or behind[: end.start()].strip():
        return f"the template ends a turn with ordinary text ({behind[:40]!r}), which would merge with a cut one"
    closing = closing_of(_render(rehearsal, messages[:index]))
    if closing is not None and next(find(closing), None) is None:
        return f"reasoning is closed with ordinary text ({closing.strip()!r}), which would merge with a cut turn"
    return None


def _ends_before_calls(turn: Message, behind: str, rest: str, rehearsal: Rehearsal) -> str | None:
    """Return whether what ends a turn stands between its text and its calls."""
    end = next(rehearsal.reference.find(behind), None)
    content, calls = turn["content"], turn.get("tool_calls")
    if end is None or not calls or not isinstance(content, str) or not content or content not in rest:
        return None
    between = rest.partition(content)[2].partition(calls[0]["function"]["name"])[0]
    return f"the template ends the turn ({end[0]!r}) between its text and its calls" if end[0] in between else None


def _probe(message: Message, find: Find) -> Message:
    """Return a message without reasoning and control tokens, and with some text if it has none to look for."""
    probe = {key: value for key, value in message.items() if key != "reasoning_content"}
    if isinstance(probe["content"], str):
        for match in reversed(list(find(probe["content"]))):
            probe["content"] = f"{probe['content'][: match.start()]}words{probe['content'][match.end() :]}"
    return probe if any(_leaves(probe)) or probe["role"] == "assistant" else {**probe, "content": SOMETHING}


def _begins_twice(whole: str, find: Find) -> str | None:
    one, other = (*find(whole[:200]), None, None)[:2]
    if one is None or other is None or one[0] != other[0] or (one.start(), other.start()) != (0, one.end()):
        return None
    return f"the template begins with {one[0]!r} twice"


def _left_out(messages: Sequence[Message], whole: str) -> str | None:
    """Return which text of any message is in no place."""
    leaves = (leaf for message in messages for leaf in _leaves(message))
    lost = next((leaf for leaf in leaves if leaf not in whole), None)
    return f"the template leaves out {lost!r}" if lost is not None else None


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
    """Yield what of a text every rendering has to hold: all of it if it is plain, else its longest word."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        yield value
    elif isinstance(value, str) and (words := _WORDS.findall(value)):
        yield max(words, key=len)


def _first_change(before: str, after: str) -> str:
    shared = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    start = max(0, shared - 20)
    return f"{before[start : shared + 30]!r} becomes {after[start : shared + 30]!r}"

"""What a template puts after a sampled turn, as text.

Owns the stand-in conversation: it has the shape of the real one (system messages, a user, an earlier exchange or tool
round where there was one, the turn with its real tool names and ids), and a marker in the place of what was sampled.
The text after the marker is the template's own: end of the turn, separator, new messages, generation prompt.
Invariant: `tail = closing of the last call + turn end + what follows`, and renderings of the stand-in that must agree
do, or `TemplateNotExactError` says which do not. Never looks at sampled text, never grows with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strands_sglang.errors import ChatTemplateError, TemplateNotExactError

from .template import ChatTemplate, shape
from .vocabulary import ControlToken, Vocabulary

Message = Mapping[str, Any]
_USER: Message = {"role": "user", "content": "Hi."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """The template's text after a sampled turn.

    Attributes:
        text: Everything after the turn's body, beginning with the turn end, content still disguised.
        ends: The control tokens that a model may have sampled to end the turn, with the position in `text` right after
            each: those of the turn end, or of the next role's header where the template writes no turn end.
        replaced: Control tokens that end a turn of this template elsewhere (as the last message, after a call, as
            another role's header) and that are not in `ends`: sampled here, the template replaces them.
        reasoning_close: What the template writes between reasoning and the answer, or "" where it writes none.
    """

    text: str
    ends: tuple[tuple[ControlToken, int], ...]
    replaced: frozenset[int]
    reasoning_close: str


class SuffixSource:
    """Derives suffixes for one template."""

    def __init__(self, template: ChatTemplate, vocabulary: Vocabulary) -> None:
        """Create it over a template and the tokenizer whose control tokens structure its text."""
        self._template = template
        self._vocabulary = vocabulary

    def suffix(
        self,
        context: Sequence[Message],
        turn: Message,
        new_messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        marker: str,
    ) -> Suffix:
        """Return what the template puts after a turn.

        Args:
            context: The messages before the turn, disguised.
            turn: The assistant message, disguised.
            new_messages: The messages after it, disguised.
            tools: The tools, disguised.
            marker: A character that none of them holds.
        """
        before = stand_in_context(context)
        calls = turn.get("tool_calls") or []
        stand_in = _stand_in_turn(calls, marker)
        prompt = self._template.render(before, tools)
        whole = self._template.render([*before, stand_in, *new_messages], tools)
        tail = self._after_marker(whole, _mark(marker, max(len(calls) - 1, 0)), stand_in)
        self._check_history(prompt, whole[: whole.index(marker)], stand_in)

        last = self._render_or_none([*before, stand_in], tools, generation_prompt=False)
        last_tail = last.rpartition(marker)[2] if last is not None else ""
        closing = self._call_closing(before, calls, tools, marker) if calls else ""
        if not tail.startswith(closing):
            raise self._not_exact(f"it closes a call in two ways ({closing!r} and {tail[: len(closing)]!r})")
        tail, last_tail = tail.removeprefix(closing), last_tail.removeprefix(closing)
        ends, replaced = self._ends(tail, last_tail)
        return Suffix(
            text=tail, ends=ends, replaced=replaced, reasoning_close=self._reasoning_close(before, tools, marker)
        )

    def _ends(self, tail: str, last_tail: str) -> tuple[tuple[tuple[ControlToken, int], ...], frozenset[int]]:
        tokens = [(self._vocabulary.tokens[m[0]], m.end()) for m in self._vocabulary.find(tail)]
        last = [self._vocabulary.tokens[m[0]] for m in self._vocabulary.find(last_tail)]
        # No turn end is written: then the model stops on the first token of what follows.
        count = len(last) or 1
        ends = tuple(tokens[:count])
        return ends, frozenset(token.id for token in last) - {token.id for token, _ in ends}

    def _after_marker(self, text: str, mark: str, stand_in: Message) -> str:
        if text.count(mark) != 1:
            raise self._not_exact(
                f"it renders the assistant turn {shape([stand_in])} {text.count(mark)} times instead of once"
            )
        return text.rpartition(mark)[2]

    def _check_history(self, prompt: str, history: str, stand_in: Message) -> None:
        """Require that the prompt stays as it is once the turn is history, reasoning marks aside."""
        common = next((i for i, (a, b) in enumerate(zip(prompt, history, strict=False)) if a != b), len(prompt))
        rest = prompt[common:]
        for match in reversed(list(self._vocabulary.find(rest))):
            if "think" in match[0].lower():
                rest = rest[: match.start()] + rest[match.end() :]
        if rest.strip():
            raise self._not_exact(
                f"once {shape([stand_in])} is history, the text before it changes: "
                f"{prompt[common - 20 : common + 40]!r} becomes {history[common - 20 : common + 40]!r}"
            )

    def _call_closing(
        self, before: Sequence[Message], calls: Sequence[Mapping[str, Any]], tools: Any, marker: str
    ) -> str:
        """Return what closes a call, apart from what ends the turn."""
        two = _stand_in_turn([*calls, {**calls[-1], "id": f"{calls[-1].get('id')}x"}], marker)
        text = self._render_or_none([*before, two], tools, generation_prompt=False)
        marks = [_mark(marker, i) for i in range(len(calls) + 1)]
        if text is None or any(text.count(mark) != 1 for mark in marks):
            return ""
        inner, outer = text.partition(marks[-2])[2], text.partition(marks[-1])[2]
        length = next((i for i, (a, b) in enumerate(zip(inner, outer, strict=False)) if a != b), len(outer))
        return outer[:length]

    def _reasoning_close(self, before: Sequence[Message], tools: Any, marker: str) -> str:
        turn = {"role": "assistant", "reasoning_content": _mark(marker, 1), "content": _mark(marker, 0)}
        text = self._render_or_none([*before, turn], tools, generation_prompt=False)
        if text is None or _mark(marker, 1) not in text:
            return ""
        return text.partition(_mark(marker, 1))[2].partition(_mark(marker, 0))[0]

    def _render_or_none(self, messages: Sequence[Message], tools: Any, *, generation_prompt: bool) -> str | None:
        try:
            return self._template.render(messages, tools, generation_prompt=generation_prompt)
        except ChatTemplateError:
            return None

    def _not_exact(self, reason: str) -> TemplateNotExactError:
        return TemplateNotExactError(
            f"the chat template of {self._template.name} cannot be continued exactly: {reason}",
            model=self._template.name,
        )


def stand_in_context(context: Sequence[Message]) -> list[Message]:
    """Return a short conversation of the shape of the real one.

    System messages at the head are kept as they are: templates print them late or read switches out of them.
    """
    roles = [message.get("role") for message in context]
    head = next((i for i, role in enumerate(roles) if role not in ("system", "developer")), len(context))
    short: list[Message] = list(context[:head])
    users = [i for i, role in enumerate(roles) if role == "user"]
    if not users:
        return short
    if any(role == "assistant" for role in roles[users[0] : users[-1]]):
        short += [_USER, {"role": "assistant", "content": "Hello."}]
    short.append(_USER)
    rounds = [m for m in context[users[-1] :] if m.get("role") == "assistant" and m.get("tool_calls")]
    if rounds and roles[-1] == "tool":
        call = {**rounds[-1]["tool_calls"][0]}
        call["function"] = {**call["function"], "arguments": {"a": "1"}}
        short.append({"role": "assistant", "content": "", "tool_calls": [call]})
        short.append({**context[-1], "content": "1", "tool_call_id": call.get("id"), "name": call["function"]["name"]})
    return short


def _stand_in_turn(calls: Sequence[Mapping[str, Any]], marker: str) -> dict[str, Any]:
    if not calls:
        return {"role": "assistant", "content": _mark(marker, 0)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {**call, "function": {**call["function"], "arguments": {"a": _mark(marker, i)}}}
            for i, call in enumerate(calls)
        ],
    }


def _mark(marker: str, number: int) -> str:
    return f"{marker}{number}{marker}"

"""Whether a prompt made piece by piece is what the template makes of the whole conversation.

Owns the verdict. A prompt is exact when its ids are those of the whole rendering. Otherwise every prompt part must
stand in the whole rendering as it is (see `alignment`), and each sampled turn that differs there must differ by a cause
that is shown by another rendering, not assumed. Anything else is a fault, told with the first token that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from strands_sglang.errors import ChatTemplateError

from .alignment import Scale, Span, align
from .rehearsal import Incremental, PlayedTurn, Reference, Step
from .sampling import calls_as_text, differing, only_around, only_marks, without_marks
from .shape import SOMETHING, Ending, Message, is_empty
from .verdict import Cause, Difference, Judgement, Verdict


class Judge:
    """Compares the prompts of one shape with whole renderings."""

    def __init__(self, tokenizer: Incremental, reference: Reference, *, by_text: bool) -> None:
        """Create it.

        Args:
            tokenizer: What made the prompts; decodes ids.
            reference: What makes whole renderings.
            by_text: Compare texts, not ids: for content that holds control tokens, which the reference cannot encode.
        """
        self._reference = reference
        self._scale = Scale(tokenizer, reference, by_text=by_text)

    def judge(self, step: Step) -> Judgement:
        """Return what came of a prompt."""
        judgement = self._compare(step)
        if judgement.verdict is not Verdict.FAULT:
            return judgement
        for cause, changed in self._variants(step):
            other = self._compare(changed)
            if other.verdict is not Verdict.FAULT:
                causes = tuple(dict.fromkeys((*other.causes, cause)))
                return Judgement(verdict=Verdict.EXPECTED, causes=causes, difference=judgement.difference)
        return judgement

    def _compare(self, step: Step) -> Judgement:
        whole, prompt = self._scale.of_text(step.whole), self._scale.of_ids(step.ids)
        causes = list(step.refused)
        if prompt == whole:
            return Judgement(verdict=Verdict.EXPECTED if causes else Verdict.EXACT, causes=tuple(causes))
        difference = self._difference(step, prompt, whole)
        spans = align(step, whole, self._scale)
        if isinstance(spans, str):
            return Judgement(verdict=Verdict.FAULT, detail=spans, difference=difference)
        for turn, span in zip(step.turns, spans, strict=True):
            explained = self._explain(step, turn, span)
            if isinstance(explained, str):
                return Judgement(verdict=Verdict.FAULT, detail=explained, difference=difference)
            causes += explained
        # A prompt that lacks nothing but marks at its own end leaves no turn to explain.
        found = tuple(dict.fromkeys(causes)) or (Cause.REASONING_MARKS,)
        return Judgement(verdict=Verdict.EXPECTED, causes=found, difference=difference)

    def _variants(self, step: Step) -> Iterator[tuple[Cause, Step]]:
        """Yield the step as it is rendered without what the template leaves out, with the cause that would show."""
        given = self._given_without_reasoning(step)
        if given is not None:
            yield Cause.REASONING, given
        beside = [turn.index for turn in step.turns if turn.held.get("tool_calls") and turn.held["content"]]
        if beside and (changed := self._rendered(step, dict.fromkeys(beside, ""))) is not None:
            yield Cause.TEXT, changed
        empty = [turn.index for turn in step.turns if is_empty(turn.held)]
        if empty and (changed := self._rendered(step, dict.fromkeys(empty, SOMETHING))) is not None:
            yield Cause.EMPTY, changed

    def _given_without_reasoning(self, step: Step) -> Step | None:
        """Return the step with a first prompt that lacks the reasoning of the messages that were given.

        None where there is none, or where the whole rendering reads it.
        """
        count = step.turns[0].index if step.turns else 0
        plain = [{k: v for k, v in message.items() if k != "reasoning_content"} for message in step.messages[:count]]
        if plain == list(step.messages[:count]):
            return None
        messages = (*plain, *step.messages[count:])
        first = self._render_or_none(step, plain)
        if first is None or self._render_or_none(step, messages) != step.whole:
            return None
        return replace(step, messages=messages, prompts=(tuple(self._reference.encode(first)), *step.prompts[1:]))

    def _rendered(self, step: Step, contents: dict[int, str]) -> Step | None:
        """Return the step with other contents in some messages, or None where the template refuses them."""
        messages = tuple(
            {**message, "content": contents[index]} if index in contents else message
            for index, message in enumerate(step.messages)
        )
        whole = self._render_or_none(step, messages)
        return None if whole is None else replace(step, messages=messages, whole=whole)

    def _render_or_none(self, step: Step, messages: Sequence[Message]) -> str | None:
        try:
            return self._reference.render(messages, step.tools, generation_prompt=True)
        except ChatTemplateError:
            return None

    def _explain(self, step: Step, turn: PlayedTurn, span: Span) -> list[Cause] | str:
        """Return why a turn stands otherwise in the whole rendering, or what is wrong, in words."""
        kept_stop = turn.ending is Ending.OTHER_STOP and turn.stopped and turn.kept == len(turn.ids)
        ids = turn.ids[: turn.kept - kept_stop]
        also = [Cause.STOP] if kept_stop else []
        sampled = span.lead + self._scale.of_ids(ids) + span.closing
        if sampled == span.found:
            return also
        ours, theirs, lead = map(self._scale.to_text, (sampled, span.found, span.lead))
        if ours == theirs:
            return [Cause.SPLIT, *also]
        if turn.stop and theirs.rstrip().endswith(turn.stop) and not ours.endswith(turn.stop):
            return f"message {turn.index} is not ended: {turn.stop!r} is missing after {ours[-40:]!r}"
        if turn.ending is Ending.CUT_CALL:
            return [Cause.HELD]
        closing = self._scale.to_text(span.closing)
        body = theirs.removesuffix(closing)
        if turn.ending is not Ending.STOP and ours.removesuffix(closing)[-1:].strip() and body != body.rstrip():
            theirs, also = body.rstrip() + closing, [Cause.BLANKS, *also]
        if turn.ending is Ending.CUT_CHARACTER:
            ours, theirs, also = ours.replace("\ufffd", ""), theirs.replace("\ufffd", ""), [Cause.HELD, *also]
        if theirs.startswith(lead):
            ours, theirs = ours.removeprefix(lead), theirs.removeprefix(lead)
        causes = self._explain_texts(step, turn, ours, theirs)
        if causes is None:
            sampled, found = (text[-60:] for text in differing(ours, theirs))
            return f"message {turn.index} was sampled with {sampled!r} where the whole rendering has {found!r}"
        return [*causes, *also]

    def _explain_texts(self, step: Step, turn: PlayedTurn, ours: str, theirs: str) -> list[Cause] | None:
        """Return why a turn has one text where the whole rendering has another; None if nothing shows it."""
        causes: list[Cause] = []
        as_last = turn.as_last
        for cause, text, instead in _parts(turn):
            if text in ours and text not in theirs and self._is_unread(step, turn, instead):
                ours, as_last = ours.replace(text, "", 1), as_last.replace(text, "", 1)
                causes.append(cause)
        sampled, found = differing(ours, theirs)
        something = step.messages[turn.index]["content"] if is_empty(turn.held) else ""
        if not sampled and found in ("", something):
            return causes
        if causes and only_around(sampled) and only_marks(found):
            return causes
        if (sampled + found).strip() and only_marks(sampled + found):
            return [*causes, Cause.REASONING_MARKS]
        if turn.ending in (Ending.CUT_REASONING, Ending.EMPTY) and only_around(sampled) and only_around(found):
            # An answer that never began stands in history as an empty one, with what surrounds an answer.
            return [*causes, Cause.HELD]
        plain = without_marks(ours), without_marks(theirs)
        if plain[0] == plain[1]:
            return [*causes, Cause.REASONING_MARKS]
        # Only what the template itself writes there, and ended alike: a turn end must not hide in a difference.
        ended_alike = turn.stop and plain[1].endswith(turn.stop)
        return [*causes, Cause.LAST] if ended_alike and plain[0].strip() == as_last.strip() else None

    def _is_unread(self, step: Step, turn: PlayedTurn, instead: Message) -> bool:
        """Return whether the whole rendering is the same when the turn's message has something else, or lacks it."""
        messages = list(step.messages)
        changed = {**messages[turn.index], **instead}
        messages[turn.index] = {key: value for key, value in changed.items() if value is not None}
        whole = self._render_or_none(step, messages)
        # Where reasoning was, some templates leave a blank that they do not write where there was none.
        return whole is not None and without_marks(whole) == without_marks(step.whole)

    def _difference(self, step: Step, prompt: str, whole: str) -> Difference:
        text = self._scale.to_text
        pairs = enumerate(zip(prompt, whole, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(whole)))
        return Difference(
            position=at,
            part=self._part_at(step, at),
            before=text(prompt[max(0, at - 12) : at]),
            prompt=text(prompt[at : at + 12]),
            whole=text(whole[at : at + 12]),
            prompt_token=text(prompt[at : at + 1]),
            whole_token=text(whole[at : at + 1]),
        )

    def _part_at(self, step: Step, at: int) -> str:
        name, end = "first prompt", len(self._scale.of_ids(step.prompts[0]))
        for number, (turn, bridge) in enumerate(zip(step.turns, step.prompts[1:], strict=True), start=1):
            for label, ids in ((f"sampled turn {number}", turn.ids[: turn.kept]), (f"bridge {number}", bridge)):
                if at < end:
                    return name
                name, end = label, end + len(self._scale.of_ids(ids))
        return name


def _parts(turn: PlayedTurn) -> Iterator[tuple[Cause, str, Message]]:
    """Yield what a template may leave out of a turn: the cause, its text, and the message without it."""
    if turn.reasoned:
        yield Cause.REASONING, str(turn.held["reasoning_content"]), {"reasoning_content": None}
        yield Cause.REASONING, str(turn.held["reasoning_content"]), {"reasoning_content": SOMETHING}
    calls = turn.held.get("tool_calls")
    if (calls or turn.reasoned) and turn.held["content"]:
        yield Cause.TEXT, str(turn.held["content"]), {"content": ""}
    if calls:
        yield Cause.CALLS, calls_as_text(calls), {"tool_calls": None}

"""A chat template is checked before it is trusted.

Owns the check: for every shape of the battery whether prompts made piece by piece equal whole renderings, differ in an
expected way, are refused for a reason the template's own renderings confirm, or are a fault. `check_template` runs
the whole battery; `quick_check` a few shapes, once per tokenizer and template.
Never changes what it checks; never calls a difference expected, or a refusal true, without a rendering that shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strands_sglang.errors import ChatTemplateError, TokenizationError

from .battery.conversations import CALL_SHAPE, QUICK, battery
from .battery.covered import Covered
from .battery.evidence import why_refused
from .battery.judge import Judge
from .battery.rehearsal import Incremental, Reference, Rehearsal, Step, TemplateRefusedError
from .battery.shape import Message, Shape, texts, with_literals
from .battery.verdict import Judgement, Verdict
from .chat_tokenizer import ChatTokenizer
from .report import ShapeResult, TemplateReport, ToolPart


def check_template(
    tokenizer: Any,
    *,
    chat_template: str | None = None,
    enable_thinking: bool | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> TemplateReport:
    """Check a tokenizer's chat template with the whole battery.

    Args:
        tokenizer: What `ChatTokenizer` takes.
        chat_template: The template to use; None takes the tokenizer's own.
        enable_thinking: Passed to the template in every rendering; None passes nothing.
        chat_template_kwargs: Further arguments passed to the template in every rendering.

    Raises:
        ChatTemplateMissingError: If there is no template.
        ChatTemplateError: If the template cannot be compiled.
    """
    chat = ChatTokenizer(
        tokenizer,
        chat_template=chat_template,
        enable_thinking=enable_thinking,
        chat_template_kwargs=chat_template_kwargs,
    )
    return _report(chat, battery())


def _report(chat: ChatTokenizer, shapes: Iterable[Shape]) -> TemplateReport:
    reference = WholeRendering(chat)
    results = tuple(check_shapes(chat, reference, shapes))
    return TemplateReport(model=chat.name, results=results, ignores=ignored_tool_parts(reference))


def ignored_tool_parts(reference: Reference) -> tuple[ToolPart, ...]:
    """Return what of tools a template does not write, or refuses."""
    shape = next(shape for shape in battery() if shape.name == CALL_SHAPE)
    asked, called, reported = shape.messages
    other = {**called, "tool_calls": [{**called["tool_calls"][0], "function": {"name": "add", "arguments": {"a": 1}}}]}

    def render(*messages: Message) -> str | None:
        try:
            return reference.render(messages, shape.tools, generation_prompt=False)
        except ChatTemplateError:
            return None

    whole = render(asked, called, reported) or ""
    written = {
        ToolPart.DEFINITIONS: all(tool["function"]["name"] in (render(asked) or "") for tool in shape.tools),
        ToolPart.CALLS: whole != (render(asked, other, reported) or ""),
        ToolPart.RESULTS: reported["content"] in whole,
    }
    return tuple(part for part in ToolPart if not written[part])


def quick_check(chat: ChatTokenizer) -> TemplateReport:
    """Return the report over a few shapes, made once per tokenizer, template and template arguments."""
    key = _fingerprint(chat)
    report = _QUICK_REPORTS.get(key)
    if report is None:
        # Two threads may both make it; the report is the same.
        report = _QUICK_REPORTS[key] = _report(chat, [shape for shape in battery() if shape.name in QUICK])
    return report


def check_shapes(
    tokenizer: Incremental, reference: Reference, shapes: Iterable[Shape] | None = None
) -> Iterable[ShapeResult]:
    """Yield what comes of each shape.

    Args:
        tokenizer: What makes the prompts.
        reference: What makes whole renderings.
        shapes: The shapes; None for the whole battery.
    """
    for shape in battery() if shapes is None else shapes:
        yield _check_shape(tokenizer, reference, shape)


def _check_shape(tokenizer: Incremental, reference: Reference, shape: Shape) -> ShapeResult:
    literals = sorted(reference.control, key=lambda token: reference.control[token])
    played = with_literals(shape, literals) if shape.hostile and literals else shape
    guarded = any(next(reference.find(text), None) for text in texts(played))
    reference = Covered(reference) if guarded else reference
    harmless = Rehearsal(tokenizer, reference, with_literals(shape, ["words"]))
    rehearsal = Rehearsal(tokenizer, reference, played, twin=harmless) if shape.hostile else harmless
    judge = Judge(tokenizer, reference, by_text=guarded)
    judgements: list[Judgement] = []
    try:
        # The twin of a hostile conversation goes one step ahead of it; any other is its own.
        for twin, step in zip(harmless.steps(), rehearsal.steps(), strict=True) if shape.hostile else _twice(rehearsal):
            judgement = judge.judge(step)
            if step is not twin and judgement.verdict is not Verdict.FAULT:
                judgement = _control_from_content(step, twin, reference) or judgement
            judgements.append(judgement)
            if judgement.verdict is Verdict.FAULT:
                break
    except TemplateRefusedError as refusal:
        return _fault(shape, f"it was taken, yet the template refuses it as a whole: {refusal}")
    except TokenizationError as refusal:
        confirmed = why_refused(rehearsal, len(judgements))
        if confirmed is None:
            return _fault(shape, f"refused, yet the template's renderings show no reason: {refusal}")
        return ShapeResult(
            shape=shape.name,
            verdict=Verdict.REFUSED,
            detail=f"{refusal} [confirmed: {confirmed}]",
            prompts=len(judgements),
        )
    worst = max(judgements, key=lambda judgement: list(Verdict).index(judgement.verdict))
    return ShapeResult(
        shape=shape.name,
        verdict=worst.verdict,
        causes=tuple(dict.fromkeys(cause for judgement in judgements for cause in judgement.causes)),
        detail=worst.detail,
        difference=worst.difference,
        prompts=len(judgements),
    )


def _twice(rehearsal: Rehearsal) -> Iterator[tuple[Step, Step]]:
    return ((step, step) for step in rehearsal.steps())


def _fault(shape: Shape, detail: str) -> ShapeResult:
    return ShapeResult(shape=shape.name, verdict=Verdict.FAULT, detail=detail)


def _control_from_content(hostile: Step, harmless: Step, reference: Reference) -> Judgement | None:
    """Return the fault if prompts hold control tokens that they do not hold with harmless texts."""
    names = {token_id: token for token, token_id in reference.control.items()}
    counts = [Counter(i for part in step.prompts for i in part if i in names) for step in (hostile, harmless)]
    if counts[0] == counts[1]:
        return None
    more = ", ".join(sorted(names[i] for i in counts[0] - counts[1])) or "none, but took some away"
    return Judgement(verdict=Verdict.FAULT, detail=f"content became control tokens: {more}")


class WholeRendering:
    """The reference a `ChatTokenizer` is checked against: its own template over all messages, encoded as one text."""

    def __init__(self, chat: ChatTokenizer) -> None:
        """Use the template and the tokenizer of `chat`, not its incremental form."""
        self._template, self._vocabulary = chat._template, chat._vocabulary
        self.control: Mapping[str, int] = {text: token.id for text, token in self._vocabulary.tokens.items()}
        self.eos: str = self._vocabulary.special_tokens.get("eos_token", "")

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generation_prompt: bool
    ) -> str:
        """Return the text of all messages."""
        return self._template.render(messages, tools, generation_prompt=generation_prompt)

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the control tokens in a text."""
        return self._vocabulary.find(text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendering."""
        return self._vocabulary.encode(text)


_QUICK_REPORTS: dict[Any, TemplateReport] = {}


def _fingerprint(chat: ChatTokenizer) -> Any:
    template, vocabulary = chat._template, chat._vocabulary
    return chat.name, template.sources, repr(template._variables), frozenset(vocabulary.tokens.items())

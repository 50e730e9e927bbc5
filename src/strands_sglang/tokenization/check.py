"""A chat template is checked before it is trusted.

Owns the report: for every shape of the battery whether prompts made piece by piece equal whole renderings, differ in an
expected way, are refused for a reason the template's own renderings confirm, or are a fault. `check_template` runs
the whole battery; `quick_check` a few shapes, once per tokenizer and template.
Never changes what it checks; never calls a difference expected, or a refusal true, without a rendering that shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from strands_sglang.errors import TemplateNotExactError, TokenizationError

from .battery.conversations import QUICK, battery
from .battery.covered import Covered
from .battery.evidence import why_refused
from .battery.judge import Judge
from .battery.rehearsal import Incremental, Reference, Rehearsal, Step, TemplateRefusedError
from .battery.shape import Message, Shape, texts, with_literals
from .battery.verdict import Cause, Difference, Judgement, Verdict
from .chat_tokenizer import ChatTokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeResult:
    """What came of one shape.

    Attributes:
        shape: Name of the shape.
        verdict: The worst of its prompts.
        causes: Why prompts differ where the difference is expected.
        detail: The fault or the refusal in words; for a refusal also what confirms it. Empty otherwise.
        difference: Where the first prompt that is not exact parts from the whole rendering, or None.
        prompts: How many prompts were compared.
    """

    shape: str
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    detail: str = ""
    difference: Difference | None = None
    prompts: int = 0

    def __str__(self) -> str:
        """Return it in words."""
        words = [f"{self.shape}: {self.verdict}"]
        if self.causes:
            words.append(f"({'; '.join(self.causes)})")
        if self.detail:
            words.append(f"- {self.detail}")
        if self.difference is not None and self.verdict is Verdict.FAULT:
            words.append(f"\n    {self.difference}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """What came of every shape.

    Attributes:
        model: Name or path of the tokenizer.
        results: One result per shape.
    """

    model: str
    results: tuple[ShapeResult, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    @property
    def faults(self) -> tuple[ShapeResult, ...]:
        """The results that are faults."""
        return tuple(result for result in self.results if result.verdict is Verdict.FAULT)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many shapes came to each verdict."""
        counted = Counter(result.verdict for result in self.results)
        return {verdict: counted[verdict] for verdict in Verdict}

    def raise_on_fault(self, hint: str | None = None) -> None:
        """Raise where a shape is at fault.

        Args:
            hint: What the caller's user can do about it.

        Raises:
            TemplateNotExactError: The first fault, in words.
        """
        if self.faults:
            raise TemplateNotExactError(
                f"prompts made with the chat template of {self.model} are not exact for {len(self.faults)} of "
                f"{len(self.results)} conversation shapes, first {self.faults[0]}",
                model=self.model,
                hint=hint,
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "model": self.model,
            "ok": self.ok,
            "counts": {str(verdict): count for verdict, count in self.counts.items()},
            "results": [asdict(result) for result in self.results],
        }

    def __str__(self) -> str:
        """Return the report in words: the counts, and what came of shapes that are not exact."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items() if count)
        alike: dict[tuple[Verdict, str], list[ShapeResult]] = {}
        for result in self.results:
            if result.verdict is not Verdict.EXACT:
                alike.setdefault((result.verdict, result.detail or "; ".join(result.causes)), []).append(result)
        lines = [f"{self.model}: {counts} of {len(self.results)} conversation shapes"]
        for (verdict, reason), results in sorted(alike.items(), key=lambda item: list(Verdict).index(item[0][0])):
            lines += ["", f"{verdict}: {reason}", f"  {', '.join(result.shape for result in results)}"]
            if verdict is Verdict.FAULT and results[0].difference is not None:
                lines.append(f"  first at {results[0].difference}")
        return "\n".join(lines)


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
    return TemplateReport(model=chat.name, results=tuple(check_shapes(chat, WholeRendering(chat))))


def quick_check(chat: ChatTokenizer) -> TemplateReport:
    """Return the report over a few shapes, made once per tokenizer, template and template arguments."""
    key = (
        chat.name,
        chat._template.sources,
        repr(chat._template._variables),
        frozenset(chat._vocabulary.tokens.items()),
    )
    report = _QUICK_REPORTS.get(key)
    if report is None:
        # Two threads may both make it; the report is the same.
        shapes = [shape for shape in battery() if shape.name in QUICK]
        report = TemplateReport(model=chat.name, results=tuple(check_shapes(chat, WholeRendering(chat), shapes)))
        _QUICK_REPORTS[key] = report
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

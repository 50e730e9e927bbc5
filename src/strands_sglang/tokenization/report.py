"""What came of checking a chat template.

Owns the result of each shape and the report over all of them: what is at fault, what is refused, and what a user should
know of it before the first turn. Never checks anything itself; see `check`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from strands_sglang.errors import TemplateNotExactError

from .battery.conversations import CALL_SHAPE, TEXT_SHAPE
from .battery.verdict import Cause, Difference, Verdict


class ToolPart(StrEnum):
    """What of tools a template can write."""

    DEFINITIONS = "tool definitions"
    """What tools there are, and what they take."""
    CALLS = "tool calls"
    """The calls of a turn that is history."""
    RESULTS = "tool results"
    """What a call gave."""


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
        ignores: What of tools the template does not write.
    """

    model: str
    results: tuple[ShapeResult, ...]
    ignores: tuple[ToolPart, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    @property
    def faults(self) -> tuple[ShapeResult, ...]:
        """The results that are faults."""
        return tuple(result for result in self.results if result.verdict is Verdict.FAULT)

    @property
    def renders_tools(self) -> bool:
        """Whether the template writes tool definitions, calls and results."""
        return not self.ignores

    @property
    def text_refusal(self) -> str | None:
        """Why even a plain conversation of more than one turn is refused, or None if it is not."""
        return self._refusal(TEXT_SHAPE)

    @property
    def call_refusal(self) -> str | None:
        """Why even a turn with one call and its result is refused, or None if it is not, or if no tools are written."""
        return self._refusal(CALL_SHAPE) if self.renders_tools else None

    @property
    def refusal_warning(self) -> str | None:
        """What will be refused in every conversation that goes on, and why, or None."""
        if self.text_refusal:
            return f"only first prompts can be made, what follows a turn is refused: {self.text_refusal}"
        if self.call_refusal:
            return f"what follows a turn with tool calls is refused: {self.call_refusal}"
        return None

    @property
    def tools_warning(self) -> str | None:
        """What of tools the model will not see, or None."""
        if self.renders_tools:
            return None
        return f"the chat template does not write {' or '.join(self.ignores)}: the model will not see them"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of this template should know before the first turn, in sentences."""
        return tuple(warning for warning in (self.refusal_warning, self.tools_warning) if warning is not None)

    def _refusal(self, shape: str) -> str | None:
        refused = (one.detail for one in self.results if one.shape == shape and one.verdict is Verdict.REFUSED)
        return next(refused, None)

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
            "renders_tools": self.renders_tools,
            "warnings": list(self.warnings),
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
        lines += [f"warning: {warning}" for warning in self.warnings]
        for (verdict, reason), results in sorted(alike.items(), key=lambda item: list(Verdict).index(item[0][0])):
            lines += ["", f"{verdict}: {reason}", f"  {', '.join(result.shape for result in results)}"]
            if verdict is Verdict.FAULT and results[0].difference is not None:
                lines.append(f"  first at {results[0].difference}")
        return "\n".join(lines)

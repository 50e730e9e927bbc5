"""What the check says of every real tokenizer, and of every template that comes without one.

python -m tests.templates            writes docs/templates.md
pytest tests/templates               holds what that page says: no fault anywhere (minutes, not seconds)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strands_sglang.errors import ChatTemplateError
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.tokenization.battery.verdict import Verdict
from strands_sglang.tokenization.check import check_shapes, ignored_tool_parts
from strands_sglang.tokenization.report import ShapeResult
from tests.real_tokenizers import chat_template, real_tokenizer
from tests.templates.reference import TransformersRendering, stand_in_tokenizer


class Thinking(StrEnum):
    """What is passed to the template as `enable_thinking`, which DeepSeek calls `thinking`."""

    DEFAULT = "default"
    """Nothing."""
    ON = "on"
    """True."""
    OFF = "off"
    """False."""

    def args(self, model: str) -> dict[str, Any]:
        """Return the template arguments for a model."""
        name = "thinking" if model.startswith("deepseek") else "enable_thinking"
        return {} if self is Thinking.DEFAULT else {name: self is Thinking.ON}


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The results for one template.

    Attributes:
        name: Name of the model or template.
        results: One result per shape; empty where the template cannot be compiled.
        tools: Whether it writes tool definitions, calls and results.
    """

    name: str
    results: tuple[ShapeResult, ...]
    tools: bool

    @property
    def faults(self) -> list[str]:
        """Names of the shapes that are at fault."""
        return [result.shape for result in self.results if result.verdict is Verdict.FAULT]


Task = tuple[str, Thinking | None]
"""What to survey: a model and what is passed to its template, or a template and None."""


def survey(task: Task) -> Survey:
    """Return the results of a task."""
    name, thinking = task
    return survey_template(name) if thinking is None else survey_model(name, thinking)


def survey_model(name: str, thinking: Thinking = Thinking.DEFAULT) -> Survey:
    """Return the results for a real tokenizer with its template, checked against transformers."""
    return _survey(name, real_tokenizer(name), thinking)


def survey_template(name: str) -> Survey:
    """Return the results for a template without a tokenizer, checked against transformers."""
    return _survey(name, stand_in_tokenizer(chat_template(name)), Thinking.DEFAULT)


def _survey(name: str, tokenizer: Any, thinking: Thinking) -> Survey:
    try:
        chat = ChatTokenizer(tokenizer, chat_template_kwargs=thinking.args(name))
    except ChatTemplateError:
        return Survey(name=name, results=(), tools=False)
    reference = TransformersRendering(tokenizer, **thinking.args(name))
    return Survey(name=name, results=tuple(check_shapes(chat, reference)), tools=not ignored_tool_parts(reference))

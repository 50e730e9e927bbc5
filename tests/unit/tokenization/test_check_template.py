"""What the check says of real templates, and of prompts that are wrong in a known way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from strands_sglang.errors import ChatTemplateMissingError, TemplateNotExactError
from strands_sglang.tokenization import ChatTokenizer, PromptTokens, SampledTurn
from strands_sglang.tokenization.battery.conversations import QUICK, battery
from strands_sglang.tokenization.battery.verdict import Cause, Verdict
from strands_sglang.tokenization.check import (
    WholeRendering,
    check_shapes,
    check_template,
    ignored_tool_parts,
    quick_check,
)
from strands_sglang.tokenization.report import ShapeResult, TemplateReport, ToolPart
from tests.real_tokenizers import real_tokenizer

SHAPES = {shape.name: shape for shape in battery()}

# ChatML, but every header tells how many messages there are before: no short stand-in can know that.
NUMBERING = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ loop.index }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The system text moves to the last user message, as in some Mistral templates.
MOVING = (
    "{% set ns = namespace(system='') %}"
    "{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% endif %}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n"
    "{{ ns.system if loop.last }}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("model", ["qwen3", "glm-5"])
def test_no_shape_is_at_fault(model: str) -> None:
    report = check_template(real_tokenizer(model))

    assert report.ok, str(report)
    assert report.counts[Verdict.EXACT] + report.counts[Verdict.EXPECTED] > 50


@pytest.mark.parametrize("model", ["qwen2.5", "qwen3.6", "deepseek-v3.1", "minimax-m2", "glm-4.6"])
def test_the_quick_form_finds_no_fault(model: str) -> None:
    report = quick_check(ChatTokenizer(real_tokenizer(model)))

    assert report.ok, str(report)


def test_reasoning_that_a_template_strips_is_an_expected_difference() -> None:
    [result] = _check(ChatTokenizer(real_tokenizer("qwen3")), "reasoning, 1 turn")

    assert result.verdict is Verdict.EXPECTED
    assert result.causes == (Cause.REASONING,)
    assert result.difference is not None
    assert "Let me recall" in result.difference.prompt


def test_the_same_reasoning_is_exact_where_the_template_keeps_it() -> None:
    chat = ChatTokenizer(real_tokenizer("qwen3.6"), chat_template_kwargs={"preserve_thinking": True})

    [result] = _check(chat, "reasoning, 3 turns, system")

    assert result.verdict is Verdict.EXACT


def test_a_template_that_moves_text_is_refused_and_the_refusal_confirmed() -> None:
    chat = ChatTokenizer(real_tokenizer("qwen2.5"), chat_template=MOVING)

    [result] = _check(chat, "1 turn, system")

    assert result.verdict is Verdict.REFUSED
    assert "[confirmed: what the template wrote before the turn changes" in result.detail


def test_a_template_that_numbers_messages_is_a_fault_or_refused_never_exact() -> None:
    chat = ChatTokenizer(real_tokenizer("qwen2.5"), chat_template=NUMBERING)

    [result] = _check(chat, "6 turns")

    assert result.verdict in (Verdict.FAULT, Verdict.REFUSED)


def test_no_template_is_one_error() -> None:
    with pytest.raises(ChatTemplateMissingError, match="no chat template"):
        check_template(real_tokenizer("qwen2.5").backend_tokenizer)


# --- prompts that are wrong on purpose -------------------------------------------------------------------


class Wrong:
    """A `ChatTokenizer` whose prompts are spoilt."""

    def __init__(
        self,
        model: str,
        *,
        first: Callable[[list[int]], list[int]] = lambda ids: ids,
        bridge: Callable[[list[int]], list[int]] = lambda ids: ids,
        new_messages: Callable[[list[Any]], list[Any]] = lambda messages: messages,
        trimmed: int = 0,
    ) -> None:
        self.chat = ChatTokenizer(real_tokenizer(model))
        self._first, self._bridge, self._new_messages, self._trimmed = first, bridge, new_messages, trimmed

    def first(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> PromptTokens:
        made = self.chat.first(messages, tools)
        return replace(made, ids=self._first(made.ids))

    def bridge(
        self,
        context: Sequence[Mapping[str, Any]],
        turn: SampledTurn,
        new_messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> PromptTokens:
        made = self.chat.bridge(context, turn, self._new_messages(list(new_messages)), tools)
        return replace(made, ids=self._bridge(made.ids), trimmed=made.trimmed + self._trimmed)

    def decode(self, ids: Sequence[int]) -> str:
        return self.chat.decode(ids)


def _check(tokenizer: ChatTokenizer | Wrong, *names: str) -> list[ShapeResult]:
    chat = tokenizer.chat if isinstance(tokenizer, Wrong) else tokenizer
    return list(check_shapes(tokenizer, WholeRendering(chat), [SHAPES[name] for name in names]))


def _id(model: str, token: str) -> int:
    token_id = real_tokenizer(model).convert_tokens_to_ids(token)
    assert isinstance(token_id, int)
    return token_id


def _without(model: str, token: str) -> Callable[[list[int]], list[int]]:
    unwanted = _id(model, token)
    return lambda ids: [token_id for token_id in ids if token_id != unwanted]


@pytest.mark.parametrize(
    "shape", ["1 turn", "3 turns, system", "call, answer, user", "cut in the text", "reasoning, call"]
)
@pytest.mark.parametrize("model", ["qwen2.5", "glm-5"])
def test_a_bridge_without_its_first_token_is_a_fault(model: str, shape: str) -> None:
    [result] = _check(Wrong(model, bridge=lambda ids: ids[1:]), shape)

    assert result.verdict is Verdict.FAULT


def test_a_missing_line_break_between_turns_is_told_with_its_place() -> None:
    [result] = _check(Wrong("qwen2.5", bridge=lambda ids: ids[1:]), "1 turn")

    assert result.difference is not None
    assert result.difference.part == "bridge 1"
    assert result.difference.whole_token == "\n"
    assert result.difference.before.endswith("The red one is<|im_end|>")


@pytest.mark.parametrize(
    "shape", ["cut in the text", "cut in a call", "cut in the reasoning", "cut inside a character", "no token at all"]
)
@pytest.mark.parametrize("model", ["qwen2.5", "qwen3"])
def test_a_cut_turn_that_is_not_closed_is_a_fault(model: str, shape: str) -> None:
    end = _id(model, "<|im_end|>")

    [result] = _check(Wrong(model, bridge=lambda ids: ids[ids.index(end) + 1 :]), shape)

    assert result.verdict is Verdict.FAULT


def test_reasoning_that_is_not_closed_is_a_fault() -> None:
    wrong = Wrong("glm-5", bridge=_without("glm-5", "</think>"))

    [result] = _check(wrong, "cut in the reasoning")

    assert result.verdict is Verdict.FAULT


@pytest.mark.parametrize("shape", ["1 turn", "call", "blank texts"])
def test_a_turn_that_is_ended_twice_is_a_fault(shape: str) -> None:
    end = _id("qwen2.5", "<|im_end|>")

    [result] = _check(Wrong("qwen2.5", bridge=lambda ids: [end, *ids]), shape)

    assert result.verdict is Verdict.FAULT


def test_a_sampled_stop_token_that_is_dropped_without_need_is_a_fault() -> None:
    [result] = _check(Wrong("qwen2.5", trimmed=1), "1 turn")

    assert result.verdict is Verdict.FAULT


def test_a_missing_or_a_second_beginning_of_sequence_is_a_fault() -> None:
    for first in (lambda ids: ids[1:], lambda ids: [ids[0], *ids]):
        [result] = _check(Wrong("deepseek-v3.1", first=first), "1 turn")

        assert result.verdict is Verdict.FAULT
        assert result.difference is not None
        assert result.difference.part == "first prompt"


@pytest.mark.parametrize("change", [lambda messages: messages[::-1], lambda messages: messages[:-1]])
def test_results_in_another_order_or_left_out_are_a_fault(change: Callable[[list[Any]], list[Any]]) -> None:
    [result] = _check(Wrong("qwen2.5", new_messages=change), "parallel calls of one tool")

    assert result.verdict is Verdict.FAULT


def test_a_prompt_without_its_generation_prompt_is_a_fault() -> None:
    [result] = _check(Wrong("qwen2.5", bridge=lambda ids: ids[:-3]), "1 turn")

    assert result.verdict is Verdict.FAULT


@pytest.mark.parametrize("shape", [name for name, shape in SHAPES.items() if shape.hostile])
def test_content_that_becomes_control_is_a_fault(shape: str) -> None:
    wrong = ChatTokenizer(real_tokenizer("qwen2.5"), control_tokens="allow")

    [result] = _check(wrong, shape)

    assert result.verdict is Verdict.FAULT
    assert "content became control tokens" in result.detail


def test_a_refusal_without_need_is_a_fault() -> None:
    def refuse(_: list[int]) -> list[int]:
        raise TemplateNotExactError("not today")

    [result] = _check(Wrong("qwen2.5", bridge=refuse), "1 turn")

    assert result.verdict is Verdict.FAULT
    assert result.detail == "refused, yet the template's renderings show no reason: not today"


# --- reports ---------------------------------------------------------------------------------------------


def test_the_quick_form_is_made_once_for_a_tokenizer_and_template() -> None:
    one, other = (ChatTokenizer(real_tokenizer("qwen3"), enable_thinking=True) for _ in range(2))

    assert quick_check(one) is quick_check(other)
    assert [result.shape for result in quick_check(one).results] == [name for name in SHAPES if name in QUICK]
    assert quick_check(ChatTokenizer(real_tokenizer("qwen3"), enable_thinking=False)) is not quick_check(one)


def test_a_fault_is_raised_with_the_hint_of_the_caller() -> None:
    results = tuple(_check(Wrong("qwen2.5", bridge=lambda ids: ids[1:]), "1 turn"))
    report = TemplateReport(model="some-model", results=results)

    with pytest.raises(TemplateNotExactError, match="not exact for 1 of 1 conversation shapes, first 1 turn") as error:
        report.raise_on_fault(hint="do this")

    assert error.value.hint == "do this"


def test_a_report_without_faults_raises_nothing() -> None:
    report = TemplateReport(
        model="some-model", results=tuple(_check(ChatTokenizer(real_tokenizer("qwen2.5")), "1 turn"))
    )

    report.raise_on_fault()

    assert report.ok


def test_a_report_can_be_written_as_json() -> None:
    report = TemplateReport(model="some-model", results=tuple(_check(ChatTokenizer(real_tokenizer("qwen3")), *QUICK)))

    written = json.loads(json.dumps(report.to_dict()))

    assert written["counts"]["fault"] == 0
    assert [result["shape"] for result in written["results"]] == list(QUICK)


# What it writes is ordinary text only, so that nothing tells where a turn ends.
PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"


def test_the_quick_form_tells_that_no_conversation_can_go_on() -> None:
    report = quick_check(ChatTokenizer(real_tokenizer("qwen2.5"), chat_template=PLAIN))

    assert report.ok
    assert report.text_refusal is not None
    assert "it puts no control token between a turn and what follows" in report.text_refusal
    assert report.refusal_warning == "only first prompts can be made, what follows a turn is refused: " + (
        report.text_refusal
    )


def test_the_quick_form_has_nothing_to_say_of_a_template_that_works() -> None:
    report = quick_check(ChatTokenizer(real_tokenizer("qwen2.5")))

    assert report.renders_tools
    assert report.warnings == ()


@pytest.mark.parametrize(
    ("model", "ignores"),
    [
        ("qwen2.5", ()),
        ("deepseek-v3.1", (ToolPart.DEFINITIONS,)),
        ("smollm2-135m", (ToolPart.DEFINITIONS, ToolPart.CALLS)),
    ],
)
def test_what_of_tools_a_template_does_not_write_is_told(model: str, ignores: tuple[ToolPart, ...]) -> None:
    assert ignored_tool_parts(WholeRendering(ChatTokenizer(real_tokenizer(model)))) == ignores


def test_calls_that_are_refused_are_told_where_the_template_is_made_for_tools() -> None:
    refused = ShapeResult(shape="call", verdict=Verdict.REFUSED, detail="it moves them")

    report = TemplateReport(model="some-model", results=(refused,))

    assert report.warnings == ("what follows a turn with tool calls is refused: it moves them",)
    assert "warning: what follows" in str(report)
    assert TemplateReport(model="m", results=(refused,), ignores=(ToolPart.CALLS,)).call_refusal is None

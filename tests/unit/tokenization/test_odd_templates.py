"""Templates that do something few others do, each held to what it writes itself; all of them were met in the wild."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from strands_sglang.errors import TemplateNotExactError
from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from strands_sglang.tokenization.battery.conversations import battery
from strands_sglang.tokenization.battery.verdict import Cause, Verdict
from strands_sglang.tokenization.check import WholeRendering, check_shapes
from strands_sglang.tokenization.report import ShapeResult
from tests.unit.tokenization.conversations import TOOLS, assistant, byte_tokenizer, call, result, user

ASK, THEN = user("Tell me."), user("Go on.")
FIRST, SECOND, THIRD = (call(number, "add", city=city) for number, city in enumerate(("Oslo", "Lima", "Rome")))
TOKENS = ("<|start|>", "<|end|>", "<|tool|>", "</s>", "<think>", "</think>")
ASKED = "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
CALLS = "{% for c in m.tool_calls or [] %}<|tool|>{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}"


def chat_of(template: str, *tokens: str, **arguments: Any) -> ChatTokenizer:
    """Return the chat tokenizer of a template, of single bytes."""
    given = {"eos_token": "</s>", **arguments}
    return ChatTokenizer(byte_tokenizer(*(tokens or TOKENS)), chat_template=template, chat_template_kwargs=given)


def messages_as(written: str, role: str = "{{ m.role }}") -> str:
    """Return a template that writes every message in one way."""
    return f"{{% for m in messages %}}<|start|>{role}\n{written}<|end|>{{% endfor %}}{ASKED}"


def after(chat: ChatTokenizer, sampled: str, new: Any = THEN, **options: Any) -> str:
    """Return what follows a sampled text."""
    context, message = options.get("context", [ASK]), options.get("message", assistant("Some text"))
    prompt, tools = chat.first(context, options.get("tools", ())).ids, options.get("tools", ())
    turn = SampledTurn(ids=chat._vocabulary.encode(sampled), message=message, prompt_ids=prompt)
    bridge = chat.bridge(context, turn, new if isinstance(new, list) else [new], tools)
    kept = chat.decode(turn.ids[: len(turn.ids) - bridge.trimmed])
    return kept + chat.decode(bridge.ids)


def checked(chat: ChatTokenizer, *names: str) -> list[ShapeResult]:
    """Return what the check says of some shapes."""
    return list(check_shapes(chat, WholeRendering(chat), [shape for shape in battery() if shape.name in names]))


def verdicts(chat: ChatTokenizer, *names: str) -> dict[str, Verdict]:
    """Return the verdicts of some shapes."""
    return {result.shape: result.verdict for result in checked(chat, *names)}


def test_a_turn_that_ended_twice_is_ended_once_more_by_nothing() -> None:
    last = "{% if not add_generation_prompt %}</s>{% endif %}"
    chat = chat_of(messages_as("{{ m.content }}") + last)

    assert after(chat, "Some text<|end|></s>") == "Some text<|end|><|start|>user\nGo on.<|end|><|start|>assistant\n"
    assert after(chat, "Some text<|end|>") == after(chat, "Some text<|end|></s>")


def test_a_mark_of_reasoning_may_be_the_only_token_of_a_generation_prompt() -> None:
    chat = chat_of(
        "{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
        "{% endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}"
    )

    assert chat.reasoning_open(chat.first([ASK]).ids)
    assert after(chat, "So far", message=assistant("", reasoning="So far")).startswith("So far</think><|end|>user: ")


def test_marks_that_only_the_generation_prompt_writes_are_marks() -> None:
    chat = chat_of(
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n<|mark>thought\n<mark|>{% endif %}",
        *TOKENS,
        "<|mark>",
        "<mark|>",
    )

    assert not chat.reasoning_open(chat.first([ASK]).ids)
    assert after(chat, "Some text<|end|>").endswith("<|start|>assistant\n<|mark>thought\n<mark|>")


def test_other_marks_than_those_of_reasoning_are_not_forgiven() -> None:
    chat = chat_of(
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n<|tool|>final</s>{% endif %}"
    )

    with pytest.raises(TemplateNotExactError, match="what was before it is written differently"):
        after(chat, "Some text<|end|>")


NUMBERED = (
    "{% set ns = namespace(calls=0) %}{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|tool|>{{ c.function.name }} {{ c.function.arguments | tojson }}"
    "{% set ns.calls = ns.calls + 1 %}{% endfor %}"
    "{{ ' of call %d' % ns.calls if m.role == 'tool' }}<|end|>{% endfor %}" + ASKED
)


def test_a_template_that_numbers_calls_is_shown_all_of_them() -> None:
    chat = chat_of(NUMBERED)
    rounds = [message for one in (FIRST, SECOND) for message in (assistant("", one), result(one, "Fine"))]

    text = after(
        chat, "<|tool|>add<|end|>", result(THIRD, "Good"), message=assistant("", THIRD), context=[ASK, *rounds]
    )

    assert "Good of call 3<|end|>" in text
    assert verdicts(chat, "5 call rounds, answer, user") == {"5 call rounds, answer, user": Verdict.EXACT}


def test_a_template_that_does_not_number_calls_is_not_shown_more_than_a_few() -> None:
    chat = chat_of(messages_as("{{ m.content }}" + CALLS))
    rounds = [message for one in (FIRST, SECOND) for message in (assistant("", one), result(one, "Fine"))]

    after(chat, "<|tool|>add<|end|>", result(THIRD, "Good"), message=assistant("", THIRD), context=[ASK, *rounds])

    assert chat._numbers_calls == {False: False}


def test_a_header_in_plain_text_is_not_taken_for_the_end_of_a_call() -> None:
    chat = chat_of(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}"
        "{{ '<|tool|>' if m.role == 'tool' }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
    )

    with pytest.raises(TemplateNotExactError, match="begins with ordinary text"):
        after(chat, 'add {"city": "Oslo"}', result(FIRST, "Fine"), message=assistant("", FIRST))
    [shape] = checked(chat, "call")
    assert shape.verdict is Verdict.REFUSED


ID_IN_HISTORY = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    '<|tool|>{"args": {{ c.function.arguments | tojson }}{% if not outer.last %}, "id": "{{ c.id }}"{% endif %}}'
    "{% endfor %}<|end|>{% endfor %}"
).replace("{% for m in messages %}", "{% for m in messages %}{% set outer = loop %}") + ASKED


def test_more_of_a_call_in_history_does_not_hide_its_end() -> None:
    chat = chat_of(ID_IN_HISTORY)

    text = after(chat, '<|tool|>{"args": {"city": "Oslo"}}<|end|>', result(FIRST, "Fine"), message=assistant("", FIRST))

    assert text == '<|tool|>{"args": {"city": "Oslo"}}<|end|><|start|>tool\nFine<|end|><|start|>assistant\n'
    [shape] = checked(chat, "call")
    assert (shape.verdict, shape.causes) == (Verdict.EXPECTED, (Cause.LAST,))


def test_a_result_that_is_written_otherwise_once_more_follows_is_refused() -> None:
    chat = chat_of(messages_as("{{ m.content }}" + CALLS + "{{ '\n' if m.role == 'tool' and not loop.last }}"))
    context = [ASK, assistant("", FIRST), result(FIRST, "Fine")]

    with pytest.raises(TemplateNotExactError, match="what was before it is written differently"):
        after(chat, "Some text<|end|>", context=context)
    [shape] = checked(chat, "call, answer, user")
    assert shape.verdict is Verdict.REFUSED
    assert "[confirmed: what the template wrote before the turn changes" in shape.detail


HEADER_FOR_TEXT = (
    "{% for m in messages %}{% if m.content or m.role != 'assistant' %}<|start|>{{ m.role }}\n{{ m.content }}"
    "{% endif %}" + CALLS + "<|end|>{% endfor %}" + ASKED
)


def test_a_turn_whose_header_is_written_only_with_text_is_exact_with_text_and_refused_without() -> None:
    chat = chat_of(HEADER_FOR_TEXT)
    sampled = '<|tool|>add {"city": "Oslo"}<|end|>'

    text = after(chat, f"Look{sampled}", result(FIRST, "Fine"), message=assistant("Look", FIRST))

    assert text == f"Look{sampled}<|start|>tool\nFine<|end|><|start|>assistant\n"
    with pytest.raises(TemplateNotExactError, match="what was before it is written differently"):
        after(chat, sampled, result(FIRST, "Fine"), message=assistant("", FIRST))
    assert verdicts(chat, "call", "text beside a call") == {
        "call": Verdict.REFUSED,
        "text beside a call": Verdict.EXACT,
    }


def test_a_turn_that_is_ended_between_its_text_and_its_calls_is_refused() -> None:
    chat = chat_of(
        "{% for m in messages %}{% if m.content or m.role != 'assistant' %}<|start|>{{ m.role }}\n{{ m.content }}"
        "<|end|>{% endif %}" + CALLS + "{% endfor %}" + ASKED
    )

    [shape] = checked(chat, "text beside a call")

    assert shape.verdict is Verdict.REFUSED
    assert "between its text and its calls" in shape.detail


# --- what the template refuses, and the library does not need -------------------------------------------


def test_a_turn_without_text_goes_on_where_the_template_refuses_it() -> None:
    refusing = "{% if m.role == 'assistant' and not m.content %}{{ raise_exception('No text.') }}{% endif %}"
    chat = chat_of(messages_as(refusing + "{{ m.content }}"))

    assert after(chat, "<|end|>", message=assistant("")).startswith("<|end|><|start|>user\nGo on.")
    [shape] = checked(chat, "empty answer")
    assert (shape.verdict, shape.causes) == (Verdict.EXPECTED, (Cause.EMPTY_REFUSED,))


def test_a_call_goes_on_where_the_template_refuses_its_arguments() -> None:
    glued = (
        "{% for c in m.tool_calls or [] %}<|tool|>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}"
    )
    chat = chat_of(messages_as("{{ m.content }}" + glued + "{{ ' ' + k + '=' + v }}{% endfor %}{% endfor %}"))

    [shape] = checked(chat, "parallel calls of two tools")

    assert (shape.verdict, shape.causes) == (Verdict.EXPECTED, (Cause.ARGUMENTS_REFUSED,))


# --- escapes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "as_python"),
    [
        ("{{ tools }}", str),
        ("{{ tools | tojson(ensure_ascii=True) }}", json.dumps),
    ],
)
@pytest.mark.parametrize(
    "text",
    ["a <|end|> b", "C:\\<|end|> b", "\U00100003 <|end|>", "\\U00100003 <|end|>", "\\udbc0\\udc03 <|end|>"],
)
def test_what_is_escaped_is_what_the_template_escapes(text: str, written: str, as_python: Callable[[Any], str]) -> None:
    """A tool's text may hold, or spell, the very characters that content is disguised in."""
    chat = chat_of(written + "<|end|>{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}")
    [tool, *_] = TOOLS
    tools = [{**tool, "function": {**tool["function"], "description": text}}]

    prompt = chat.first([user("See \\U00100003 and \\udbc0\\udc03")], tools)

    assert chat.decode(prompt.ids) == f"{as_python(tools)}<|end|><|start|>See \\U00100003 and \\udbc0\\udc03<|end|>"
    assert prompt.ids.count(chat._vocabulary.tokens["<|end|>"].id) == 2


def test_blanks_around_marks_of_reasoning_come_and_go_with_them() -> None:
    """Earlier turns are written with marks while the last question is unanswered, and without them later."""
    marked = (
        "{% set ns = namespace(user=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.user = loop.index %}"
        "{% endif %}{% endfor %}{% for m in messages %}<|start|>{{ m.role }}\n"
        "{{ '<think>\n\n</think>\n' if m.role == 'assistant' and loop.index > ns.user }}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}\n<|tool|>{{ c.function.name }} {{ c.function.arguments | tojson }}"
        "{% endfor %}<|end|>{% endfor %}{{ '<|start|>assistant\n\n<think>\n' if add_generation_prompt }}"
    )
    found = verdicts(chat_of(marked), "1 turn", "call", "call, answer, user", "2 call rounds", "text beside a call")

    assert set(found.values()) <= {Verdict.EXACT, Verdict.EXPECTED}

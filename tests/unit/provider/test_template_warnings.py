"""What a user is told of a chat template before the first turn."""

from __future__ import annotations

import logging

import pytest
from strands import Agent

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn

from .conftest import END, calculator

# A base model's: nothing of it is a control token.
PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
NO_TOOLS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _model(template: str) -> SGLangModel:
    tokenizer = get_tokenizer.__wrapped__(TINY_MODEL)
    tokenizer.chat_template = template
    engine = ScriptedEngine([Turn(text=f"Hello.{END}")] * 2, tokenizer=tokenizer)
    return SGLangModel(client=SGLangClient("http://engine", transport=EngineTransport(engine)), tokenizer=tokenizer)


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What this library said; asyncio may say at any time what it thinks of another test's garbage."""
    return [record for record in caplog.records if record.name.startswith("strands_sglang")]


def test_a_template_for_first_prompts_only_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "strands_sglang"):
        model = _model(PLAIN)
    result = Agent(model=model, callback_handler=None)("Hi there")

    [record] = own(caplog)
    assert "only first prompts can be made, what follows a turn is refused" in record.getMessage()
    assert "it puts no control token between" in record.getMessage()
    assert str(result) == "Hello.\n"


def test_an_agent_with_tools_is_told_once_that_the_template_ignores_them(caplog: pytest.LogCaptureFixture) -> None:
    model = _model(NO_TOOLS)
    with caplog.at_level(logging.WARNING, "strands_sglang"):
        for _ in range(2):
            model.reset()
            Agent(model=model, tools=[calculator], callback_handler=None)("Hi there")

    said = [record.getMessage() for record in caplog.records if "does not write" in record.getMessage()]
    assert len(said) == 1
    assert "does not write tool definitions or tool calls: the model will not see them" in said[0]


def test_an_agent_without_tools_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "strands_sglang"):
        Agent(model=_model(NO_TOOLS), callback_handler=None)("Hi there")

    assert own(caplog) == []

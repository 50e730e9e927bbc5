"""An agent over a scripted engine: everything real but the model's choice of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from strands import Agent, tool

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Step, Turn

END = "<|im_end|>"


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    return {"25 * 17": "425", "1 + 1": "2"}.get(expression, f"value of {expression}")


@tool
def careless(note: str = "default") -> str:
    """A tool whose arguments all have defaults."""
    return f"ran with {note}"


def call(name: str = "calculator", arguments: str = '{"expression": "25 * 17"}') -> str:
    """The text of a call as the tiny model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@dataclass
class Stage:
    """One scripted engine, the model in front of it, and what was asked."""

    engine: ScriptedEngine
    model: SGLangModel

    def agent(self, **options: Any) -> Agent:
        options = {"tools": [calculator, careless], "callback_handler": None, **options}
        return Agent(model=self.model, **options)

    @property
    def prompts(self) -> list[list[int]]:
        return [list(request["input_ids"]) for request in self.engine.requests]

    def text(self, ids: Sequence[int]) -> str:
        return str(self.model.tokenizer.decode(list(ids), skip_special_tokens=False))


@pytest.fixture
def stage() -> Callable[..., Stage]:
    """`stage(*steps, **config)`: steps are turns, refusals, or texts that end with the turn's end token."""

    def build(*steps: Step | str, **config: Any) -> Stage:
        tokenizer = get_tokenizer(TINY_MODEL)
        script = [Turn(text=step) if isinstance(step, str) else step for step in steps]
        engine = ScriptedEngine(script, tokenizer=tokenizer)
        client = SGLangClient("http://engine", transport=EngineTransport(engine), max_retries=0)
        return Stage(engine, SGLangModel(client=client, tokenizer=tokenizer, **config))

    return build

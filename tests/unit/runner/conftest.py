"""Episodes over a scripted engine: everything real but the model's choice of tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from strands import Agent, tool

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Step, Turn

END = "<|im_end|>"

Answering = Callable[[str, int], Step | str | Awaitable[Step | str]]
"""What is sampled: a function of the prompt's last user text and of the number of answers before it."""


def call(name: str = "add", arguments: str = '{"a": 1, "b": 2}') -> str:
    """The text of a call as the tiny model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>{END}'


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Reached:
    """Set once something was reached; the clock of an episode that is out of time then, and not before."""

    reached = False

    def __call__(self) -> float:
        return 1e9 if Reached.reached else 0.0


@tool
async def hang() -> str:
    """Never come back."""
    Reached.reached = True
    await asyncio.Event().wait()
    return "never"


@tool
def block() -> str:
    """Block a thread for longer than any test runs."""
    Reached.reached = True
    time.sleep(3600)
    return "never"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("the tool failed")


@dataclass
class World:
    """An engine that answers each conversation by its first user text, and what was seen of it."""

    answering: Answering
    options: dict[str, Any] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    live: int = 0
    most_live: int = 0

    def __post_init__(self) -> None:
        self.tokenizer = get_tokenizer(TINY_MODEL)
        self.engine = ScriptedEngine(self._step, tokenizer=self.tokenizer)
        self.client = SGLangClient("http://engine", transport=EngineTransport(self.engine), max_retries=0)

    async def _step(self, request: dict[str, Any]) -> Step:
        text = str(self.tokenizer.decode(request["input_ids"], skip_special_tokens=False))
        question = text.split("<|im_start|>user\n")[1].split(END)[0]
        self.live += 1
        self.most_live = max(self.most_live, self.live)
        try:
            said = self.answering(question, text.count("<|im_start|>assistant\n") - 1)
            step = await said if isinstance(said, Awaitable) else said
        finally:
            self.live -= 1
        return Turn(text=step) if isinstance(step, str) else step

    def agent(self) -> Agent:
        """Make an agent: the factory of most tests."""
        model = SGLangModel(client=self.client, tokenizer=self.tokenizer)
        options = {"tools": [add, hang, block, fail], "callback_handler": None, "retry_strategy": None, **self.options}
        self.agents.append(Agent(model=model, **options))
        return self.agents[-1]


@pytest.fixture
def world() -> Callable[..., World]:
    """`world(answering, **agent_options)`."""

    def build(answering: Answering | str, **options: Any) -> World:
        return World((lambda _text, _turn: answering) if isinstance(answering, str) else answering, options)

    return build


@pytest.fixture
def late_once_reached(monkeypatch: pytest.MonkeyPatch) -> type[Reached]:
    """Episodes run out of time when, and only when, `hang` or `block` is reached: no test waits for a clock."""
    monkeypatch.setattr(Reached, "reached", False)
    monkeypatch.setattr("strands_sglang.runner.single.PausableClock", Reached)
    monkeypatch.setattr("strands_sglang.runner.players.PausableClock", Reached)
    return Reached

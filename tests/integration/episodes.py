"""Agent episodes against the server, and what must be true of their record."""

from __future__ import annotations

import ast
import asyncio
import operator
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.types.exceptions import ContextWindowOverflowException, MaxTokensReachedException

from strands_sglang import LoopLimiter, Rollout, SGLangClient, SGLangModel
from strands_sglang.tool_parsers import get_tool_parser

from .recording import Exchange, RecordingTransport

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOLERANCE = 1e-3
"""Largest difference between a recorded log-probability and the one of a second pass over the same ids."""

CUT_SHORT = (MaxTokensReachedException, ContextWindowOverflowException)
"""How an invocation may end besides normally: nothing bounds what a model says at temperature 1, or how often it calls
its tools, but its budget and its context. Such an ending is right wherever a test does not say why it cannot come."""

ATTEMPTS = 20
"""How often a test plays what a model may cut short before it says that it never ends well."""

EPISODE_SECONDS = 900.0
MAX_TOOL_ITERATIONS = 12

_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression(body=body):
                return value(body)
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _OPERATORS[type(op)](value(operand))
        raise ValueError(f"not arithmetic: {expression}")

    return f"{value(ast.parse(expression, mode='eval')):g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server with what is needed to talk to its model."""

    url: str
    tokenizer: PreTrainedTokenizerBase
    tool_parser: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One agent with the witness of what it sent and got."""

    agent: Agent
    model: SGLangModel
    transport: RecordingTransport

    @property
    def exchanges(self) -> list[Exchange]:
        """The generations that the server took, in order; what it refuses surfaces in the episode."""
        return [exchange for exchange in self.transport.exchanges if exchange.status == httpx.codes.OK]

    def text_of(self, tokenizer: PreTrainedTokenizerBase) -> str:
        """Return the whole rollout as text, control tokens included."""
        return str(tokenizer.decode(self.model.rollout.token_ids))


@asynccontextmanager
async def episode(
    served: Served,
    *,
    client_options: dict[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Episode]:
    """Open an episode of an agent with the calculator; `config` is that of `SGLangModel`."""
    async with (
        asyncio.timeout(EPISODE_SECONDS),
        RecordingTransport() as transport,
        SGLangClient(served.url, transport=transport, **(client_options or {})) as client,
    ):
        model = SGLangModel(
            client=client, tokenizer=served.tokenizer, tool_parser=get_tool_parser(served.tool_parser), **config
        )
        # A small model can call its tool for ever, until its context is full; a host that then cut the history would
        # make the record branch.
        agent = Agent(
            model=model,
            tools=[calculator],
            hooks=[LoopLimiter(max_tool_iters=MAX_TOOL_ITERATIONS, on_limit="stop")],
            conversation_manager=NullConversationManager(),
            callback_handler=None,
        )
        yield Episode(agent=agent, model=model, transport=transport)


def assert_record_is_what_went_over_the_wire(rollout: Rollout, exchanges: Sequence[Exchange]) -> None:
    """Rebuild the record of a linear episode from its exchanges alone, and compare."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float | None] = []
    for exchange in exchanges:
        assert exchange.read_ids == exchange.input_ids, "the server read other ids than were sent"
        assert exchange.input_ids[: len(ids)] == ids, "a prompt does not begin with the prompt and answer before it"
        added = exchange.input_ids[len(ids) :]
        ids += added + exchange.output_ids
        mask += [0] * len(added) + [1] * len(exchange.output_ids)
        logprobs += [None] * len(added)
        logprobs += exchange.output_logprobs
    assert rollout.token_ids == ids
    assert rollout.loss_mask == mask
    assert rollout.logprobs == logprobs


def differences(url: str, rollout: Rollout) -> list[float]:
    """Re-score a rollout in one pass; return, for each sampled token, how far its recorded log-probability is off."""
    recorded = zip(rollout.loss_mask, rollout.logprobs, score(url, rollout.token_ids), strict=True)
    found: list[float] = []
    for mask, value, again in recorded:
        if mask:
            assert value is not None
            assert again is not None
            found.append(abs(value - again))
    return found


def largest_difference(url: str, rollout: Rollout) -> float:
    """Return the largest of `differences`."""
    return max(differences(url, rollout))


def score(url: str, token_ids: list[int]) -> list[float | None]:
    """Return the server's log-probability of each token given those before it; None for the first."""
    body = {
        "input_ids": token_ids,
        "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    reply = httpx.post(f"{url}/generate", json=body, timeout=600.0)
    scored = reply.raise_for_status().json()["meta_info"]["input_token_logprobs"]
    for (_, told, _), token in zip(scored, token_ids, strict=True):
        # SGLang tells the last id of the vocabulary, and ids beyond, as 0 here; the value is that of the real id.
        assert told in (token, 0)
    return [value for value, _, _ in scored]

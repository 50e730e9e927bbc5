"""`strands-sglang demo`: one agent, one tool, one question, and the record that is left.

Without `--base-url` it runs the small model that the package ships, in this process; with it, any SGLang server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strands_sglang.cli.calculator import evaluate
from strands_sglang.errors import SGLangConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from strands import Agent
    from strands.agent import AgentResult

    from strands_sglang import SGLangClient, SGLangModel

QUESTION = "What is 25 * 17?"


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="run an agent with a calculator and show the record it leaves",
        description="Run an agent with a calculator tool and show the conversation and the record, token by token. "
        "Without --base-url the shipped tiny model answers: it knows arithmetic and little else.",
    )
    parser.add_argument("question", nargs="?", default=QUESTION, help=f"what to ask (default: {QUESTION!r})")
    parser.add_argument("--base-url", metavar="URL", help="an SGLang server instead of the embedded engine")
    parser.add_argument(
        "--tokenizer", metavar="DIR_OR_NAME", help="tokenizer of the served model (default: the one the server names)"
    )
    parser.add_argument(
        "--tool-parser", metavar="NAME", help="tool-call format (default: told from the tokenizer's chat template)"
    )
    parser.add_argument("--temperature", type=_temperature, default=0.0, help="sampling temperature (default: 0)")
    parser.add_argument(
        "--enable-thinking",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="passed to the chat template (default: not passed)",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="also save the rollout as JSON")


def _temperature(text: str) -> float:
    """Return a number that is no less than 0."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number of at least 0, got {text!r}")
    return value


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    # transformers would otherwise tell that it found no torch, which nothing here needs.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    # The tiny model's matrices are too small for a second thread to pay; read when NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if args.output and (args.output.is_dir() or not args.output.parent.is_dir()):
        raise SGLangConfigError(f"--output: {str(args.output)!r} is a folder, or is in a folder that does not exist")
    try:
        from rich.console import Console
    except ImportError as error:
        raise SGLangConfigError(
            "the demo needs the package 'rich'", hint='install the extra: pip install "strands-sglang[demo]"'
        ) from error
    return asyncio.run(_demo(args, Console(highlight=False)))


async def _demo(args: argparse.Namespace, console: Console) -> int:
    """Ask the question, then show the conversation and the record."""
    from strands_sglang.cli.listing import listing, summary

    async with _client(args) as client:
        model = await _model(args, client)
        agent = _agent(model)
        result: AgentResult = await agent.invoke_async(args.question)
    _show_conversation(console, agent)
    rollout = model.rollout
    console.rule("the record")
    for line in listing(rollout, lambda token: str(model.tokenizer.decode([token]))):
        console.print(line)
    for line in summary(rollout, result.stop_reason):
        console.print(line)
    if args.output:
        try:
            args.output.write_text(rollout.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            raise SGLangConfigError(f"--output: the rollout cannot be saved: {error}") from error
        console.print(f"saved to {args.output}")
    return 0


def _client(args: argparse.Namespace) -> SGLangClient:
    """Return a client of the server, or of the embedded engine."""
    from strands_sglang import SGLangClient

    if args.base_url:
        return SGLangClient(args.base_url, max_retries=2)
    from strands_sglang.engine import EngineTransport, TinyEngine

    return SGLangClient("http://engine.local", transport=EngineTransport(TinyEngine()))


async def _model(args: argparse.Namespace, client: SGLangClient) -> SGLangModel:
    """Return the model under test, with the tokenizer of what is served."""
    from strands_sglang import SGLangModel, get_tokenizer, get_tool_parser

    name = args.tokenizer or (await client.model_info())["tokenizer_path"]
    tokenizer = get_tokenizer(name)
    named = args.tool_parser or (None if args.base_url else "hermes")  # the shipped model's
    parser = get_tool_parser(named) if named else get_tool_parser("auto", tokenizer=tokenizer)
    return SGLangModel(
        client=client,
        tokenizer=tokenizer,
        tool_parser=parser,
        sampling_params={"temperature": args.temperature},
        enable_thinking=args.enable_thinking,
    )


def _agent(model: SGLangModel) -> Agent:
    """Return the agent with its one tool."""
    from strands import Agent, tool

    @tool
    async def calculator(expression: str) -> str:
        """Evaluate an arithmetic expression."""
        return evaluate(expression)

    return Agent(model=model, tools=[calculator], callback_handler=None)


def _show_conversation(console: Console, agent: Agent) -> None:
    """Print the agent's messages, block by block."""
    from rich.text import Text

    console.rule("the conversation")
    for message in agent.messages:
        for block in message["content"]:
            label, style, content = _block(message["role"], block)
            console.print(Text.assemble((f"{label:>11}  ", "bold"), (content, style)))


def _block(role: str, block: Any) -> tuple[str, str, str]:
    """Return a content block's label, style and text."""
    if "toolUse" in block:
        use = block["toolUse"]
        arguments = ", ".join(f"{name}={value!r}" for name, value in use["input"].items())
        return "calls", "yellow", f"{use['name']}({arguments})"
    if "toolResult" in block:
        return (
            "tool result",
            "cyan",
            " ".join(str(piece.get("text", piece)) for piece in block["toolResult"]["content"]),
        )
    if "reasoningContent" in block:
        return "thinks", "dim", block["reasoningContent"]["reasoningText"]["text"].strip()
    return role, "green" if role == "assistant" else "", block["text"]

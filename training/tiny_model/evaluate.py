"""Measure the tiny model in real tool loops over held-out questions.

Owns the cases, the loop (generate, run the calculator, generate again) and the verdicts.  Every expression is from the
held-out part of :mod:`data`, so no question can have occurred in training.  It runs on the library's own engine in this
process or on any SGLang server, and prints a Markdown table.

Usage::

    python evaluate.py                            # the shipped model
    python evaluate.py DIRECTORY --n 50 --only bare
    python evaluate.py --url http://localhost:30000
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import json
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import data
import httpx
import wordings
from tokenizer import PACKAGE_DATA, Encoder, render

from strands_sglang.engine import EngineTransport, TinyEngine

FIRST_SEED = 30_000_000
MAX_NEW_TOKENS, MAX_ROUNDS, AT_ONCE = 160, 4, 8
BARE: dict[str, bool] = {}
THINKING, SILENT = {"enable_thinking": True}, {"enable_thinking": False}
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)
THOUGHT = re.compile(r"^(?:<think>\n)?(.*?)</think>\n\n", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

# Wordings that no rule of the generator produces.
UNSEEN = [
    ("What's the total of {a} and {b}?", "+"),
    ("How many is {a} and {b} together?", "+"),
    ("If I put {a} and {b} together, what do I get?", "+"),
    ("Increase {a} by {b}.", "+"),
    ("My cat weighs {a} grams and my dog {b} grams. What do they weigh together?", "+"),
    ("What remains if you take {b} from {a}?", "-"),
    ("Decrease {a} by {b}.", "-"),
    ("{a} take away {b}?", "-"),
    ("How much bigger is {a} than {b}?", "-"),
    ("We had {a} euros and paid {b}. What is left?", "-"),
    ("How much are {a} multiplied with {b}, please?", "*"),
    ("{a} rows of {b} seats: how many seats?", "*"),
    ("Could you do {a} times {b}?", "*"),
    ("I buy {a} bottles at {b} euros. What do I pay?", "*"),
    ("Please find {a}*{b} with your tool", "*"),
    ("yo what's {a} * {b}", "*"),
    ("How often does {b} go into {a}?", "/"),
    ("{a} sweets for {b} children, how many each?", "/"),
    ("What's {a} by {b}, divided?", "/"),
    ("Please compute the ratio {a} / {b}", "/"),
]


# ------------------------------------------------------------------ episodes and verdicts
@dataclasses.dataclass
class Turn:
    """One user message, what was asked for, and what happened."""

    text: str
    expressions: list[str]
    failures: tuple[str, ...] = ()
    """Results that the tool gives before it works."""
    calls: list[str] | None = None
    """The expressions of the first calls, once the assistant has answered."""
    rounds: int = 0
    answer: str | None = None
    problem: str | None = None


@dataclasses.dataclass
class Episode:
    """A conversation: its surroundings and its turns."""

    tools: list[data.Tool]
    name: str
    argument: str
    turns: list[Turn]
    system: str | None = None
    write: Callable[[float], str] = data.rounded


Verdict = Callable[[Episode, Turn], bool]


def states_results(episode: Episode, turn: Turn) -> bool:
    """Whether the first calls are the right ones and the answer states every result."""
    if turn.answer is None or _values(turn.calls or []) != _values(turn.expressions):
        return False
    numbers = NUMBER.findall(turn.answer)
    return all(data.calculator(e, episode.write) in numbers for e in turn.expressions)


def _values(expressions: list[str]) -> list[str]:
    return [data.calculator(expression, str) for expression in expressions]


def retries(episode: Episode, turn: Turn) -> bool:
    """Whether the failed call was repeated and the answer states the result."""
    return turn.rounds == 2 and states_results(episode, turn)


def reports_error(episode: Episode, turn: Turn) -> bool:
    """Whether the answer repeats the reason of the error."""
    return turn.failures[0].removeprefix("Error: ") in (turn.answer or "")


def calls_nothing(episode: Episode, turn: Turn) -> bool:
    """Whether there was an answer without a call."""
    return turn.calls == [] and bool(turn.answer)


# ------------------------------------------------------------------ cases
@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the table."""

    name: str
    episode: Callable[[data.Generator, int], Episode]
    switches: dict[str, bool] = dataclasses.field(default_factory=dict)
    temperature: float = 0.0
    verdict: Verdict = states_results


def single(draw: data.Generator) -> Turn:
    """Draw a question that has a result."""
    text, expression = _with_result(draw.question)
    return Turn(text, [expression])


def _with_result(question: Callable[[], data.Question]) -> data.Question:
    while True:
        text, expression = question()
        if not data.calculator(expression).startswith("Error"):
            return text, expression


def double(draw: data.Generator) -> Turn:
    """Draw two questions in one message."""
    (p, first), (q, second) = _with_result(draw.phrase), _with_result(draw.phrase)
    return Turn(draw.pick(wordings.PAIRS).format(p=p, q=q), [first, second])


def mixed(draw: data.Generator) -> Turn:
    """Draw one question, or two in one of eight."""
    return double(draw) if draw.chance(0.125) else single(draw)


def demo(number: int, turns: list[Turn], **surroundings: Any) -> Episode:
    """Put turns before the demo tool, in turn with and without a description of its argument."""
    text = (data.ARGUMENT_FROM_DOCSTRING, data.ARGUMENT_BY_DEFAULT)[number % 2]
    return Episode([data.demo_tool(text)], "calculator", "expression", turns, **surroundings)


def plain(draw: data.Generator, number: int) -> Episode:
    """The demo tool, no system prompt."""
    return demo(number, [mixed(draw)])


def helpful(draw: data.Generator, number: int) -> Episode:
    """The demo tool and the usual system prompt."""
    return demo(number, [mixed(draw)], system=wordings.HELPFUL)


def instructed(draw: data.Generator, number: int) -> Episode:
    """The demo tool and a drawn system prompt."""
    return demo(number, [mixed(draw)], system=draw.system_prompt())


def python_digits(draw: data.Generator, number: int) -> Episode:
    """The demo tool, whose results have all the digits that Python gives."""
    return demo(number, [mixed(draw)], write=str)


def two_at_once(draw: data.Generator, number: int) -> Episode:
    """Two questions in one message, to be answered with two calls at once."""
    return demo(number, [double(draw)])


def continued(draw: data.Generator, number: int) -> Episode:
    """Three questions, each on the result of the one before."""
    turns = [single(draw)]
    while len(turns) < 3:
        previous = data.calculator(turns[-1].expressions[0])
        turns.append(Turn(*_listed(draw.follow_up(previous))))
    return demo(number, turns)


def _listed(question: data.Question) -> tuple[str, list[str]]:
    return question[0], [question[1]]


def several(draw: data.Generator, number: int) -> Episode:
    """Four separate questions in one conversation."""
    return demo(number, [single(draw) for _ in range(4)])


def failing(draw: data.Generator, number: int) -> Episode:
    """The tool fails for good, half of the time as Strands reports an exception."""
    turn = single(draw)
    reason = draw.pick(wordings.FATAL_ERRORS)
    kind = "ZeroDivisionError" if "zero" in reason else "ValueError"
    turn.failures = (f"Error: {kind} - {reason}" if number % 2 else f"Error: {reason}",)
    return demo(number, [turn])


def flaky(draw: data.Generator, number: int) -> Episode:
    """The tool fails once for a passing reason."""
    turn = single(draw)
    turn.failures = (draw.pick(wordings.RETRIABLE_ERRORS),)
    return demo(number, [turn])


def small_talk(draw: data.Generator, number: int) -> Episode:
    """A message that asks for no calculation."""
    return demo(number, [Turn(draw.pick(draw.pick(wordings.SMALL_TALK)[0]), [])])


def unseen_wording(draw: data.Generator, number: int) -> Episode:
    """A wording that does not occur in training."""
    form, sign = UNSEEN[number % len(UNSEEN)]

    def question() -> data.Question:
        a, b = draw.operand(), draw.operand()
        return form.format(a=a, b=b), f"{a} {sign} {b}"

    return demo(number // len(UNSEEN), [Turn(*_listed(draw.allowed(question)))])


def renamed(draw: data.Generator, number: int) -> Episode:
    """A tool with a name and an argument from the lists of :mod:`wordings`."""
    return _named(draw, draw.pick(wordings.TOOL_NAMES), draw.pick(wordings.ARGUMENT_NAMES))


def made_up(draw: data.Generator, number: int) -> Episode:
    """A tool with a name that was made up."""
    return _named(draw, draw.identifier(), draw.pick(wordings.ARGUMENT_NAMES))


def _named(draw: data.Generator, name: str, argument: str) -> Episode:
    tool = data.tool_spec(name, draw.pick(wordings.TOOL_TEXTS), argument, f"Parameter {argument}")
    return Episode([tool], name, argument, [mixed(draw)])


CASES = [
    Case("bare", plain),
    Case("thinking", plain, THINKING),
    Case("not thinking", plain, SILENT),
    Case("bare, temperature 1", plain, BARE, 1.0),
    Case("thinking, temperature 1", plain, THINKING, 1.0),
    Case("not thinking, temperature 1", plain, SILENT, 1.0),
    Case('"You are a helpful assistant."', helpful),
    Case("drawn system prompts", instructed),
    Case("results with all of Python's digits", python_digits),
    Case("two questions in one message", two_at_once),
    Case("three questions, each on the last result", continued),
    Case("four separate questions", several),
    Case("tool error reported", failing, verdict=reports_error),
    Case("timeout retried", flaky, verdict=retries),
    Case("small talk without a call", small_talk, verdict=calls_nothing),
    Case("wordings not in the training data", unseen_wording),
    Case("other tool, names from training", renamed),
    Case("other tool, made-up name", made_up),
]


# ------------------------------------------------------------------ the loop
class Loop:
    """Runs episodes against an engine."""

    def __init__(self, client: httpx.AsyncClient, encoder: Encoder) -> None:
        """Take what is needed.

        Args:
            client: Its base URL is the engine's.
            encoder: The tokenizer of the model.
        """
        self.client, self.encoder, self.tokens = client, encoder, 0
        self.slots = asyncio.Semaphore(AT_ONCE)

    async def generate(self, prompt: list[int], temperature: float, seed: int) -> list[int]:
        """Generate one assistant message."""
        sampling = {"temperature": temperature, "max_new_tokens": MAX_NEW_TOKENS, "sampling_seed": seed}
        answer = await self.client.post("/generate", json={"input_ids": prompt, "sampling_params": sampling})
        ids = answer.raise_for_status().json()["output_ids"]
        self.tokens += len(ids)
        return ids

    async def run(self, case: Case, episode: Episode, seed: int) -> bool:
        """Run an episode to the end or to its first problem.

        Args:
            case: Gives template switches, temperature and verdict.
            episode: What to run; its turns record what happened.
            seed: The seed of the sampling.

        Returns:
            Whether every turn was right.
        """
        messages: list[data.Message] = [{"role": "system", "content": episode.system}] if episode.system else []
        async with self.slots:
            for turn in episode.turns:
                messages.append({"role": "user", "content": turn.text})
                await self._turn(case, episode, turn, messages, seed)
                if not case.verdict(episode, turn):
                    return False
        return True

    async def _turn(self, case: Case, episode: Episode, turn: Turn, messages: list[data.Message], seed: int) -> None:
        failures = iter(turn.failures)
        for _ in range(MAX_ROUNDS):
            text = render(messages, episode.tools, True, preserve_thinking=True, **case.switches)
            ids = await self.generate(self.encoder.encode(text), case.temperature, seed)
            message, turn.problem = parse(self.encoder.decode(ids))
            if turn.problem:
                return
            messages.append(message)
            calls = [call["function"] for call in message.get("tool_calls", [])]
            if turn.calls is None:
                turn.calls = [str(call["arguments"].get(episode.argument)) for call in calls]
            if not calls:
                turn.answer = message["content"]
                return
            turn.rounds += 1
            for number, call in enumerate(calls):
                if call["name"] != episode.name or list(call["arguments"]) != [episode.argument]:
                    turn.problem = f"wrong call: {json.dumps(call)}"
                    return
                expression = str(call["arguments"][episode.argument])
                result = next(failures, None) or data.calculator(expression, episode.write)
                messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
        turn.problem = "too many rounds"


def parse(text: str) -> tuple[data.Message, str | None]:
    """Read what the assistant wrote.

    Args:
        text: The decoded output, special tokens included.

    Returns:
        The message, and what is wrong with it, if anything is.
    """
    message: data.Message = {"role": "assistant"}
    if not text.endswith("<|im_end|>"):
        return message, "no end"
    text = text.removesuffix("<|im_end|>")
    if "</think>" in text:
        thought = THOUGHT.match(text)
        if thought is None:
            return message, "think block"
        message["reasoning_content"], text = thought[1].strip("\n"), text[thought.end() :]
    calls = []
    for number, body in enumerate(CALL.findall(text)):
        try:
            call = json.loads(body)
        except ValueError:
            return message, "call is not JSON"
        if set(call) != {"name", "arguments"} or not isinstance(call["arguments"], dict):
            return message, "call has another form"
        calls.append({"id": f"call_{number}", "type": "function", "function": call})
    message["content"] = CALL.sub("", text).strip("\n")
    if calls:
        message["tool_calls"] = calls
    return message, "stray tags" if re.search("</?(tool_call|think)>", message["content"]) else None


# ------------------------------------------------------------------ the program
async def measure(loop: Loop, case: Case, count: int, show: bool) -> str:
    """Run a case.

    Args:
        loop: The loop.
        case: The case.
        count: Number of episodes.
        show: Print the episodes that failed.

    Returns:
        A row of the table.
    """
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    episodes = [case.episode(data.Generator(seed, held_out=True), seed - FIRST_SEED) for seed in seeds]
    right = await asyncio.gather(*map(loop.run, itertools.repeat(case), episodes, seeds))
    for episode, is_right in zip(episodes, right, strict=True):
        if show and not is_right:
            print(case.name, [dataclasses.asdict(turn) for turn in episode.turns], flush=True)
    return f"| {case.name} | {count} | {100 * sum(right) / count:.1f} % |"


async def quick_start(loop: Loop) -> list[str]:
    """Ask the quick start's question in all modes, with both descriptions of the tool.

    Args:
        loop: The loop.

    Returns:
        What was answered, one line each.
    """
    lines = []
    modes = {"bare": BARE, "thinking": THINKING, "not thinking": SILENT}
    for (mode, switches), number, system in itertools.product(modes.items(), range(2), (None, wordings.HELPFUL)):
        episode = demo(number, [Turn("What is 25 * 17?", ["25 * 17"])], system=system, write=str)
        right = await loop.run(Case("", plain, switches), episode, 0)
        told = "argument described" if number == 0 else "argument not described"
        prompt = "system prompt" if system else "no system prompt"
        lines.append(f"{mode}, {told}, {prompt}: {episode.turns[0].answer!r} {'' if right else 'WRONG'}".rstrip())
    return lines


def cases(only: str | None) -> Iterator[Case]:
    """Choose the cases whose name begins with ``only``, or all."""
    return (case for case in CASES if only is None or case.name.startswith(only))


async def evaluate(a: argparse.Namespace) -> None:
    """Evaluate as the command line says."""
    transport = None if a.url else EngineTransport(TinyEngine(a.folder, max_running_requests=AT_ONCE))
    async with httpx.AsyncClient(transport=transport, base_url=a.url or "http://engine", timeout=300) as client:
        loop, begin = Loop(client, Encoder(a.folder)), time.monotonic()
        print("| case | episodes | right |\n| --- | --- | --- |")
        for case in cases(a.only):
            print(await measure(loop, case, a.n, a.show), flush=True)
        print("\nWhat is 25 * 17?\n" + "\n".join(await quick_start(loop)))
        print(f"\n{loop.tokens} tokens, {loop.tokens / (time.monotonic() - begin):.0f} a second")


def main() -> None:
    """Read the command line and evaluate."""
    parser = argparse.ArgumentParser(description="Evaluate the tiny model.")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=PACKAGE_DATA, help="folder of the model")
    parser.add_argument("--url", help="an SGLang server that serves this model; without it, the library's own engine")
    parser.add_argument("--n", type=int, default=200, help="episodes of a case")
    parser.add_argument("--only", help="run the cases whose name begins so")
    parser.add_argument("--show", action="store_true", help="print the episodes that failed")
    asyncio.run(evaluate(parser.parse_args()))


if __name__ == "__main__":
    main()

"""Synthetic calculator dialogues: each one a pure function of a seed.

Owns the arithmetic of the demo tool, the dialogue generator and the held-out partition.  The texts are in
:mod:`wordings`.  One sixteenth of all expressions, chosen by their hash, never occurs in training; evaluation draws
from that sixteenth only.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import operator
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import wordings

Message = dict[str, Any]
Tool = dict[str, Any]
Dialogue = tuple[list[Message], list[Tool] | None, dict[str, bool]]
Question = tuple[str, str]
T = TypeVar("T")

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_PARTS = 16


# ------------------------------------------------------------------ the tool
def evaluate(expression: str) -> float:
    """Evaluate an expression of numbers, ``+ - * /`` and brackets.

    Args:
        expression: The expression, at most 200 characters.

    Returns:
        Its value; an ``int`` where Python's arithmetic gives one.

    Raises:
        ValueError: The text is no such expression.
        ZeroDivisionError: A divisor is zero.
    """

    def walk(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -walk(node.operand)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        raise ValueError("unsupported expression")

    if len(expression) > 200:
        raise ValueError("expression too long")
    try:
        return walk(ast.parse(expression, mode="eval").body)
    except SyntaxError as error:
        raise ValueError("invalid expression") from error


def rounded(value: float) -> str:
    """Write a number with at most four decimals and no trailing zeros."""
    value = round(value, 4)
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0")


def calculator(expression: str, write: Callable[[float], str] = rounded) -> str:
    """Answer as the demo tool does: the value, or ``Error: ...``.

    Args:
        expression: What to evaluate.
        write: How the value is written: :func:`rounded`, or ``str`` for Python's own digits.

    Returns:
        The text of the tool result.
    """
    try:
        return write(evaluate(expression))
    except ZeroDivisionError:
        return "Error: division by zero"
    except (ValueError, OverflowError) as error:
        return f"Error: {error}"


# ------------------------------------------------------------------ the held-out part
def part_of(expression: str) -> int:
    """Assign an expression to one of 16 parts; spacing and the order of its tokens do not matter."""
    tokens = sorted(re.findall(r"[\d.]+|\S", expression))
    return hashlib.sha256(" ".join(tokens).encode()).digest()[0] % _PARTS


HELD_OUT_PART = part_of("25 * 17")  # the question of the quick start is thus never trained on


def is_held_out(expression: str) -> bool:
    """Whether an expression belongs to the part that training never sees."""
    return part_of(expression) == HELD_OUT_PART


# ------------------------------------------------------------------ tools
ARGUMENT_FROM_DOCSTRING = "An arithmetic expression, e.g. 2 + 3."
ARGUMENT_BY_DEFAULT = "Parameter expression"


def tool_spec(name: str, text: str, argument: str, argument_text: str | None) -> Tool:
    """Describe a tool with one required string, with the keys in the order in which Strands gives them.

    Args:
        name: Name of the tool.
        text: Description of the tool.
        argument: Name of its argument.
        argument_text: Description of the argument, if there is one.

    Returns:
        The tool in the form of the OpenAI API.
    """
    schema = {"description": argument_text, "type": "string"} if argument_text else {"type": "string"}
    parameters = {"properties": {argument: schema}, "required": [argument], "type": "object"}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


def demo_tool(argument_text: str = ARGUMENT_FROM_DOCSTRING) -> Tool:
    """Describe the quick start's tool as Strands does.

    Args:
        argument_text: What the docstring says of the argument; without an ``Args`` section Strands writes
            :data:`ARGUMENT_BY_DEFAULT`.

    Returns:
        The tool in the form of the OpenAI API.
    """
    return tool_spec("calculator", "Evaluate an arithmetic expression.", "expression", argument_text)


# ------------------------------------------------------------------ dialogues
class Generator:
    """Draws questions, tools and whole dialogues from one seed."""

    def __init__(self, seed: int, held_out: bool = False) -> None:
        """Start the random numbers.

        Args:
            seed: The seed; equal seeds give equal draws.
            held_out: Draw from the held-out part of the expressions only, instead of from the rest.
        """
        self.random = random.Random(seed)
        self.held_out = held_out

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items."""
        return items[self.random.randrange(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[int]) -> T:
        """Draw one of the items with the given weights."""
        return self.random.choices(items, weights)[0]

    def chance(self, probability: float) -> bool:
        """Draw true with the given probability."""
        return self.random.random() < probability

    def babble(self, low: int, high: int) -> str:
        """Draw a sentence of common words without meaning, ``low`` to ``high`` words long."""
        text = " ".join(self.pick(wordings.WORDS) for _ in range(self.random.randint(low, high)))
        return text[0].upper() + text[1:] + "."

    # -------------------------------------------------------------- questions
    def allowed(self, draw: Callable[[], Question]) -> Question:
        """Draw until the expression is in the part of the expressions that this generator may use."""
        while True:
            text, expression = draw()
            if is_held_out(expression) == self.held_out:
                return text, expression

    def operand(self) -> str:
        """Draw a positive number of one to four digits, one in ten with decimals."""
        digits = self.weighted((1, 2, 3, 4), (25, 35, 25, 15))
        number = str(self.random.randint(1 if digits == 1 else 10 ** (digits - 1), 10**digits - 1))
        if self.chance(0.10):
            number += f".{self.random.randint(1, 9)}" if self.chance(0.6) else f".{self.random.randint(1, 99):02d}"
        return number

    def operation(self) -> str:
        """Draw one of the four operations."""
        return self.pick("+-**/+")

    def phrase(self) -> Question:
        """Draw a noun phrase and its expression."""
        return self.allowed(self._any_phrase)

    def _any_phrase(self) -> Question:
        return self._simple_phrase() if self.chance(0.75) else self._compound_phrase()

    def _simple_phrase(self) -> Question:
        sign, a, b = self.operation(), self.operand(), self.operand()
        form = self.pick(wordings.PHRASES[sign])
        return form.format(a=a, b=b), (f"{b} + {a}" if "added to" in form else f"{a} {sign} {b}")

    def _compound_phrase(self) -> Question:
        a, b, c = self.operand(), self.operand(), self.operand()
        first, second = self.operation(), self.operation()
        kind = self.random.randrange(6)
        if kind < 3:
            formula = (
                f"({a} {first} {b}) {second} {c}",
                f"{a} {first} ({b} {second} {c})",
                f"{a} {first} {b} {second} {c}",
            )[kind]
            return (formula.replace(" ", "") if self.chance(0.2) else formula), formula
        if kind == 3:
            text = f"{a} {wordings.INFIXES[first].format(x=b)}, then {wordings.INFIXES[second].format(x=c)}"
            return text, f"({a} {first} {b}) {second} {c}"
        if kind == 4:
            noun, sign = self.pick(wordings.NESTED_NOUNS)
            text = f"{a} {wordings.INFIXES[first].format(x=f'the {noun} of {b} and {c}')}"
            return text, f"{a} {first} ({b} {sign} {c})"
        return (f"{a} percent of {b}" if self.chance(0.5) else f"{a}% of {b}"), f"{a} / 100 * {b}"

    def question(self) -> Question:
        """Draw one question in words and its expression."""
        return self.allowed(self._any_question)

    def _any_question(self) -> Question:
        kind = self.random.random()
        if kind < 0.64:
            text, expression = self._any_phrase()
            return self.pick(wordings.LEADS).format(p=text), expression
        sign, a, b = self.operation(), self.operand(), self.operand()
        if kind < 0.79:
            text = self.pick(wordings.ORDERS[sign]).format(a=a, b=b)
            if not text.endswith("?") and self.chance(0.35):
                text = self.pick(wordings.POLITE_ORDERS).format(text[0].lower() + text[1:].rstrip("."))
            return text, f"{a} {sign} {b}"
        if kind < 0.93:
            names = {"t": self.pick(wordings.THINGS), "n": self.pick(wordings.PEOPLE), "o": self.pick(wordings.PEOPLE)}
            return self.pick(wordings.STORIES[sign]).format(a=a, b=b, **names), f"{a} {sign} {b}"
        c, second = self.operand(), self.operation()
        steps = {"o": wordings.IMPERATIVES[sign].format(x=b), "q": wordings.IMPERATIVES[second].format(x=c)}
        return self.pick(wordings.CHAINS).format(a=a, **steps), f"({a} {sign} {b}) {second} {c}"

    def pair(self) -> tuple[str, list[str]]:
        """Draw two questions in one message and their expressions."""
        (p, first), (q, second) = self.phrase(), self.phrase()
        return self.pick(wordings.PAIRS).format(p=p, q=q), [first, second]

    def follow_up(self, previous: str) -> Question:
        """Draw a question that goes on from the previous result."""
        return self.allowed(functools.partial(self._any_follow_up, previous))

    def _any_follow_up(self, previous: str) -> Question:
        sign, b = self.operation(), self.operand()
        return self.pick(wordings.FOLLOW_UPS[sign]).format(b=b), f"{previous} {sign} {b}"

    def zero_division(self) -> Question:
        """Draw a division by zero."""
        return self.allowed(self._any_zero_division)

    def _any_zero_division(self) -> Question:
        a = self.operand()
        return self.pick(wordings.ZERO_DIVISIONS).format(a=a), f"{a} / 0"

    # -------------------------------------------------------------- tools and system prompts
    def identifier(self) -> str:
        """Draw a made-up name in snake or camel case."""
        parts = [
            self.pick(wordings.WORDS)
            if self.chance(0.5)
            else "".join(self.pick(wordings.SYLLABLES) for _ in range(self.random.randint(1, 3)))
            for _ in range(self.random.randint(1, 3))
        ]
        return "_".join(parts) if self.chance(0.7) else parts[0] + "".join(part.capitalize() for part in parts[1:])

    def tools(self) -> tuple[list[Tool], str, str]:
        """Draw the tools of a dialogue, the name of the calculator among them and that of its argument."""
        demo = self.chance(0.68)
        if demo:
            name, argument = "calculator", "expression"
            text = "Evaluate an arithmetic expression." if self.chance(0.85) else self.pick(wordings.TOOL_TEXTS)
            argument_text = self.weighted((ARGUMENT_FROM_DOCSTRING, ARGUMENT_BY_DEFAULT, ""), (40, 40, 20))
        else:
            name = self.identifier() if self.chance(0.3) else self.pick(["calculator", *wordings.TOOL_NAMES])
            argument = "expression" if self.chance(0.3) else self.pick(wordings.ARGUMENT_NAMES)
            if self.chance(0.2):
                argument = self.identifier()
            text = self.pick(wordings.TOOL_TEXTS)
            argument_text = f"Parameter {argument}" if self.chance(0.3) else ""
        if not argument_text:
            argument_text = self.pick(wordings.ARGUMENT_TEXTS) if self.chance(0.75) else None
        tools = [tool_spec(name, text, argument, argument_text)]
        if self.chance(0.10 if demo else 0.2):
            for other, other_text, key in self.random.sample(wordings.OTHER_TOOLS, self.random.randint(1, 2)):
                tools.insert(self.random.randint(0, len(tools)), tool_spec(other, other_text, key, f"Parameter {key}"))
        layout = self._layout(0.75 if demo else 0.5)
        return [layout(tool) for tool in tools], name, argument

    def _layout(self, as_strands: float) -> Callable[[Tool], Tool]:
        """Draw the order of a description's keys: that of Strands, or one of those that other callers use."""
        if self.chance(as_strands):
            return _keep
        return self.pick([_type_first, _type_first, _title, _sorted, _as_sglang, _bare])

    def system_prompt(self) -> str | None:
        """Draw a short system prompt, or none."""
        kind = self.random.random()
        if kind < 0.38:
            return None
        if kind < 0.60:
            return wordings.HELPFUL
        sentences = [
            self.pick(wordings.SENTENCES) if self.chance(0.8) else self.babble(3, 10)
            for _ in range(self.weighted((1, 2, 3, 6), (45, 33, 15, 7)))
        ]
        return self.pick([" ", " ", "\n"]).join(sentences)

    def long_system_prompt(self) -> str:
        """Draw a system prompt of 20 to 70 sentences."""
        return " ".join(
            self.pick(wordings.SENTENCES) if self.chance(0.4) else self.babble(3, 14)
            for _ in range(self.random.randint(20, 70))
        )

    # -------------------------------------------------------------- what tool and assistant say
    def error(self) -> str:
        """Draw the text of a failed tool result; half of them are in the form in which Strands reports exceptions."""
        reason = self.pick(wordings.FATAL_ERRORS) if self.chance(0.75) else self.babble(2, 5)[:-1].lower()
        if self.chance(0.5):
            kind = "ZeroDivisionError" if "zero" in reason else self.pick(wordings.ERROR_TYPES)
            return f"Error: {kind} - {reason}"
        return f"Error: {reason}"

    def result_form(self) -> str:
        """Draw how the tool dresses a value."""
        forms = ("{v}", '{{"result": "{v}"}}', '{{"result": {v}}}', "Result: {v}", "{e} = {v}")
        return self.weighted(forms, (72, 4, 8, 8, 8))

    def answer(self, expressions: list[str], values: list[str]) -> str:
        """Draw the sentence that gives the results."""
        if len(expressions) == 1:
            forms = ("{e} = {v}.", "The answer is {v}.", "{e} is {v}.", "The result is {v}.")
            return self.weighted(forms, (76, 8, 8, 8)).format(e=expressions[0], v=values[0])
        parts = [f"{e} = {v}" for e, v in zip(expressions, values, strict=True)]
        return self.weighted((" and ", ", "), (80, 20)).join(parts) + "."


def _keep(tool: Tool) -> Tool:
    return tool


def _type_first(tool: Tool) -> Tool:
    """Order the keys as the OpenAI documentation does: the type before everything else."""
    function = dict(tool["function"])
    properties = {
        name: {key: schema[key] for key in ("type", "description") if key in schema}
        for name, schema in function["parameters"]["properties"].items()
    }
    function["parameters"] = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": function}


def _title(tool: Tool) -> Tool:
    """Add titles, as pydantic's schemas have them."""
    function = dict(tool["function"])
    properties = {
        name: {**schema, "title": name.capitalize()} for name, schema in function["parameters"]["properties"].items()
    }
    function["parameters"] = {"properties": properties, "required": list(properties), "type": "object"}
    return {"type": "function", "function": function}


def _sorted(tool: Tool) -> Tool:
    """Order all keys by name."""
    return json.loads(json.dumps(tool, sort_keys=True))


def _as_sglang(tool: Tool) -> Tool:
    """Order the keys as SGLang's chat route hands them to the template."""
    function = tool["function"]
    keys = ("description", "name", "parameters")
    return {"type": "function", "function": {**{key: function[key] for key in keys}, "strict": False}}


def _bare(tool: Tool) -> Tool:
    """Drop the outer object."""
    return tool["function"]


class Writer:
    """Writes one dialogue: the surroundings are drawn once, the turns one after another."""

    def __init__(self, seed: int, held_out: bool = False) -> None:
        """Draw what holds for the whole dialogue.

        Args:
            seed: The seed of the dialogue.
            held_out: Use held-out expressions only, instead of all the others.
        """
        self.draw = Generator(seed, held_out)
        self.mode = self.draw.weighted(("bare", "think", "empty"), (44, 38, 18))
        self.write = str if self.draw.chance(0.2) else rounded
        self.messages: list[Message] = []
        self.tools: list[Tool] | None = None
        self.name = "calculator"
        self.argument = "expression"

    def dialogue(self, turns: int | None = None, long_system: bool = False, compact: bool = False) -> Dialogue:
        """Write the dialogue; see :func:`dialogue`."""
        if turns is None:
            turns = self.draw.weighted((1, 2, 3, 4, 6), (48, 25, 14, 8, 5))
        with_tools = compact or self.draw.chance(0.96)
        if not compact:
            system = self.draw.long_system_prompt() if long_system else self.draw.system_prompt()
            if system:
                self.messages.append({"role": "system", "content": system})
            if with_tools:
                self.tools, self.name, self.argument = self.draw.tools()
        previous = None
        for _ in range(turns):
            if self.draw.chance(0.08):
                self.small_talk()
                continue
            text, expressions = self.user_turn(previous)
            self.messages.append({"role": "user", "content": text})
            if with_tools:
                previous = self.episode(expressions)
            else:
                self.say(self.draw.pick(wordings.NO_TOOL_ANSWERS), wordings.NO_TOOL_THOUGHTS)
        return self.messages, self.tools, self.switches()

    def switches(self) -> dict[str, bool]:
        """Give the template's switches that fit the mode of the dialogue."""
        if self.mode == "empty":
            return {"enable_thinking": False}
        if self.mode == "think":
            return {"preserve_thinking": self.draw.chance(0.7)}
        return {}

    def say(self, content: str, thoughts: Sequence[str], calls: list[dict[str, Any]] | None = None) -> None:
        """Append an assistant message, with a thought if the dialogue has them."""
        message: Message = {"role": "assistant", "content": content}
        if self.mode == "think":
            message["reasoning_content"] = self.draw.pick(thoughts)
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def small_talk(self) -> None:
        """Append a turn without a tool."""
        questions, answers = self.draw.pick(wordings.SMALL_TALK)
        self.messages.append({"role": "user", "content": self.draw.pick(questions)})
        self.say(self.draw.pick(answers), wordings.SMALL_TALK_THOUGHTS)

    def user_turn(self, previous: str | None) -> tuple[str, list[str]]:
        """Draw the user's message and the expressions it asks for.

        Args:
            previous: The result to which a follow-up question can refer, if there is one.

        Returns:
            The text and the expressions.
        """
        kind = self.draw.random.random()
        if kind < 0.02:
            text, expression = self.draw.zero_division()
            return text, [expression]
        if previous is not None and kind < 0.42:
            text, expression = self.draw.follow_up(previous)
            return text, [expression]
        if kind > 0.87:
            return self.draw.pair()
        text, expression = self.draw.question()
        if self.draw.chance(0.04):
            text = f"{self.draw.babble(2, 6)} {text}"
        return text, [expression]

    def call(self, expressions: list[str], thoughts: Sequence[str] = wordings.CALL_THOUGHTS) -> None:
        """Append an assistant message that calls the calculator once for each expression."""
        calls = [
            {
                "id": f"call_{i}",
                "type": "function",
                "function": {"name": self.name, "arguments": {self.argument: expression}},
            }
            for i, expression in enumerate(expressions)
        ]
        content = self.draw.pick(wordings.PREAMBLES) if self.draw.chance(0.04) else ""
        wanted = " and ".join(expressions)
        self.say(content, [thought.format(e=wanted, name=self.name) for thought in thoughts], calls)

    def result(self, results: list[str]) -> None:
        """Append one tool message for each call."""
        for i, text in enumerate(results):
            self.messages.append({"role": "tool", "tool_call_id": f"call_{i}", "content": text})

    def episode(self, expressions: list[str]) -> str | None:
        """Append call, result and answer.

        Args:
            expressions: What to compute, one call each.

        Returns:
            The result, where there is exactly one.
        """
        values = [calculator(expression, self.write) for expression in expressions]
        self.call(expressions)
        single = len(expressions) == 1
        if any(value.startswith("Error") for value in values) or (single and self.draw.chance(0.04)):
            self.failure(values)
            return None
        if single and self.draw.chance(0.03):
            self.result([self.draw.pick(wordings.RETRIABLE_ERRORS)])
            self.call(expressions, wordings.RETRY_THOUGHTS)
        form = self.draw.result_form()
        self.result([form.format(e=e, v=v) for e, v in zip(expressions, values, strict=True)])
        joined = " and ".join(values)
        thoughts = [thought.format(v=joined) for thought in wordings.ANSWER_THOUGHTS]
        self.say(self.draw.answer(expressions, values), thoughts)
        return values[0] if single else None

    def failure(self, values: list[str]) -> None:
        """Append failed results and the assistant's report of the first failure."""
        drawn = self.draw.error()
        if values[0] == "Error: division by zero" and self.draw.chance(0.5):
            drawn = "Error: ZeroDivisionError - division by zero"
        results = [value if value.startswith("Error") else drawn for value in values] if len(values) > 1 else [drawn]
        self.result(results)
        reason = results[0].removeprefix("Error: ")
        self.say(f"The tool reported an error: {reason}.", wordings.ERROR_THOUGHTS)


def dialogue(
    seed: int, *, held_out: bool = False, turns: int | None = None, long_system: bool = False, compact: bool = False
) -> Dialogue:
    """Write the dialogue of a seed.

    Args:
        seed: The seed; equal arguments give equal dialogues.
        held_out: Use held-out expressions only, instead of all the others.
        turns: Number of user turns; drawn if not given.
        long_system: Put a system prompt of 20 to 70 sentences first.
        compact: Leave the system block and the tools out; the calls are to ``calculator(expression)`` all the same.

    Returns:
        Messages in the form of the OpenAI API, tools, and the switches of the chat template.
    """
    return Writer(seed, held_out).dialogue(turns, long_system, compact)

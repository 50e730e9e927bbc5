"""The conversations a chat template is checked with.

Every text in a shape is different from every other and ends in an ordinary letter, so that a place in a rendering can
be told by its text alone; where a shape is about texts that are empty, blank or hostile, only those are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .shape import Ending, Message, Shape, Tool, assistant, call, literal, result, system, tool, user


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


WEATHER = tool("get_weather", "Tells the weather of a city.", {"city": _text("Name of the city.")}, ["city"])
ADD = tool(
    "add",
    "Adds two numbers.",
    {"a": {"type": "number", "description": "First."}, "b": {"type": "number", "description": "Second."}},
    ["a", "b"],
)
BOOK = tool(
    "book_trip",
    "Books a trip.",
    {
        "where": _text("Destination."),
        "people": {"type": "integer", "description": "How many."},
        "refundable": {"type": "boolean", "description": "Whether it can be given back."},
        "price": {"type": "number", "description": "At most this."},
        "options": {
            "type": "object",
            "description": "Further wishes.",
            "properties": {"seats": {"type": "array", "items": {"type": "string"}}},
        },
        "note": _text("Free text."),
    },
    ["where"],
)
TOOLS = (WEATHER, ADD, BOOK)
_QUESTIONS = ("Which sea is warm", "And which is cold", "Why so", "Since when", "Who says that", "What follows")
_ANSWERS = ("The red one is", "The white one is", "It lies far up", "Since the ice came", "Sailors do", "Nobody knows")
_THOUGHTS = ("Let me recall the seas", "Now the other end", "Latitude matters", "Think of ages", "Ask around", "Hm")


def _plan(index: int, city: str) -> Message:
    # Nine letters and digits: what the strictest template wants of an id.
    return call("get_weather", {"city": city}, call_id=f"callab{index:03d}")


def _report(index: int, text: str) -> Message:
    return result(text, name="get_weather", call_id=f"callab{index:03d}")


def _shape(name: str, *messages: Message, tools: Sequence[Tool] = (), given: int | None = None, **more: Any) -> Shape:
    if given is None:
        roles = [message["role"] for message in messages]
        given = roles.index("assistant") if "assistant" in roles else len(roles)
    return Shape(name=name, messages=messages, tools=tuple(tools), given=given, **more)


def _chat(
    turns: int, *, reasoning: Callable[[int], bool] = lambda _: False, head: Sequence[Message] = ()
) -> list[Message]:
    messages = [*head, user(_QUESTIONS[0])]
    for i in range(turns):
        thought = _THOUGHTS[i] if reasoning(i) else None
        messages += [assistant(_ANSWERS[i], reasoning=thought), user(_QUESTIONS[(i + 1) % 6] + (" again" * (i == 5)))]
    return messages


def _rounds(rounds: int, *, reasoning: bool = False) -> list[Message]:
    messages = [user("Compare the weather of some cities")]
    for i in range(rounds):
        city = ("Oslo", "Lima", "Cairo", "Quito", "Perth")[i]
        thought = f"I should look at {city}" if reasoning else None
        messages += [
            assistant("", _plan(i, city), reasoning=thought),
            _report(i, f"It is {i + 7} degrees in {city} now"),
        ]
    return messages


def _one_call(arguments: dict[str, Any], *, name: str = "book_trip", answer: str = "Booked as wished") -> list[Message]:
    return [
        user("Please book something for me"),
        assistant("", call(name, arguments, call_id="callbook1")),
        result(answer, name=name, call_id="callbook1"),
    ]


def _chat_shapes() -> list[Shape]:
    head = [system("You know the oceans")]
    always = lambda _: True  # noqa: E731 - three predicates of one line
    return [
        _shape("one prompt", user("Hello there friend")),
        _shape("one prompt, system", *head, user("Hello there friend")),
        _shape("1 turn", *_chat(1)),
        _shape("1 turn, system", *_chat(1, head=head)),
        _shape("2 turns", *_chat(2)),
        _shape("3 turns, system", *_chat(3, head=head)),
        _shape("6 turns", *_chat(6)),
        _shape("reasoning, 1 turn", *_chat(1, reasoning=always)),
        _shape("reasoning, 3 turns, system", *_chat(3, reasoning=always, head=head)),
        _shape("reasoning in every second turn", *_chat(4, reasoning=lambda i: i % 2 == 1)),
        _shape("unused tools, 2 turns", *_chat(2, head=head), tools=TOOLS),
        _shape("given examples before the first prompt", *_chat(3, head=head), given=4),
        _shape("given examples with reasoning", *_chat(3, reasoning=always), given=3),
        _shape("two user messages in a row", *_chat(1), user("One more thing")),
        _shape("system message later", *_chat(1), system("Be brief from now on"), user("Go on then")),
    ]


def _call_shapes() -> list[Shape]:
    after = [assistant("Oslo is the coldest"), user("Thanks a lot")]
    head = [system("You like weather")]
    thinking = [assistant("Oslo is the coldest", reasoning="Compare the numbers"), user("Thanks a lot")]
    both = (_plan(0, "Oslo"), _plan(1, "Lima"))
    reports = [_report(0, "Snow falls in Oslo"), _report(1, "Sun shines in Lima")]
    mixed = [_plan(0, "Oslo"), call("add", {"a": 2, "b": 40}, call_id="callab001")]
    ask = user("Compare the weather of some cities")
    return [
        _shape("call", *_rounds(1), tools=TOOLS),
        _shape("call, system", *head, *_rounds(1), tools=TOOLS),
        _shape("call, answer, user", *_rounds(1), *after, tools=TOOLS),
        _shape("2 call rounds", *_rounds(2), tools=TOOLS),
        _shape("5 call rounds, answer, user", *_rounds(5), *after, tools=TOOLS),
        _shape("reasoning, call", *_rounds(1, reasoning=True), tools=TOOLS),
        _shape("reasoning, 2 call rounds, answer, user", *_rounds(2, reasoning=True), *thinking, tools=TOOLS),
        _shape("parallel calls of one tool", ask, assistant("", *both), *reports, *after, tools=TOOLS),
        _shape(
            "parallel calls of two tools",
            *(ask, assistant("", *mixed), _report(0, "Snow falls in Oslo")),
            result("The sum is 42 exactly", name="add", call_id="callab001"),
            tools=TOOLS,
        ),
        _shape(
            "parallel calls twice, reasoning",
            *(ask, assistant("", *both, reasoning="Two cities first"), *reports),
            assistant("", _plan(2, "Cairo"), _plan(3, "Quito"), reasoning="Two cities more"),
            *(_report(2, "Dust blows in Cairo"), _report(3, "Rain falls in Quito")),
            tools=TOOLS,
        ),
        _shape("text beside a call", ask, assistant("Let me look", both[0]), reports[0], *after, tools=TOOLS),
        _shape(
            "text and reasoning beside a call",
            *(ask, assistant("Let me look", both[0], reasoning="Oslo comes first"), reports[0], *thinking),
            tools=TOOLS,
        ),
        _shape("user message after a result", *_rounds(1), user("And be quick please"), tools=TOOLS),
        _shape(
            "calls again after a user message",
            *(*_rounds(1), *after, assistant("", _plan(7, "Perth")), _report(7, "Wind howls in Perth")),
            tools=TOOLS,
        ),
        _shape(
            "call ids of another form",
            *(ask, assistant("", call("get_weather", {"city": "Oslo"}, call_id="call_9f-A_0123456789abcdef01234567"))),
            result("Snow falls in Oslo", name="get_weather", call_id="call_9f-A_0123456789abcdef01234567"),
            tools=TOOLS,
        ),
        _shape("a call that was refused", *_refused_call(), tools=TOOLS),
    ]


def _refused_call() -> list[Message]:
    held = {"name": "get_weather", "reason": "the arguments are not JSON", "raw": '{"city": Oslo'}
    return [
        user("How is Oslo today"),
        assistant("", call("invalid_tool_call", held, call_id="callab000")),
        result("the arguments are not JSON", name="invalid_tool_call", call_id="callab000"),
    ]


def _content_shapes() -> list[Shape]:
    nested = {"seats": ["12A", "12B"], "meal": {"kind": "vegan", "spicy": None}, "empty": {}, "none": []}
    typed = {"where": "Rome", "people": 3, "refundable": True, "price": 1234.5, "note": None}
    quoting = 'She said "no"\n\tand C:\\path <b>& co</b> it\'s {{ fine }} {% raw %}'
    unicode_text = "Grüße 東京 مرحبا नमस्ते 👩‍👩‍👧 e\u0301te\u0301 Ω ﷽ ok"
    return [
        _shape("empty answer", user("Say nothing please"), assistant(""), user("Well done indeed")),
        _shape("empty user text", user("Start now"), assistant("I have begun"), user("")),
        _shape("empty result", *_one_call({"where": "Rome"}, answer=""), tools=TOOLS),
        _shape(
            "blank texts", user("Start now"), assistant("  \n"), user(" \n\n "), assistant("Still here"), user("Fine")
        ),
        _shape(
            "spaces and lines around texts",
            user("  lead and trail  \n"),
            assistant("Answer with a tail\n\n"),
            user("\n\nnext question\t"),
        ),
        _shape(
            "unicode", user(f"{unicode_text} one"), assistant(f"{unicode_text} two"), user(f"so {unicode_text} three")
        ),
        _shape(
            "code and markup",
            user(f"{quoting} one"),
            assistant(f"```py\n{quoting}\n```\nend"),
            user(f"and {quoting} two"),
        ),
        _shape(
            "a long text", user("word " * 800 + "end"), assistant("long " * 400 + "end"), user("more " * 800 + "end")
        ),
        _shape("several blocks", *_blocks(), tools=TOOLS),
        _shape("numbers, booleans and null in arguments", *_one_call(typed), tools=TOOLS),
        _shape("nested arguments", *_one_call({"where": "Rome", "options": nested}), tools=TOOLS),
        _shape("no arguments", *_one_call({}, name="get_weather"), tools=TOOLS),
        _shape("unicode and quotes in arguments", *_one_call({"where": "東京 é", "note": quoting}), tools=TOOLS),
        _shape(
            "JSON and markup in a result",
            *_one_call({"where": "Rome"}, answer=f'{{"a": [1, 2.50]}} {quoting}'),
            tools=TOOLS,
        ),
    ]


def _blocks() -> list[Message]:
    def text(*parts: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": part} for part in parts]

    return [
        user(text("First block here", "second block here")),
        assistant("", _plan(0, "Oslo")),
        result(text("Block one of it", "block two of it"), name="get_weather", call_id="callab000"),
    ]


def _ending_shapes() -> list[Shape]:
    ask = user("Tell me a long story of the sea")
    story = "Once the tide rose above the old town and stayed there for a year"
    thought = "The story needs a town and a tide and somebody who waits for it"
    then = user("Please go on now")
    cut = (ask, assistant(story), then)
    return [
        _shape("cut in the text", *cut, ending=Ending.CUT_TEXT),
        _shape("cut in the text of the second turn", *_chat(1), *cut[1:], ending=Ending.CUT_TEXT),
        _shape("cut in the text after a call", *_rounds(1), *cut[1:], tools=TOOLS, ending=Ending.CUT_TEXT),
        _shape("cut inside a character", ask, assistant("It was 𓀀𓁐𓂀𓃰"), then, ending=Ending.CUT_CHARACTER),
        _shape("cut in the reasoning", ask, assistant("", reasoning=thought), then, ending=Ending.CUT_REASONING),
        _shape("cut in a call", *_refused_call(), tools=TOOLS, ending=Ending.CUT_CALL),
        _shape("stopped by a string", *cut, ending=Ending.STOP_STRING),
        _shape("stopped by another stop token", *cut, ending=Ending.OTHER_STOP),
        _shape("no token at all", ask, assistant(""), then, ending=Ending.EMPTY),
    ]


def _hostile_shapes() -> list[Shape]:
    words = ("one", "two", "three", "four", "five", "six")
    bad = [f"before {literal(2 * i)} between {literal(2 * i + 1)} behind {word}" for i, word in enumerate(words)]
    evil_tool = tool("lookup", f"Looks {bad[5]}", {"key": _text(f"Key {bad[4]}")}, ["key"])
    asked = [user("Look it up"), assistant("", call("lookup", {"key": "k1"}, call_id="calllook1"))]
    return [
        _shape("control tokens in user text", user(bad[0]), assistant("I see them"), user(bad[1]), hostile=True),
        _shape("control tokens in system text", system(bad[2]), *_chat(1), hostile=True),
        _shape(
            "control tokens in a result",
            *asked,
            result(bad[3], name="lookup", call_id="calllook1"),
            tools=(evil_tool,),
            hostile=True,
        ),
        _shape(
            "nothing but control tokens", user(literal(0) * 3), assistant("I see them"), user(literal(1)), hostile=True
        ),
    ]


def battery() -> tuple[Shape, ...]:
    """Return every shape."""
    return (*_chat_shapes(), *_call_shapes(), *_content_shapes(), *_ending_shapes(), *_hostile_shapes())


TEXT_SHAPE, CALL_SHAPE = "1 turn", "call"
"""The smallest conversations with a turn that is history: one of text, one of a call."""

QUICK = (
    TEXT_SHAPE,
    "1 turn, system",
    CALL_SHAPE,
    "reasoning, 2 call rounds, answer, user",
    "parallel calls of two tools",
    "cut in the text",
    "control tokens in user text",
)
"""The shapes of the quick form: one of each way a bridge is made."""

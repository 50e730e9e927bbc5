"""The shipped model and the dialogues it was trained on: reproducible, held out, and rendered as they are served."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from strands import tool

from strands_sglang import get_tokenizer
from strands_sglang.engine.tiny.checkpoint import SHIPPED

TRAINING = Path(__file__).parents[2] / "training" / "tiny_model"
if not TRAINING.exists():
    pytest.skip("the training scripts are only in the repository", allow_module_level=True)


def script(name: str) -> ModuleType:
    """Import a training script, which finds its neighbours beside it."""
    sys.path.insert(0, str(TRAINING))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TRAINING))


data = script("data")
tokenizer = script("tokenizer")
CONFIG = json.loads((SHIPPED / "config.json").read_text())
SEEDS = range(400)


def expressions(dialogue: Any) -> list[str]:
    messages, _, _ = dialogue
    calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    return [value for call in calls for value in call["arguments"].values()]


def tensors() -> dict[str, Any]:
    raw = (SHIPPED / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return {name: entry for name, entry in json.loads(raw[8 : 8 + size]).items() if name != "__metadata__"}


def test_a_dialogue_is_a_function_of_its_seed() -> None:
    first, again = ([data.dialogue(seed) for seed in SEEDS] for _ in range(2))

    assert first == again
    assert all(one != next_one for one, next_one in pairwise(first))


def test_training_never_sees_a_held_out_expression() -> None:
    seen = [e for seed in SEEDS for e in expressions(data.dialogue(seed))]

    assert len(seen) > 500
    assert not any(map(data.is_held_out, seen))


def test_evaluation_draws_only_held_out_expressions() -> None:
    drawn = [data.Generator(seed, held_out=True).question()[1] for seed in range(50)]
    told = [e for seed in range(20) for e in expressions(data.dialogue(seed, held_out=True))]

    assert all(map(data.is_held_out, drawn + told))


@pytest.mark.parametrize("other", ["25*17", "17 * 25", " 17*25 "])
def test_the_quick_start_is_held_out_however_it_is_written(other: str) -> None:
    assert data.is_held_out("25 * 17")
    assert data.is_held_out(other)


def test_a_sixteenth_of_the_expressions_is_held_out() -> None:
    held = sum(data.is_held_out(f"{a} + {b}") for a in range(100) for b in range(100))

    assert 0.04 < held / 10_000 < 0.09


def test_the_demo_tool_is_described_as_strands_describes_it() -> None:
    @tool(name="calculator")
    def with_section(expression: str) -> str:
        """Evaluate an arithmetic expression.

        Args:
            expression: An arithmetic expression, e.g. 2 + 3.
        """
        return expression

    @tool(name="calculator")
    def without_section(expression: str) -> str:
        """Evaluate an arithmetic expression."""
        return expression

    for described, text in (
        (with_section, data.ARGUMENT_FROM_DOCSTRING),
        (without_section, data.ARGUMENT_BY_DEFAULT),
    ):
        function = data.demo_tool(text)["function"]
        schema = described.tool_spec["inputSchema"]["json"]
        assert (function["name"], function["description"]) == ("calculator", described.tool_spec["description"])
        assert json.dumps(function["parameters"]) == json.dumps(schema)


def test_most_dialogues_use_the_demo_tool() -> None:
    drawn = [data.dialogue(seed)[1] for seed in SEEDS]
    names = [[t.get("function", t)["name"] for t in tools] for tools in drawn if tools]

    assert sum("calculator" in of_dialogue for of_dialogue in names) > 0.6 * len(names)


def test_training_renders_as_serving_does() -> None:
    served = get_tokenizer(str(SHIPPED))
    for seed in range(30):
        messages, tools, switches = data.dialogue(seed)
        text = served.apply_chat_template(messages, tools=tools, tokenize=False, **switches)

        assert tokenizer.render(messages, tools, **switches) == text


@pytest.mark.parametrize(
    ("switches", "opening"),
    [({}, ""), ({"enable_thinking": True}, "<think>\n"), ({"enable_thinking": False}, "<think>\n\n</think>\n\n")],
)
def test_the_template_opens_the_answer_as_the_switch_says(switches: dict[str, bool], opening: str) -> None:
    text = tokenizer.render([{"role": "user", "content": "Hi"}], None, True, **switches)

    assert text == f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{opening}"


def test_the_loss_is_on_what_the_assistant_writes() -> None:
    encoder = tokenizer.Encoder(SHIPPED)
    messages = [
        {"role": "user", "content": "What is 2 + 3?"},
        {"role": "assistant", "content": "5."},
        {"role": "user", "content": "Thanks"},
        {"role": "assistant", "content": "Any time."},
    ]
    ids, mask = encoder.example((messages, None, {}))

    assert encoder.decode([i for i, learned in zip(ids, mask, strict=True) if learned]) == (
        "5.<|im_end|>Any time.<|im_end|>"
    )


def test_the_tokenizer_fits_the_configuration() -> None:
    encoder = tokenizer.Encoder(SHIPPED)
    generation = json.loads((SHIPPED / "generation_config.json").read_text())

    assert encoder.tokenizer.get_vocab_size() == CONFIG["vocab_size"] == tokenizer.VOCABULARY_SIZE
    assert CONFIG["eos_token_id"] == generation["eos_token_id"] == encoder.tokenizer.token_to_id("<|im_end|>")
    assert CONFIG["pad_token_id"] == generation["pad_token_id"] == encoder.tokenizer.token_to_id("<|endoftext|>")


def test_every_digit_is_a_token() -> None:
    encoder = tokenizer.Encoder(SHIPPED)

    assert encoder.tokenizer.encode("2517.5").tokens == ["2", "5", "1", "7", ".", "5"]


def test_the_weights_fit_the_configuration() -> None:
    entries = tensors()

    assert entries["model.embed_tokens.weight"]["shape"] == [CONFIG["vocab_size"], CONFIG["hidden_size"]]
    assert len({name.split(".")[2] for name in entries if ".layers." in name}) == CONFIG["num_hidden_layers"]
    assert {entry["dtype"] for entry in entries.values()} == {"F16"}
    assert sum(math.prod(entry["shape"]) for entry in entries.values()) == 2_165_120


def test_the_weights_are_those_of_the_training_log() -> None:
    *_, last = (TRAINING / "training.jsonl").read_text().splitlines()

    assert json.loads(last)["sha256"] == hashlib.sha256((SHIPPED / "model.safetensors").read_bytes()).hexdigest()

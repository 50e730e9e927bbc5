from __future__ import annotations

import pytest

from strands_sglang.tokenization.battery.conversations import QUICK, battery
from strands_sglang.tokenization.battery.sampling import differing, only_marks
from strands_sglang.tokenization.battery.shape import Ending, Shape, literal, texts, user, with_literals


def test_there_are_more_than_forty_shapes_with_names_of_their_own() -> None:
    names = [shape.name for shape in battery()]

    assert len(names) > 40
    assert len(set(names)) == len(names)


def test_every_shape_ends_in_a_prompt_and_begins_with_one() -> None:
    for shape in battery():
        assert shape.messages[-1]["role"] != "assistant", shape.name
        assert all(index >= shape.given for index in shape.sampled()), shape.name


def test_every_ending_has_a_shape() -> None:
    assert {shape.ending for shape in battery()} == set(Ending)


def test_results_follow_their_calls() -> None:
    for shape in battery():
        called = [call["id"] for message in shape.messages for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in shape.messages if message["role"] == "tool"]
        assert called == answered, shape.name


def test_the_quick_shapes_are_among_all_shapes() -> None:
    assert set(QUICK) <= {shape.name for shape in battery()}


def test_literals_are_written_in_their_places_and_nowhere_else() -> None:
    shape = Shape(name="any", messages=(user(f"a {literal(0)} b {literal(3)}"),), given=1, hostile=True)

    written = with_literals(shape, ["<x>", "<y>"])

    assert list(texts(written))[-1] == "a <x> b <y>"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("same text", "same text", ("", "")),
        ("<think>a</think>b", "<think></think>b", ("a", "")),
        ("<think>b", "</think>b", ("<think>", "</think>")),
        ("left<think>", "left</think>", ("<think>", "</think>")),
    ],
)
def test_marks_of_reasoning_are_compared_as_wholes(one: str, other: str, expected: tuple[str, str]) -> None:
    assert differing(one, other) == expected


@pytest.mark.parametrize("text", ["", " \n", "<think>\n\n</think>\n\n", "[THINK]", "<|channel>thought\n<channel|>"])
def test_marks_of_reasoning_are_known(text: str) -> None:
    assert only_marks(text)


@pytest.mark.parametrize("text", ["<|im_end|>", "<think>why</think>", "assistant\n", "<tool_call>"])
def test_other_tokens_are_no_marks_of_reasoning(text: str) -> None:
    assert not only_marks(text)

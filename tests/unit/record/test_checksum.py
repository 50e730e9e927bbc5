"""A record is its values: whatever tool wrote them anew they are read, and a changed one is refused."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang import Rollout, Trajectory
from strands_sglang.errors import RecordFormatError
from strands_sglang.rollout.checksum import checksum
from strands_sglang.rollout.values import DEEPEST

from .test_saved_trajectory import whole
from .trees import examples, trajectories


def in_order(value: Any, order: Callable[[list[str]], list[str]]) -> Any:
    """Return a value with the keys of its objects in another order."""
    if isinstance(value, dict):
        return {key: in_order(value[key], order) for key in order(list(value))}
    return [in_order(part, order) for part in value] if isinstance(value, list) else value


def as_integers(value: Any) -> Any:
    """Return a value as jq and JavaScript write it: 1.0 is 1."""
    if isinstance(value, dict):
        return {key: as_integers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_integers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shuffled(keys: list[str]) -> list[str]:
    return random.Random(len(keys)).sample(keys, len(keys))


TOOLS: dict[str, Callable[[Any], str]] = {
    "compact": lambda saved: json.dumps(saved, separators=(",", ":")),
    "with spaces": json.dumps,
    "indented": lambda saved: json.dumps(saved, indent=2),
    "sorted, the key first": lambda saved: json.dumps(in_order(saved, sorted), separators=(",", ":")),
    "in any order": lambda saved: json.dumps(in_order(saved, shuffled)),
    "reversed": lambda saved: json.dumps(in_order(saved, lambda keys: keys[::-1]), separators=(",", ":")),
    "1.0 as 1": lambda saved: json.dumps(as_integers(saved), separators=(",", ":")),
    "1.0 as 1, sorted": lambda saved: json.dumps(as_integers(saved), sort_keys=True),
    "not escaped": lambda saved: json.dumps(saved, separators=(",", ":"), ensure_ascii=False),
}


@pytest.mark.parametrize("tool", TOOLS)
@examples(25)
@given(trajectories(most=3))
def test_what_a_tool_wrote_anew_is_read(tool: str, trajectory: Trajectory) -> None:
    text = TOOLS[tool](json.loads(trajectory.to_json()))

    assert Trajectory.from_json(text) == trajectory
    for encoded in ("utf-8", "utf-8-sig", "utf-16"):
        assert Trajectory.from_json(text.encode(encoded, "surrogatepass")) == trajectory
    assert Trajectory.from_dict(json.loads(text)) == trajectory


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values that hold no others."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield place
        return
    for key, part in inner:
        yield from leaves(part, (*place, key))


def other(value: Any) -> Any:
    """Return another value of the kind, as near as there is."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * (1 + 2**-52) or 1e-300
        case str():
            return value + "." if not value else value[:-1] + chr(ord(value[-1]) ^ 1)
    return 0


@pytest.mark.parametrize("order", [list, sorted, lambda keys: keys[::-1]], ids=["last", "sorted", "first"])
def test_a_changed_value_is_refused_wherever_the_key_stands(order: Callable[[list[str]], list[str]]) -> None:
    trajectory = whole()
    trajectory.metadata |= {
        "whole": [1, 2, None],
        "real": [1.5, -0.0, 2**60],
        "big": [2**60 + 1, 10**40],
        "yes": [True],
    }
    text = trajectory.to_json()
    places = list(leaves(json.loads(text)))
    assert len(places) > 50
    for place in places:
        saved = json.loads(text)
        holder = saved
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = other(holder[place[-1]])

        with pytest.raises(RecordFormatError):
            Trajectory.from_json(json.dumps(in_order(saved, order)))


@pytest.mark.parametrize("told", ["", "0", "00000000", 0, None, [], {}, "ABCDEF01"], ids=repr)
def test_a_wrong_checksum_is_told_with_what_can_be_done(told: Any) -> None:
    saved = json.loads(whole().to_json())

    with pytest.raises(
        RecordFormatError, match=r"checksum is wrong.* a value was changed.*Without crc32 it is read as"
    ):
        Trajectory.from_dict({**saved, "crc32": told})
    del saved["crc32"]
    assert Trajectory.from_dict(saved) == whole()


def test_the_place_of_a_damage_is_told_before_the_checksum() -> None:
    saved = json.loads(whole().to_json())
    saved["turns"][0]["fate"] = "lost"
    with pytest.raises(RecordFormatError, match=r"turns\[0\].fate"):
        Trajectory.from_dict(saved)

    flat = json.loads(whole().turns[0].rollout().to_json())
    flat["segments"][0]["kind"] = "sung"
    with pytest.raises(RecordFormatError, match=r"segments\[0\].kind"):
        Rollout.from_dict(flat)


def test_what_is_no_json_value_is_told_by_its_place() -> None:
    saved = json.loads(whole().to_json())
    saved["metadata"]["x"] = {1}

    with pytest.raises(RecordFormatError, match=r"metadata\.x is a set"):
        Trajectory.from_dict(saved)


def test_metadata_may_have_a_key_of_that_name() -> None:
    trajectory = Trajectory(metadata={"a": 1, "crc32": "deadbeef"})

    assert Trajectory.from_json(trajectory.to_json()) == trajectory


EQUAL: list[tuple[Any, Any]] = [
    (1, 1.0),
    (0, -0.0),
    (10**22, 1e22),
    ([1, 2], [1.0, 2.0]),
    ([0, 1.5], [-0.0, 1.5]),
    ([None, 3], [None, 3.0]),
    ([2**40, 2**60], [2.0**40, 2.0**60]),
    (["a", 1], ["a", 1.0]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}),
    ("\ud83d\ude00", "\U0001f600"),
]
DIFFERENT: list[Any] = [
    *(None, True, False, 0, 1, -1, 0.5, "", "0", "1", "null", "None", "#1", [], {}, "[0", "{0"),
    *(
        [0],
        [1],
        [None],
        [True],
        [False],
        [0, 0],
        [0, None],
        [None, 0],
        [[0]],
        [[], 0],
        [0, []],
        ["0"],
        ["a", "b"],
        ["ab"],
    ),
    *([0.5], [0.5, 1], [1, 0.5], [0.5, None], [2**53], [2**53 + 1], [2**53 + 1, 0.5], [2**53, 0.5], [10**400], [1e308]),
    *({"a": 1}, {"a": "1"}, {"a": None}, {"a": [1]}, {"a": {"a": 1}}, {"a": {}, "b": 1}, {"a": {"b": 1}}, ["a", 1]),
    *(2**53, 2**53 + 1, 0.1, 0.1 + 2**-56, [0.1], [0.1 + 2**-56], [1, 2], [2, 1], "\ud800", "\ud801", [1, 2, "x"]),
]


@pytest.mark.parametrize(("one", "two"), EQUAL, ids=repr)
def test_equal_values_have_one_checksum(one: Any, two: Any) -> None:
    assert checksum(one) == checksum(two)


def test_different_values_have_different_checksums() -> None:
    assert len({checksum(value) for value in DIFFERENT}) == len(DIFFERENT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@examples(200)
@given(JSON)
def test_a_checksum_survives_every_tool(value: Any) -> None:
    for tool in TOOLS.values():
        assert checksum(json.loads(tool(value))) == checksum(value)


def test_the_deepest_record_is_written_and_read_on_a_common_stack() -> None:
    deep: Any = 1
    for _ in range(DEEPEST - 1):
        deep = [deep, "x"]
    trajectory = Trajectory(metadata={"deep": deep})
    read: list[Trajectory] = []

    thread = threading.Thread(target=lambda: read.append(Trajectory.from_json(trajectory.to_json())))
    thread.start()
    thread.join()

    assert read == [trajectory]

"""What the writer refuses is what the reader refuses, and neither fails in any other way."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strands_sglang import Rollout, Trajectory
from strands_sglang.errors import RecordError, RecordFormatError
from strands_sglang.records import RecordWriter, read_records
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Turn

HALF = "\ud800"


def nested(levels: int) -> Any:
    """Lists within each other."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    """An object that holds itself."""
    found: dict[str, Any] = {}
    found["self"] = found
    return found


def full() -> Trajectory:
    """An episode with every field."""
    trajectory = Trajectory(id="e1", reward=1.0, group_id="g", group_index=0, metadata={"deep": {"list": [1]}})
    trajectory.termination = Termination(reason=TerminationReason.TASK_COMPLETE, detail="done")
    parent = None
    for index in range(2):
        prompt = Segment.of(SegmentKind.PROMPT, [1, 2], replaces=index)
        sampled = Segment.of(
            SegmentKind.SAMPLED,
            [3, 4],
            [-0.5, None],
            weight_spans=(("v1", 0, 1), ("v2", 1, 2)),
            message_index=1,
            facts={"sampling_params": {"temperature": 1.0}},
        )
        parent = Turn(
            index=index,
            parent=parent,
            prompt=prompt,
            sampled=sampled,
            conversation=0,
            lineage=Lineage.MAIN,
            images=("data:,",),
            credit={"advantage": 0.5},
        )
        trajectory.add(parent)
    return trajectory


def of_turn(**changed: Any) -> Callable[[Trajectory], None]:
    """Change the last turn."""

    def change(trajectory: Trajectory) -> None:
        for name, value in changed.items():
            setattr(trajectory.turns[-1], name, value)

    return change


def of_episode(**changed: Any) -> Callable[[Trajectory], None]:
    """Change the episode."""

    def change(trajectory: Trajectory) -> None:
        for name, value in changed.items():
            setattr(trajectory, name, value)

    return change


def sampled(**rest: Any) -> Callable[[Trajectory], None]:
    """Change what the last turn sampled."""
    return of_turn(sampled=Segment.of(SegmentKind.SAMPLED, [3], **rest))


UNWRITABLE: list[tuple[Callable[[Trajectory], None], str]] = [
    (of_episode(id=7), "id is an integer, not a string"),
    (of_episode(id=HALF), "id is '.ud800', which UTF-8 cannot write"),
    (of_episode(id=None), "id is null, not a string"),
    (of_episode(group_id=3), "group_id is an integer, not a string"),
    (of_episode(group_index=True), "group_index is a boolean, not an integer"),
    (of_episode(group_index=np.int64(1)), "group_index is a int64, not an integer"),
    (of_episode(group_index=2**70), "group_index is an integer of 71 bits"),
    (of_episode(reward=np.float32(1)), "reward is a float32, not a plain number"),
    (of_episode(reward=float("nan")), "reward is nan"),
    (of_episode(metadata=endless()), "stands within 400 lists and objects, or holds itself"),
    (of_episode(metadata={"a": nested(500)}), "metadata.a.* stands within 400"),
    (of_episode(metadata={"a": 10**5000}), "metadata.a is an integer of 16610 bits"),
    (of_episode(metadata={1: 2}), "metadata has the key 1"),
    (of_episode(metadata=[1]), "metadata is a list, not an object"),
    (of_episode(termination=Termination(reason="boredom", detail="")), "termination.reason is 'boredom'"),  # type: ignore[arg-type]
    (
        of_episode(termination=Termination(reason=TerminationReason.ABORTED, detail=3)),  # type: ignore[arg-type]
        "termination.detail is an integer, not a string",
    ),
    (of_turn(images=(b"png",)), r"turns\[1\].images\[0\] is a bytes, not a string"),
    (of_turn(images="data:,"), r"turns\[1\].images is a string, not a list"),
    (of_turn(credit={1: 0.5}), r"turns\[1\].credit has the key 1; only strings"),
    (of_turn(credit={"a": "b"}), r"turns\[1\].credit.a is a str, not a plain number"),
    (of_turn(conversation=np.int64(0)), r"turns\[1\].conversation is a int64"),
    (of_turn(lineage="nobody"), r"turns\[1\].lineage is 'nobody', not one of main"),
    (of_turn(fate=None), r"turns\[1\].fate is null, not a string"),
    (sampled(replaces=True), r"turns\[1\].sampled.replaces is a boolean"),
    (sampled(message_index=1.0), r"turns\[1\].sampled.message_index is a number"),
    (sampled(weight_spans=((1, 0, 1),)), r"turns\[1\].sampled.weight_spans\[0\] is an integer, not a string"),
    (sampled(facts={"a": {2}}), r"turns\[1\].sampled.facts.a is a set"),
]


@pytest.mark.parametrize(("change", "words"), UNWRITABLE, ids=[words for _, words in UNWRITABLE])
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, change: Callable[[Trajectory], None], words: str
) -> None:
    trajectory = full()
    change(trajectory)

    with pytest.raises(RecordError, match=words):
        trajectory.to_json()
    with RecordWriter(tmp_path / "records.jsonl") as writer, pytest.raises(RecordError, match=words):
        writer.write(trajectory)
    assert (tmp_path / "records.jsonl").read_bytes() == b""


def test_what_a_deep_value_may_be_is_written_and_read() -> None:
    trajectory = Trajectory(metadata={"a": nested(399)})

    assert Trajectory.from_json(trajectory.to_json()) == trajectory


def test_a_deep_value_where_the_stack_is_full_is_refused() -> None:
    trajectory = Trajectory(metadata={"a": nested(399)})

    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            trajectory.to_json()

    with pytest.raises(RecordError, match="metadata holds lists and objects within each other, too many for the stack"):
        deeper(sys.getrecursionlimit() - 400)


def test_an_image_of_a_rollout_is_a_string() -> None:
    with pytest.raises(RecordError, match=r"image_data\[0\] is a bytes"):
        Rollout(image_data=[b"png"]).to_json()  # type: ignore[list-item]


ODD: list[Any] = [
    None, True, False, 0, -1, 7, 2**31, 2**63, 10**400, 10**5000, -(10**400), 0.5, 1e300, -0.0, "", "x", HALF, "²",
    [], [None], [[1]], [10**400], [True], ["a", 0, 1], [HALF], {}, {"a": 1}, {"a": 10**400}, {1: 2}, {HALF: 1}, b"x",
    {2}, float("nan"), float("inf"), nested(300), endless(), ("v", 0, 1),
]  # fmt: skip


def places(saved: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value within."""
    yield path
    for key, value in saved.items() if isinstance(saved, dict) else enumerate(saved) if isinstance(saved, list) else ():
        yield from places(value, (*path, key))


def with_value(saved: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy in which another value stands at a path."""
    if not path:
        return value
    copied = dict(saved) if isinstance(saved, dict) else list(saved)
    copied[path[0]] = with_value(saved[path[0]], path[1:], value)
    return copied


@pytest.mark.parametrize("record", [full(), full().turns[-1].rollout()], ids=["trajectory", "rollout"])
def test_an_odd_value_anywhere_is_read_as_it_is_or_refused(record: Trajectory | Rollout) -> None:
    saved = record.to_dict()
    kind = type(record)
    for path in places(saved):
        for value in ODD:
            odd = with_value(saved, path, value)
            try:
                again = kind.from_dict(odd)
            except RecordFormatError:
                continue
            assert kind.from_json(again.to_json()) == again, (path, value)


def test_an_odd_value_in_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    saved = full().to_dict()
    lines = []
    for place in places(saved):
        for value in (10**400, HALF, nested(300), 2**63, "1e999"):
            text = json.dumps(with_value(saved, place, value))
            lines.append(text.replace('"1e999"', "1e999"))
    path.write_text(full().to_json() + "\n" + "\n".join(lines) + "\n")

    reader = read_records(path, strict=False)
    good = list(reader)

    assert len(good) + len(reader.damaged) == 1 + len(lines)
    assert all(Trajectory.from_json(each.to_json()) == each for each in good)
    assert {error.path for error in reader.damaged} == {str(path)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"reward":1.0', '"reward":1.0,"reward":2.0'),
        ('"facts":{', '"facts":{"a":1,"a":1,'),
        ('"deep":{', '"deep":{"list":[],'),
    ],
)
def test_a_key_that_stands_twice_is_refused(before: str, after: str) -> None:
    with pytest.raises(RecordFormatError, match=r"an object has the key '.*' twice"):
        Trajectory.from_json(full().to_json().replace(before, after, 1))


def test_a_token_has_one_weight_version() -> None:
    with pytest.raises(RecordError, match="weights 'b': the span from 1 begins before the one before it ends"):
        Segment.of(SegmentKind.SAMPLED, [1, 2, 3], weight_spans=(("a", 0, 2), ("b", 1, 3)))
    with pytest.raises(RecordError, match="begins before the one before it ends"):
        Segment.of(SegmentKind.SAMPLED, [1, 2, 3], weight_spans=(("b", 2, 3), ("a", 0, 2)))


def test_a_segment_of_lists_is_refused() -> None:
    with pytest.raises(RecordError, match=r"Segment.of makes one from lists"):
        Segment(kind=SegmentKind.PROMPT, ids=[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [10**400, "x", [1]])
def test_a_logprob_is_a_number_that_a_float_can_hold(odd: Any) -> None:
    with pytest.raises(RecordError, match="logprobs must be numbers that a float can hold"):
        Segment.of(SegmentKind.SAMPLED, [1, 2], [None, odd])

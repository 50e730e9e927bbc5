from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel

from strands_sglang import Rollout, Trajectory
from strands_sglang.errors import RecordError, RecordFormatError
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.rollout.saved import Format
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Turn, TurnFate

from .trees import examples, trajectories

SAVED = Path(__file__).parent / "saved"


def whole() -> Trajectory:
    """An episode that uses every field."""
    trajectory = Trajectory(
        id="e1",
        termination=Termination(reason=TerminationReason.MAX_TOKENS, detail="cut"),
        reward=0.5,
        group_id="g",
        group_index=2,
        metadata={"task": {"name": "sum", "parts": [1, 2.5, None, True]}},
    )
    first = Turn(
        index=0,
        parent=None,
        prompt=Segment.of(SegmentKind.PROMPT, [1, 2], [None, -0.25], facts={"guarded": ["<|im_end|>"]}),
        sampled=Segment.of(
            SegmentKind.SAMPLED,
            [3, 4],
            [-0.1, None],
            weight_spans=(("v1", 0, 1), ("v2", 1, 2)),
            message_index=1,
            facts={"finish_reason": "stop", "matched": 4},
        ),
        conversation=0,
        lineage=Lineage.MAIN,
        images=("data:image/png;base64,AA==",),
        credit={"advantage": -1.5},
    )
    second = Turn(
        index=1,
        parent=first,
        prompt=Segment.of(SegmentKind.PROMPT, [5], replaces=1),
        sampled=Segment.of(SegmentKind.SAMPLED, [6]),
        conversation=1,
        lineage=Lineage.SIDE_CALL,
        fate=TurnFate.DISCARDED,
    )
    trajectory.add(first)
    trajectory.add(second)
    return trajectory


@examples(40)
@given(trajectories())
def test_saving_and_loading_gives_an_equal_episode(trajectory: Trajectory) -> None:
    loaded = Trajectory.from_json(trajectory.to_json())

    assert loaded == trajectory
    assert loaded.to_json() == trajectory.to_json()
    assert [turn.sampled.logprob_list() for turn in loaded.turns] == [
        t.sampled.logprob_list() for t in trajectory.turns
    ]
    assert [turn.path()[0].index for turn in loaded.turns] == [turn.path()[0].index for turn in trajectory.turns]
    assert [branch.token_ids for branch in loaded.branches] == [branch.token_ids for branch in trajectory.branches]


def test_everything_that_belongs_to_an_episode_comes_back() -> None:
    loaded = Trajectory.from_json(whole().to_json())

    assert loaded.turns[1].parent is loaded.turns[0]
    assert loaded.turns[0].sampled.logprob_list() == [-0.1, None]
    assert loaded.turns[0].sampled.weight_spans == (("v1", 0, 1), ("v2", 1, 2))
    assert (loaded.turns[1].fate, loaded.turns[1].lineage) == (TurnFate.DISCARDED, Lineage.SIDE_CALL)
    assert loaded.termination == Termination(reason=TerminationReason.MAX_TOKENS, detail="cut")
    assert (loaded.reward, loaded.group_id, loaded.group_index) == (0.5, "g", 2)
    assert loaded.turns[0].credit == {"advantage": -1.5}


def test_episodes_that_differ_anywhere_are_not_equal() -> None:
    other = whole()
    other.turns[0].credit["advantage"] = -1.0

    assert whole() == whole()
    assert other != whole()
    assert whole() != "e1"


def test_it_is_a_field_of_a_pydantic_model() -> None:
    class Row(BaseModel):
        trajectory: Trajectory | None = None

    assert Row.model_validate_json(Row(trajectory=whole()).model_dump_json()).trajectory == whole()


@pytest.mark.parametrize("path", sorted(SAVED.glob("rollout-*.json")), ids=lambda path: path.name)
def test_rollouts_of_every_released_version_load(path: Path) -> None:
    branch = whole().turns[1].rollout()

    assert Rollout.from_json(path.read_bytes()) == branch


@pytest.mark.parametrize("path", sorted(SAVED.glob("trajectory-*.json")), ids=lambda path: path.name)
def test_episodes_of_every_released_version_load(path: Path) -> None:
    assert Trajectory.from_json(path.read_bytes()) == whole()


def test_a_file_of_this_version_is_kept_for_later_releases() -> None:
    for saved in (whole().to_dict(), whole().turns[1].rollout().to_dict()):
        kind = saved["format"].rpartition("/")[2]
        assert json.loads((SAVED / f"{kind}-{saved['version']}.json").read_text(encoding="utf-8")) == saved


def test_an_older_version_passes_through_every_upgrade_in_turn() -> None:
    made = Format(
        name="strands-sglang/thing",
        version=3,
        upgraders={1: lambda saved: {**saved, "b": saved["a"] + 1}, 2: lambda saved: {**saved, "c": saved["b"] + 1}},
    )

    fields = made.open({"format": "strands-sglang/thing", "version": 1, "a": 1})

    assert [fields.take(key, int) for key in "abc"] == [1, 2, 3]
    with pytest.raises(RecordFormatError, match="thing version 4 is unknown; this release reads 1 to 3"):
        made.open({"format": "strands-sglang/thing", "version": 4})


Damage = list[tuple[list[str | int], Any, str]]
DAMAGES: Damage = [
    (["format"], "strands-sglang/rollout", "not a saved trajectory: expected format"),
    (["version"], 99, "version 99 is unknown; this release reads 1"),
    (["version"], True, "version True is unknown"),
    (["id"], 3, "id is an integer, not a string"),
    (["extra"], 1, "extra is not a field of this version"),
    (["turns"], {}, "turns is an object, not a list"),
    (["turns", 1], 7, r"turns\[1\] is an integer, not an object"),
    (["turns", 1, "parent"], 1, r"turns\[1\].parent is 1, but a parent is one of the 1 turns before"),
    (["turns", 1, "parent"], -1, r"turns\[1\].parent is -1"),
    (["turns", 1, "parent"], "0", r"turns\[1\].parent is a string"),
    (["turns", 1, "fate"], "lost", r"turns\[1\].fate is 'lost', not one of kept"),
    (["turns", 0, "lineage"], None, r"turns\[0\].lineage is null, not a string"),
    (["turns", 0, "prompt"], None, r"turns\[0\].prompt is null, not an object"),
    (["turns", 0, "prompt", "kind"], "sampled", r"turns\[0\] must hold a prompt segment"),
    (["turns", 0, "sampled", "ids"], [3, "4"], r"turns\[0\].sampled.ids\[1\] is a string, not an integer"),
    (["turns", 0, "sampled", "ids"], [3, True], r"turns\[0\].sampled.ids\[1\] is a boolean"),
    (["turns", 0, "sampled", "ids"], [3], r"turns\[0\].sampled is not a segment: 1 token ids but 2 logprobs"),
    (["turns", 0, "sampled", "ids"], [3, 2**31], r"turns\[0\].sampled is not a segment"),
    (["turns", 0, "sampled", "logprobs", 0], "x", r"turns\[0\].sampled.logprobs\[0\] is a string"),
    (["turns", 0, "sampled", "weight_spans", 0], ["v", 0], r"weight_spans\[0\] is not \[version, start, end\]"),
    (["turns", 0, "sampled", "weight_spans", 0], ["v", 0, 9], "the span 0 to 9 is not within 2 ids"),
    (["turns", 0, "sampled", "facts"], [], r"turns\[0\].sampled.facts is a list"),
    (["turns", 0, "sampled", "more"], 1, r"turns\[0\].sampled.more is not a field"),
    (["turns", 1, "prompt", "replaces"], 5, r"turns\[1\].prompt.replaces is 5"),
    (["turns", 0, "prompt", "replaces"], 1, r"turns\[0\].prompt.replaces is 1"),
    (["turns", 0, "credit", "advantage"], None, r"turns\[0\].credit.advantage is null, not a number"),
    (["turns", 0, "images"], [1], r"turns\[0\].images\[0\] is an integer"),
    (["turns", 0, "credit", "advantage"], 10**400, r"turns\[0\].credit.advantage is an integer, which is not a"),
    (["reward"], 2**53 + 1, "reward is 9007199254740993, which is not a finite number that a float can hold"),
    (["termination", "reason"], "boredom", "termination.reason is 'boredom'"),
    (["termination", "more"], 1, "termination.more is not a field"),
    (["reward"], "high", "reward is a string, not a number or an integer or null"),
    (["metadata"], None, "metadata is null, not an object"),
]


@pytest.mark.parametrize(("place", "value", "words"), DAMAGES, ids=[str(number) for number in range(len(DAMAGES))])
def test_damage_is_refused_with_its_place(place: list[str | int], value: Any, words: str) -> None:
    saved = json.loads(whole().to_json())
    inner: Any = saved
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value

    with pytest.raises(RecordFormatError, match=words):
        Trajectory.from_dict(saved)


def test_a_missing_field_is_refused_wherever_it_is_missing() -> None:
    saved = whole().to_dict()
    for key in saved:
        with pytest.raises(RecordFormatError):
            Trajectory.from_dict({name: value for name, value in saved.items() if name != key})
    for key in ("parent", "conversation", "lineage", "fate", "prompt", "sampled"):
        rows = json.loads(whole().to_json())
        del rows["turns"][1][key]
        with pytest.raises(RecordFormatError, match=rf"turns\[1\].{key} is missing") as caught:
            Trajectory.from_dict(rows)
        assert caught.value.place == f"turns[1].{key}"


@pytest.mark.parametrize(
    "text", ["", "[]", "NaN", '{"format": 3}', whole().to_json()[:-20], b"\xff\xfe\x00", "[" * 99999]
)
def test_what_is_no_saved_episode_is_refused(text: str | bytes) -> None:
    with pytest.raises(RecordFormatError, match="not a saved trajectory"):
        Trajectory.from_json(text)


def test_a_number_that_json_does_not_have_is_not_read() -> None:
    with pytest.raises(RecordFormatError, match="NaN is not JSON"):
        Trajectory.from_json(whole().to_json().replace("0.5", "NaN"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "metadata.a is nan"),
        (math.inf, "metadata.a is inf"),
        ({1: 2}, "metadata.a has the key 1"),
        ([{2}], r"metadata.a\[0\] is a set"),
        (b"x", "metadata.a is a bytes"),
    ],
)
def test_what_would_not_come_back_as_it_is_is_not_written(value: Any, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        Trajectory(metadata={"a": value}).to_json()


@pytest.mark.parametrize("reward", [math.nan, -math.inf, 10**400, "1"])
def test_a_reward_or_credit_that_is_no_finite_number_is_not_written(reward: Any) -> None:
    trajectory = whole()
    trajectory.reward = reward
    with pytest.raises(RecordError, match="reward is"):
        trajectory.to_json()
    trajectory.reward = 1  # an integer is read again as the float it is
    assert Trajectory.from_json(trajectory.to_json()) == trajectory
    trajectory.turns[0].credit["a"] = reward
    with pytest.raises(RecordError, match=r"turns\[0\].credit.a is"):
        trajectory.to_json()


def test_an_unordered_tree_is_not_written() -> None:
    trajectory = whole()
    trajectory.turns.reverse()
    with pytest.raises(RecordError, match=r"turns\[0\] has the index 1"):
        trajectory.to_dict()
    trajectory.turns[:] = trajectory.turns[:1]
    trajectory.turns[0].index = 0
    with pytest.raises(RecordError, match=r"parent of turns\[0\] is not among"):
        trajectory.to_dict()


def test_an_infinite_logprob_is_refused() -> None:
    with pytest.raises(RecordError, match="a logprob is infinite"):
        Segment.of(SegmentKind.SAMPLED, [1], [-math.inf])

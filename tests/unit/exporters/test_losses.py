"""An empty list of losses means that nothing was lost: each part of a record is in the rows or in the list.

The parts are those of the tables of `docs/record.md`: a key that is new there has to be put here, with a value that
can be found again, or with the reason why there is none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from strands_sglang.exporters import Exported, Exporter, get_exporter
from strands_sglang.exporters.files import json_line
from strands_sglang.exporters.held import Held
from strands_sglang.rollout import SamplingSupport
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Lineage, Trajectory, TurnFate

from .readers import ALL_SAMPLES, READERS
from .test_choices import losses, made, whole
from .trees import prompt, sampled, turn_of

EVERY = pytest.mark.parametrize("name", sorted(READERS))
RECORD = Path(__file__).parents[3] / "docs" / "record.md"

# Section of docs/record.md, key: the loss that counts it, and how its value is written in a row that holds it.
PARTS: dict[tuple[str, str], tuple[str, str]] = {
    ("Trajectory", "id"): ("id", "771001"),
    ("Trajectory", "termination"): ("termination", "max_tool_calls"),
    ("Trajectory", "termination.detail"): ("termination.detail", "771002 calls"),
    ("Trajectory", "reward"): ("reward", "771003.5"),
    ("Trajectory", "group_id"): ("group", "771004"),
    ("Trajectory", "group_index"): ("group_index", "771005"),
    ("Trajectory", "metadata"): ("metadata", "771006"),
    ("Turn", "conversation"): ("facts", "771007"),
    ("Turn", "lineage"): ("lineage", '"agent"'),
    ("Turn", "fate"): ("facts", '"edited"'),
    ("Turn", "images"): ("images", "771008"),
    ("Turn", "credit"): ("credit.progress", "771009"),
    ("Segment", "logprobs"): ("context_logprobs", "771010"),
    ("Segment", "weight_spans"): ("weight_versions", "771011"),
    ("Segment", "message_index"): ("facts", "771012"),
}
STRUCTURE = {
    # What makes up the branches, each of which a row is; test_every_exporter.py holds them.
    ("Trajectory", "turns"),
    ("Turn", "parent"),
    ("Turn", "prompt"),
    ("Turn", "sampled"),
    ("Segment", "kind"),
    ("Segment", "ids"),
    ("Segment", "replaces"),
    # Its keys are parts of their own.
    ("Segment", "facts"),
}
SUPPORT = SamplingSupport.of([[1000, 771013], [1001]]).to_fact()
SAMPLED_FACTS: dict[str, Any] = {
    "finish_reason": "771014",
    "matched": 771015,
    "sampling_params": {"temperature": 0.771016, "top_p": 0.771017},
    "temperature": 0.771016,
    "logprob_kind": "tempered",
    "prompt_tokens": 771018,
    "cached_tokens": 771019,
    "latency": 771020.5,
    "rid": "771021",
    "retries": 771022,
    "resumptions": 771023,
    "retractions": 771024,
    "weights_widened": [[0, 771025]],
    "calls": [{"name": "771026", "id": None, "status": "ok", "token_span": [0, 1]}],
    "sampling_mask": SUPPORT,
    "routed_experts": "771027A=",
    "routed_experts_start_len": 771028,
    "routed_experts_refed": [[0, 771034]],
    "indexer_topk": "771029A=",
    "indexer_topk_refed": [[0, 771035]],
}
PROMPT_FACTS: dict[str, Any] = {
    "messages": [0, 771030],
    "guarded": [{"literal": "771031", "where": "messages[0]", "count": 1}],
    "trimmed": [771032],
    "logprob_kind": "untempered",
    "fork": {"reason": "retry", "after": 0, "message_index": 1, "change": "771033"},
}
OWN_LOSS = {name: name for name in ("temperature", "sampling_mask", "routed_experts", "indexer_topk")}
FOUND = {"sampling_params": "0.771017", "sampling_mask": f"771013|{SUPPORT['ids']}", "logprob_kind": "tempered"}


def facts_as_parts() -> dict[tuple[str, str], tuple[str, str]]:
    parts = {}
    for section, facts in (("Of a sampled segment", SAMPLED_FACTS), ("Of a prompt segment", PROMPT_FACTS)):
        for key, value in facts.items():
            number = re.search(r"(0\.)?771\d+", str(value))
            parts[section, key] = (OWN_LOSS.get(key, "facts"), FOUND.get(key) or (number.group() if number else ""))
    return parts


def documented() -> set[tuple[str, str]]:
    """The keys of the record, as the tables of its document name them."""
    section, keys, within = "", set(), False
    for line in RECORD.read_text().splitlines():
        section = line.removeprefix("### ") if line.startswith("### ") else section
        within = line.startswith("| key |") or (within and line.startswith("|"))
        if within and line.startswith("| `"):
            keys |= {(section, key) for key in re.findall("`(.*?)`", line.split("|")[1])}
    return keys


ALL_PARTS = {**PARTS, **facts_as_parts()}


def full(prefix: str = "") -> Trajectory:
    """An episode that has every part of a record, each with a value that stands nowhere else."""
    episode = Trajectory(
        id=f"{prefix}771001",
        reward=771003.5,
        group_id=f"{prefix}771004",
        group_index=771005,
        termination=Termination(reason=TerminationReason.MAX_TOOL_CALLS, detail="771002 calls"),
        metadata={"env_name": "toy", "note": "771006"},
    )
    first = turn_of(
        episode,
        None,
        prompt([1, 2], [None, -771010.0], facts=PROMPT_FACTS),
        sampled([1000, 1001], weight_spans=(("771011", 0, 2),), message_index=771012, facts=SAMPLED_FACTS),
        images=("data:771008",),
        conversation=771007,
        fate=TurnFate.EDITED,
        credit={"progress": 771009.0, "advantage": 0.5},
    )
    turn_of(episode, first, prompt([3]), sampled([1002]), credit={"advantage": 0.5})
    turn_of(episode, first, prompt([4]), sampled([1003]), credit={"advantage": 0.5}, lineage=Lineage.AGENT)
    return episode


def exporter_of(name: str, **options: Any) -> Exporter:
    """The exporter, with options under which it takes any episode."""
    chosen = {**ALL_SAMPLES.get(name, {}), **options}
    return made(name, **{**chosen, "advantage": "advantage"} if name == "trl_async" else chosen)


def left_out(result: Exported, parts: dict[tuple[str, str], tuple[str, str]]) -> list[tuple[str, str]]:
    """The parts that are neither in the rows nor in the losses."""
    text = "\n".join(map(json_line, result.rows)).replace("\\", "")
    listed = losses(result)
    return [
        part
        for part, (field, values) in parts.items()
        if field not in listed and not any(value in text for value in values.split("|"))
    ]


def test_every_key_of_the_record_has_a_place_here() -> None:
    assert documented() - set(ALL_PARTS) - STRUCTURE == set()
    assert all(value for _, value in ALL_PARTS.values())
    assert {field for field, _ in ALL_PARTS.values() if not field.startswith("credit")} <= set(Held)


@EVERY
@pytest.mark.parametrize("prefix", ["", "text-"], ids=["ids that are numbers", "ids that are none"])
def test_every_part_of_a_record_is_in_the_rows_or_listed(name: str, prefix: str) -> None:
    episode = full(prefix)
    parts = {
        part: (field, f"{prefix}{value}" if part[1] in ("id", "group_id") else value)
        for part, (field, value) in ALL_PARTS.items()
    }

    assert left_out(exporter_of(name).export(episode, include_side_calls=True), parts) == []


@EVERY
def test_every_part_of_a_record_of_which_nothing_is_trained_is_in_the_rows_or_listed(name: str) -> None:
    episode = full()
    episode.termination = Termination(reason=TerminationReason.TIMEOUT, detail="771002 calls")
    parts = {**ALL_PARTS, ("Trajectory", "termination"): ("termination", "timeout")}
    # What matters to trained tokens only, and what at such tokens is listed under another name.
    del parts["Of a sampled segment", "temperature"]
    parts["Segment", "weight_spans"] = ("context_versions", "771011")

    assert left_out(exporter_of(name).export(episode, include_side_calls=True), parts) == []


@EVERY
def test_a_turn_without_tokens_is_in_the_rows_or_listed(name: str) -> None:
    episode = whole()
    first = episode.turns[0]
    last = turn_of(
        episode,
        episode.turns[1],
        prompt([6], facts={"fork": {"change": "772001"}}),
        sampled([], facts={"matched": 772002}, message_index=772003),
        credit={"advantage": 772004.0, "reward": 772005.0, "progress": 772006.0},
    )
    turn_of(episode, first, prompt([7], facts={"messages": [772007]}), sampled([]), credit={"progress": 772008.0})

    result = exporter_of(name).export(episode)

    listed = losses(result)
    text = "\n".join(map(json_line, result.rows))
    assert listed["turns"] == 1
    for credit, value in last.credit.items():
        assert f"credit.{credit}" in listed or str(value) in text
    for fact in ("772001", "772002", "772003"):
        assert "facts" in listed or fact in text
    assert listed["credit.progress"] == (1 if name in ("jsonl", "parquet") else 2)


def test_generic_rows_hold_every_turn_of_their_branch() -> None:
    episode = full()
    turn_of(episode, episode.turns[1], prompt([5], facts=PROMPT_FACTS), sampled([]), credit={"reward": 1.0})

    result = get_exporter("jsonl").export(episode, include_side_calls=True)

    assert result.losses == ()
    assert [turn["index"] for turn in result.rows[-1]["turns"]] == [0, 1, 3]
    assert result.rows[-1]["turns"][2] == {
        "index": 3,
        "parent": 1,
        "conversation": 0,
        "lineage": "main",
        "fate": "kept",
        "prompt_start": 6,
        "start": 7,
        "end": 7,
        "images": 0,
        "message_index": None,
        "credit": {"reward": 1.0},
        "facts": {"sampling_params": {"temperature": 1.0}},
        "prompt_facts": PROMPT_FACTS,
    }


@pytest.mark.parametrize("name", ["slime", "miles", "nemo_rl", "verifiers", "agent_lightning"])
def test_a_users_metadata_that_has_our_key_is_listed(name: str) -> None:
    result = exporter_of(name).export(whole(metadata={"strands_sglang": {"mine": 1}, "episode": "x", "ending": "won"}))

    assert losses(result)["metadata"] == 1
    assert all(word in json_line(result.row) for word in ('"episode":"x"', '"ending":"won"'))
    (loss,) = [loss for loss in result.losses if loss.field == "metadata"]
    assert str(loss) == "metadata: 1 entry: the exporter's own stand in their place: strands_sglang"


def test_arts_metadata_keeps_what_the_user_named_as_we_do() -> None:
    metadata = {"episode": "x", "ending": "won", "strands_sglang.ending": "mine", "nested": {}}

    result = get_exporter("art").export(whole(metadata=metadata))

    written = result.row["trajectory"]["metadata"]
    assert (written["episode"], written["ending"], written["strands_sglang.ending"]) == ("x", "won", "completed")
    assert losses(result)["metadata"] == 2


def test_an_env_name_that_an_option_replaces_is_listed() -> None:
    episode = whole(metadata={"env_name": "mine"})

    assert losses(get_exporter("prime_rl", env_name="other").export(episode))["metadata"] == 1
    assert "metadata" not in losses(get_exporter("prime_rl", env_name="mine").export(episode))


def test_credit_that_stands_nowhere_is_listed_whatever_became_of_its_turn() -> None:
    episode = whole()
    for turn, reward in zip(episode.turns, (0.25, 0.5), strict=True):
        turn.credit["reward"] = reward
    turn_of(episode, None, prompt([9]), sampled([1006, 1007, 1008, 1009]), credit={"reward": 7.0})
    turn_of(episode, episode.turns[1], prompt([8]), sampled([1005], logprobs=None), credit={"reward": 5.0})

    longest = made("skyrl", token_rewards="reward", several="longest", missing_logprob="mask").export(episode)
    masked = made("skyrl", token_rewards="reward", several="all", missing_logprob="mask").export(episode)

    assert longest.row["rewards"] == [[0.0, 0.0, 0.0, 7.0]]
    assert losses(longest)["credit.reward"] == 3
    assert sum(map(sum, masked.row["rewards"])) == 7.75
    assert losses(masked)["credit.reward"] == 1


@pytest.mark.parametrize("name", ["agent_lightning", "rllm"])
def test_credit_of_a_turn_that_is_left_out_for_one_of_its_tokens_is_listed(name: str) -> None:
    episode = whole()
    for turn in episode.turns:
        turn.credit["reward"] = 1.0
    episode.turns[0].sampled = sampled([1000, 1001], logprobs=[-1.0, None])

    result = made(name, missing_logprob="mask").export(episode)

    assert losses(result)["credit.reward" if name == "agent_lightning" else "credit.advantage"] == 1


@pytest.mark.parametrize("name", ["agent_lightning", "rllm"])
def test_tokens_after_the_last_trained_turn_are_listed_where_turns_stand_alone(name: str) -> None:
    episode = whole()
    turn_of(episode, episode.turns[1], prompt([6, 7]), sampled([]))

    assert losses(made(name).export(episode))["context"] == 2
    assert "context" not in losses(made(name).export(whole()))


def test_a_credit_does_not_take_the_place_of_verls_own_fields() -> None:
    episode = whole()
    for turn in episode.turns:
        turn.credit["min_global_steps"] = 1.0

    result = get_exporter("verl", extra_credit=("min_global_steps",)).export(episode)

    assert result.row["extra_fields"]["min_global_steps"] == 250
    assert losses(result)["credit.min_global_steps"] == 2


def test_slime_lists_sampling_masks_of_turns_that_are_not_trained() -> None:
    episode = whole(termination=Termination(reason=TerminationReason.TIMEOUT))
    episode.turns[0].sampled = sampled([1000, 1001], facts={"sampling_mask": SUPPORT})

    assert losses(get_exporter("slime").export(episode))["sampling_mask"] == 1


@EVERY
def test_an_episode_without_a_row_is_listed_as_a_whole(name: str) -> None:
    ended = Termination(reason=TerminationReason.TIMEOUT)

    result = exporter_of(name, untrainable="drop").export([whole(id="1"), whole(id="2", termination=ended)])

    assert losses(result)["episodes"] == 1


def test_an_exporter_that_holds_nothing_lists_everything() -> None:
    class Nothing(Exporter):
        name = "nothing"

        def _rows(self, rows: Any, losses: Any) -> Any:
            return [{} for _ in rows]

    episode = full()
    episode.turns[1].sampled = sampled([1002], facts={"temperature": 0.5, "logprob_kind": "untempered"})

    listed = losses(Nothing().export(episode, include_side_calls=True))

    assert set(Held) - {Held.CONTEXT_VERSIONS} <= set(listed)

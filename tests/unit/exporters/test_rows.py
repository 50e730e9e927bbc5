"""The rows of each trainer, field by field, for an episode small enough to read."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import numpy as np
import pytest

from strands_sglang.errors import ExportError, RoutingError
from strands_sglang.exporters import get_exporter
from strands_sglang.exporters.row import number_of
from strands_sglang.rollout import SamplingSupport, Segment, SegmentKind
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Trajectory

from .trees import branching, linear

FACTS = {"sampling_params": {"temperature": 0.5}, "finish_reason": "stop", "matched": 1002, "latency": 2.0}
LOGPROBS = {token: -token / 1024 for token in range(1000, 1010)}
LAYERS, TOP_K = 2, 2
OF_EPISODE = {"episode": "12", "group_id": "3", "group_index": 4}
OF_SAMPLE = {**OF_EPISODE, "sample": 0, "lineage": "main", "weight": 1.0}


def episode(**fields: Any) -> Trajectory:
    """Two turns: `[1, 2] -> [1000, 1001]`, `[3] -> [1002]`, with credit 0.25 and 0.75."""
    made = linear(
        ([1, 2], [1000, 1001]),
        ([3], [1002]),
        **{"facts": FACTS, "id": "12", "group_id": "3", "group_index": 4, "reward": 0.5, **fields},
    )
    for turn, credit in zip(made.turns, (0.25, 0.75), strict=True):
        turn.credit["advantage"] = credit
    return made


def resampled(turn_index: int, made: Trajectory, **changes: Any) -> Trajectory:
    """The episode with other facts of one sampled segment."""
    old = made.turns[turn_index].sampled
    fields = {"weight_spans": old.weight_spans, "facts": old.facts, "message_index": old.message_index, **changes}
    made.turns[turn_index].sampled = Segment.of(SegmentKind.SAMPLED, old.ids, old.logprob_list(), **fields)
    return made


def routed(made: Trajectory) -> Trajectory:
    """The episode with the routing rows that a server gives, each number `position`."""
    position = 0
    for index, turn in enumerate(made.turns):
        start = max(0, position - 1)
        position += len(turn.prompt)
        numbers = [place + 1 for place in range(start, position + len(turn.sampled) - 1) for _ in range(LAYERS * TOP_K)]
        payload = base64.b64encode(struct.pack(f"<{len(numbers)}i", *numbers)).decode()
        facts = {**turn.sampled.facts, "routed_experts": payload, "routed_experts_start_len": start}
        resampled(index, made, facts=facts)
        position += len(made.turns[index].sampled)
    return made


def test_slime() -> None:
    made = episode(metadata={"prompt": "a question", "label": "42", "source": "toy"})

    row = get_exporter("slime", decode=lambda ids: f"<{len(ids)} tokens>").export(made).row

    assert row == {
        "group_index": 3,
        "index": 12,
        "rollout_id": 12,
        "prompt": "a question",
        "tokens": [1, 2, 1000, 1001, 3, 1002],
        "response": "<4 tokens>",
        "response_length": 4,
        "label": "42",
        "reward": 0.5,
        "loss_mask": [1, 1, 0, 1],
        "weight_versions": ["250", "250"],
        "rollout_log_probs": [LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]],
        "remove_sample": False,
        "status": "completed",
        "metadata": {
            "source": "toy",
            "strands_sglang": OF_SAMPLE,
        },
    }


def test_slime_samples_of_one_episode_share_their_rollout_id() -> None:
    rows = get_exporter("slime").export(branching(id="an id")).rows

    assert {row["rollout_id"] for row in rows} == {number_of("an id")}
    assert number_of("an id") == number_of("an id") != number_of("another id")
    assert [row["metadata"]["strands_sglang"]["weight"] for row in rows] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("reason", "status", "removed"),
    [
        (TerminationReason.TASK_COMPLETE, "completed", False),
        (TerminationReason.MAX_TOKENS, "truncated", False),
        (TerminationReason.TIMEOUT, "aborted", True),
        (TerminationReason.TOOL_ERROR, "failed", True),
    ],
)
def test_slime_statuses(reason: TerminationReason, status: str, removed: bool) -> None:
    row = get_exporter("slime").export(episode(termination=Termination(reason=reason, detail="why"))).row

    assert (row["status"], row["remove_sample"], row["reward"]) == (status, removed, 0.5)
    assert row["metadata"]["strands_sglang"]["detail"] == "why"


def test_a_cut_last_turn_is_truncated_where_nobody_said_why_it_ended() -> None:
    made = resampled(1, episode(), facts={**FACTS, "finish_reason": "length"})

    assert get_exporter("slime").export(made).row["status"] == "truncated"
    assert get_exporter("skyrl").export(made).row["stop_reasons"] == ["length"]


def test_slime_lists_the_versions_of_a_turn_that_was_resumed() -> None:
    made = resampled(0, episode(), weight_spans=(("7", 0, 1), ("8", 1, 2)))

    result = get_exporter("slime").export(made)

    assert result.row["weight_versions"] == ["7", "8", "250"]
    assert [(loss.count, loss.unit) for loss in result.losses if loss.field == "weight_versions"] == [(1, "turns")]


def test_slime_takes_what_each_token_was_chosen_from() -> None:
    support = SamplingSupport.of([[1000, 5], [1001]]).to_fact()
    one = resampled(0, episode(), facts={**FACTS, "sampling_mask": support})
    both = resampled(
        1,
        resampled(0, episode(), facts={**FACTS, "sampling_mask": support}),
        facts={**FACTS, "sampling_mask": SamplingSupport.of([[1002, 6, 7]]).to_fact()},
    )

    row = get_exporter("slime").export(both).row
    assert row["rollout_top_p_token_ids"] == [1000, 5, 1001, 1002, 6, 7]
    assert row["rollout_top_p_token_offsets"] == [0, 2, 3, 3, 6]
    partly = get_exporter("slime").export(one)
    assert "rollout_top_p_token_ids" not in partly.row
    assert [loss.count for loss in partly.losses if loss.field == "sampling_mask"] == [1]
    miles = get_exporter("miles").export(both)
    assert [loss.count for loss in miles.losses if loss.field == "sampling_mask"] == [2]


def test_miles_says_that_it_reads_integers_only() -> None:
    made = resampled(0, episode(), weight_spans=(("default", 0, 2),))

    result = get_exporter("miles").export(made)

    assert result.row["weight_versions"] == ["default", "250"]
    assert [(loss.count, loss.unit) for loss in result.losses if loss.field == "weight_versions"] == [(1, "spans")]


def test_verl() -> None:
    row = get_exporter("verl", extra_credit=("advantage",)).export(episode(metadata={"task": "sum"})).row

    assert row == {
        "prompt_ids": [1, 2],
        "response_ids": [1000, 1001, 3, 1002],
        "response_mask": [1, 1, 0, 1],
        "response_logprobs": [LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]],
        "routed_experts": None,
        "reward_score": 0.5,
        "num_turns": 4,
        "metrics": {"generate_sequences": 4.0},
        "extra_fields": {
            "min_global_steps": 250,
            "max_global_steps": 250,
            "advantage": [0.25, 0.75],
            "strands_sglang": {**OF_SAMPLE, "metadata": {"task": "sum"}},
        },
    }


def test_verl_takes_the_lowest_and_highest_version() -> None:
    made = resampled(0, episode(), weight_spans=(("7", 0, 1), ("8", 1, 2)))
    other = resampled(0, episode(), weight_spans=(("default", 0, 2),))

    both = get_exporter("verl").export(made).row["extra_fields"]
    assert (both["min_global_steps"], both["max_global_steps"]) == (7, 250)
    assert get_exporter("verl").export(other).row["extra_fields"].keys() == {"strands_sglang"}


def test_trl() -> None:
    row = get_exporter("trl").export([episode(metadata={"task": "sum"}), episode(id="13", reward=None)]).row

    assert row == {
        "prompt_ids": [[1, 2]] * 2,
        "completion_ids": [[1000, 1001, 3, 1002]] * 2,
        "logprobs": [[LOGPROBS[1000], LOGPROBS[1001], None, LOGPROBS[1002]]] * 2,
        "env_mask": [[1, 1, 0, 1]] * 2,
        "episode_reward": [0.5, None],
        "episode_ending": ["completed"] * 2,
        "episode_id": ["12", "13"],
        "episode_metadata": [{"task": "sum"}, {}],
        "episode_record": [OF_SAMPLE, {**OF_SAMPLE, "episode": "13"}],
    }


def test_trl_async() -> None:
    made = episode(metadata={"prompt": [{"role": "user", "content": "Hi"}], "other": 1})
    for turn in made.turns:
        turn.credit["advantage"] = -0.5

    row = get_exporter("trl_async").export(made).row

    assert row == {
        "prompt": [{"role": "user", "content": "Hi"}],
        "completion": [],
        "input_ids": [1, 2, 1000, 1001, 3, 1002],
        "completion_mask": [0, 0, 1, 1, 0, 1],
        "old_log_probs": [0.0, 0.0, LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]],
        "advantage": -0.5,
        "model_version": 250,
        "group_id": 3,
        "metrics": {"reward": 0.5},
    }


def test_trl_async_takes_one_advantage_a_sample() -> None:
    with pytest.raises(ExportError, match="its turns have several under 'advantage'"):
        get_exporter("trl_async").export(episode())
    with pytest.raises(ExportError, match="its turns have none under 'score'"):
        get_exporter("trl_async", advantage="score").export(episode())


def test_trl_async_arrays() -> None:
    row = (
        get_exporter("trl_async", arrays="numpy", advantage="a")
        .export(episode(termination=Termination(reason=TerminationReason.TIMEOUT)))
        .row
    )

    assert [row[name].dtype for name in ("input_ids", "completion_mask", "old_log_probs")] == [
        np.int64,
        np.int64,
        np.float32,
    ]
    assert (row["advantage"], row["model_version"]) == (0.0, 0)


def test_skyrl() -> None:
    row = get_exporter("skyrl").export([episode(), episode(id="13", group_index=5)]).row

    assert row == {
        "prompt_token_ids": [[1, 2]] * 2,
        "response_ids": [[1000, 1001, 3, 1002]] * 2,
        "rewards": [0.5] * 2,
        "loss_masks": [[1, 1, 0, 1]] * 2,
        "stop_reasons": ["stop"] * 2,
        "rollout_metrics": None,
        "rollout_logprobs": [[LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]]] * 2,
        "trajectory_ids": [{"instance_id": "3", "repetition_id": 4}, {"instance_id": "3", "repetition_id": 5}],
        "is_last_step": None,
    }


def test_skyrl_puts_a_turns_reward_at_its_last_trainable_token() -> None:
    row = get_exporter("skyrl", token_rewards="advantage").export(episode()).row

    assert row["rewards"] == [[0.0, 0.25, 0.0, 0.75]]


def test_skyrl_gives_a_turns_reward_once_where_two_rows_train_it() -> None:
    made = branching()
    made.turns[1].prompt = Segment.of(SegmentKind.PROMPT, [3], replaces=1)  # 1001 is trained in the other branch
    for turn in made.turns:
        turn.credit["score"] = 1.0

    row = get_exporter("skyrl", several="all", token_rewards="score").export(made).row

    assert row["response_ids"] == [[1000, 3, 1002], [1000, 1001, 4, 5, 1003, 1004, 1005]]
    assert row["loss_masks"] == [[1, 0, 1], [0, 1, 0, 0, 1, 1, 1]]
    assert row["rewards"] == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]


def test_skyrl_tells_episodes_apart() -> None:
    with pytest.raises(ExportError, match="episodes 12 and 13 are both number 4 of group 3"):
        get_exporter("skyrl").export([episode(), episode(id="13")])


def test_skyrl_step_by_step() -> None:
    exporter = get_exporter("skyrl", several="all")

    row = exporter.export([branching(reward=2.0), episode()]).row

    assert row["is_last_step"] == [False, True, True]
    assert row["rewards"] == [0.0, 2.0, 0.5]
    assert row["trajectory_ids"][0] == row["trajectory_ids"][1] == {"instance_id": "episode", "repetition_id": 0}


def test_areal() -> None:
    row = get_exporter("areal", turn_ids=True).export(episode()).row

    assert row == {
        "input_ids": [[1, 2, 1000, 1001, 3, 1002]],
        "logprobs": [[0.0, 0.0, LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]]],
        "loss_mask": [[0, 0, 1, 1, 0, 1]],
        "versions": [[-1, -1, 250, 250, -1, 250]],
        "attention_mask": [[True] * 6],
        "turn_ids": [[-1, -1, 0, 0, -1, 1]],
        "rewards": [0.5],
    }


def test_areal_refuses_a_version_that_is_no_integer_unless_told_what_it_is() -> None:
    made = resampled(0, episode(), weight_spans=(("default", 0, 2),))

    with pytest.raises(ExportError, match="the weight version at token 2 'default' is no integer"):
        get_exporter("areal").export(made)
    with pytest.raises(ExportError, match="the weight version at token 2 is not told"):
        get_exporter("areal").export(resampled(0, episode(), weight_spans=()))
    result = get_exporter("areal", unknown_version=0).export(made)
    assert result.row["versions"] == [[-1, -1, 0, 0, -1, 250]]
    assert [loss.count for loss in result.losses if loss.field == "weight_versions"] == [2]


def test_areal_arrays() -> None:
    row = get_exporter("areal", arrays="numpy").export(episode()).row

    assert {name: (values.dtype.name, values.shape) for name, values in row.items()} == {
        "input_ids": ("int32", (1, 6)),
        "logprobs": ("float32", (1, 6)),
        "loss_mask": ("int32", (1, 6)),
        "versions": ("int32", (1, 6)),
        "attention_mask": ("bool", (1, 6)),
        "rewards": ("float32", (1,)),
    }


def test_prime_rl() -> None:
    row = get_exporter("prime_rl", env_name="toy").export(episode()).row

    assert row == {
        "token_ids": [1, 2, 1000, 1001, 3, 1002],
        "mask": [False, False, True, True, False, True],
        "logprobs": [0.0, 0.0, LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]],
        "temperatures": [1.0, 1.0, 0.5, 0.5, 1.0, 0.5],
        "env_name": "toy",
        "routed_experts": None,
        "advantages": [0.0, 0.0, 0.25, 0.25, 0.0, 0.75],
    }


def test_prime_rl_refuses_what_it_would_have_to_guess() -> None:
    exporter = get_exporter("prime_rl", env_name="toy")
    greedy = resampled(0, episode(), facts={"sampling_params": {"temperature": 0.0}})
    silent = resampled(0, episode(), facts={})
    uneven = episode()
    del uneven.turns[1].credit["advantage"]
    plain = linear(([1], [1000]), metadata={"env_name": "mine"})

    with pytest.raises(ExportError, match="turn 0 was sampled at temperature 0"):
        exporter.export(greedy)
    with pytest.raises(ExportError, match="a temperature that the record does not tell"):
        exporter.export(silent)
    with pytest.raises(ExportError, match=r"turns \[1\] have no credit 'advantage'"):
        exporter.export(uneven)
    with pytest.raises(ExportError, match="no environment's name"):
        get_exporter("prime_rl").export(episode())
    assert get_exporter("prime_rl", env_name="toy", temperature=0.7).export(silent).row["temperatures"][2] == 0.7
    assert get_exporter("prime_rl").export(plain).row["env_name"] == "mine"
    assert get_exporter("prime_rl").export(plain).row["advantages"] is None


def test_nemo_rl() -> None:
    made = episode(termination=Termination(reason=TerminationReason.MAX_TOKENS))

    row = get_exporter("nemo_rl", decode=str).export(made).row

    assert row == {
        "message_log": [
            {"role": "user", "content": "[1, 2]", "token_ids": [1, 2]},
            {
                "role": "assistant",
                "content": "[1000, 1001]",
                "token_ids": [1000, 1001],
                "generation_logprobs": [LOGPROBS[1000], LOGPROBS[1001]],
            },
            {"role": "user", "content": "[3]", "token_ids": [3]},
            {
                "role": "assistant",
                "content": "[1002]",
                "token_ids": [1002],
                "generation_logprobs": [LOGPROBS[1002]],
            },
        ],
        "length": 6,
        "extra_env_info": {"strands_sglang": {**OF_SAMPLE, "termination": "max_tokens", "detail": ""}},
        "loss_multiplier": 1.0,
        "idx": 3,
        "total_reward": 0.5,
        "truncated": True,
    }


def test_nemo_rl_turns_trained_in_another_sample_are_not_assistant_messages() -> None:
    rows = get_exporter("nemo_rl", arrays="numpy").export(branching()).rows

    assert [message["role"] for message in rows[1]["message_log"]] == ["user", "user", "user", "assistant"]
    assert rows[1]["loss_multiplier"] == 0.5
    assert rows[1]["message_log"][3]["generation_logprobs"].dtype == np.float32


def test_tinker() -> None:
    row = get_exporter("tinker").export(episode()).row

    assert row == {
        "model_input": [1, 2, 1000, 1001, 3],
        "loss_fn_inputs": {
            "target_tokens": [2, 1000, 1001, 3, 1002],
            "logprobs": [0.0, LOGPROBS[1000], LOGPROBS[1001], 0.0, LOGPROBS[1002]],
            "advantages": [0.0, 0.25, 0.25, 0.0, 0.75],
            "mask": [0.0, 1.0, 1.0, 0.0, 1.0],
        },
    }
    assert "mask" not in get_exporter("tinker", mask=False).export(episode()).row["loss_fn_inputs"]


def test_art() -> None:
    facts = {**FACTS, "logprob_kind": "tempered"}
    row = get_exporter("art", model="tiny").export(episode(metadata={"task": "sum", "messages": []}, facts=facts)).row

    assert row["trajectory"] == {
        "reward": 0.5,
        "initial_policy_version": 250,
        "final_policy_version": 250,
        "metrics": {"turns": 2, "histories": 1},
        "metadata": {
            "task": "sum",
            "strands_sglang.episode": "12",
            "strands_sglang.group_id": "3",
            "strands_sglang.group_index": 4,
            "strands_sglang.ending": "completed",
        },
    }
    (history,) = row["tokenized_histories"]
    sampled = ["EXACT", "ASSISTANT", "OUTPUT", "SAMPLED"]
    assert history["tokens"] == [1, 2, 1000, 1001, 3, 1002]
    assert history["flags"] == [
        ["EXACT"],
        ["EXACT"],
        [*sampled, "PROCESSED_LOGPROBS"],
        [*sampled, "PROCESSED_LOGPROBS"],
        ["EXACT"],
        [*sampled, "STOP", "PROCESSED_LOGPROBS"],
    ]
    assert [math.isnan(value) for value in history["logprobs"]] == [True, True, False, False, True, False]


def test_atropos_groups() -> None:
    batch = [episode(), episode(id="13", reward=-1.0), episode(id="14", group_id=None)]
    del batch[1].turns[0].credit["advantage"], batch[1].turns[1].credit["advantage"]

    with pytest.raises(ExportError, match=r"episode 13: turns \[0, 1\] have no credit"):
        get_exporter("atropos").export(batch)
    first, second = get_exporter("atropos", missing_credit=0.0).export(batch).rows

    assert first["scores"] == [0.5, -1.0]
    assert first["masks"] == [[-100, -100, 1000, 1001, -100, 1002]] * 2
    assert first["inference_logprobs"][0] == [1.0, 1.0, LOGPROBS[1000], LOGPROBS[1001], 1.0, LOGPROBS[1002]]
    assert first["advantages"] == [[0.0, 0.0, 0.25, 0.25, 0.0, 0.75], [0.0] * 6]
    assert second["scores"] == [0.5]


def test_agent_lightning() -> None:
    made = episode(metadata={"task": "sum"})
    made.turns[1].credit["reward"] = 1.0

    row = get_exporter("agent_lightning").export(made).row

    assert row == {
        "rollout_id": "12",
        "final_reward": 0.5,
        "triplets": [
            {
                "prompt": {"token_ids": [1, 2]},
                "response": {"token_ids": [1000, 1001], "log_probs": [LOGPROBS[1000], LOGPROBS[1001]]},
                "reward": None,
                "metadata": {"turn": 0},
            },
            {
                "prompt": {"token_ids": [1, 2, 1000, 1001, 3]},
                "response": {"token_ids": [1002], "log_probs": [LOGPROBS[1002]]},
                "reward": 1.0,
                "metadata": {"turn": 1},
            },
        ],
        "metadata": {"task": "sum", "strands_sglang": OF_EPISODE},
    }


def test_rllm() -> None:
    made = episode(termination=Termination(reason=TerminationReason.MAX_TOKENS))
    resampled(0, made, weight_spans=(("7", 0, 1), ("8", 1, 2)))
    resampled(1, made, weight_spans=(("default", 0, 1),))

    result = get_exporter("rllm").export(made)

    (trajectory,) = result.row["trajectories"]
    assert (trajectory["uid"], trajectory["name"], trajectory["reward"]) == ("12/0", "main", 0.5)
    assert trajectory["steps"] == [
        {
            "id": "0",
            "prompt_ids": [1, 2],
            "response_ids": [1000, 1001],
            "logprobs": [LOGPROBS[1000], LOGPROBS[1001]],
            "reward": 0.0,
            "done": False,
            "advantage": 0.25,
            "weight_version": 7,
        },
        {
            "id": "1",
            "prompt_ids": [1, 2, 1000, 1001, 3],
            "response_ids": [1002],
            "logprobs": [LOGPROBS[1002]],
            "reward": 0.5,
            "done": True,
            "advantage": 0.75,
            "weight_version": None,
        },
    ]
    assert result.row["artifacts"] == {**OF_EPISODE, "termination": "max_tokens", "detail": ""}
    assert sum(loss.count for loss in result.losses if loss.field == "weight_versions") == 3


def test_verifiers() -> None:
    row = get_exporter("verifiers", decode=str).export(episode(metadata={"task": "sum"})).row

    assert row["rewards"] == {"reward": 0.5}
    assert row["info"] == {"task": "sum", "strands_sglang": OF_SAMPLE}
    assert row["nodes"][:2] == [
        {
            "parent": None,
            "message": {"role": "user", "content": "[1, 2]"},
            "sampled": False,
            "token_ids": [1, 2],
            "mask": [False, False],
            "logprobs": [],
            "advantages": None,
        },
        {
            "parent": 0,
            "message": {"role": "assistant", "content": "[1000, 1001]"},
            "sampled": True,
            "token_ids": [1000, 1001],
            "mask": [True, True],
            "logprobs": [LOGPROBS[1000], LOGPROBS[1001]],
            "advantages": [0.25, 0.25],
        },
    ]


def test_jsonl_holds_the_whole_record_of_a_sample() -> None:
    made = episode(termination=Termination(reason=TerminationReason.MAX_TOKENS), metadata={"a": [1]})

    row = get_exporter("jsonl").export(made).row

    assert row["termination"] == {"reason": "max_tokens", "detail": "", "trainable": True}
    assert row["turns"][1] == {
        "index": 1,
        "parent": 0,
        "conversation": 0,
        "lineage": "main",
        "fate": "kept",
        "prompt_start": 4,
        "start": 5,
        "end": 6,
        "images": 0,
        "message_index": 3,
        "credit": {"advantage": 0.75},
        "facts": FACTS,
        "prompt_facts": {},
    }
    assert row["credit"] == {"advantage": [None, None, 0.25, 0.25, None, 0.75]}
    assert row["weight_versions"] == [None, None, "250", "250", None, "250"]
    assert (row["prompt_length"], row["sample"], row["samples"], row["weight"]) == (2, 0, 1, 1.0)


def test_parquet_rows_have_the_columns_of_jsonl() -> None:
    table, lines = (get_exporter(name).export(episode()).row for name in ("parquet", "jsonl"))

    assert table.keys() == lines.keys()
    assert json.loads(table["turns"]) == lines["turns"]
    assert table["termination"] is None
    assert {name: value for name, value in table.items() if not isinstance(value, str)} == {
        name: value for name, value in lines.items() if not isinstance(table[name], str)
    }


def test_parquet_round_trip(tmp_path: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    exporter = get_exporter("parquet")
    rows = [dict(row) for row in exporter.export([episode(), branching()]).rows]

    pq.write_table(pa.Table.from_pylist(rows, schema=exporter.schema()), tmp_path / "rows.parquet")  # type: ignore[attr-defined]

    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows


@pytest.mark.parametrize("name", ["slime", "miles"])
def test_routing_rows_of_every_token_but_the_last(name: str) -> None:
    rows = get_exporter(name, top_k=TOP_K).export(routed(episode())).row["rollout_routed_experts"]

    assert rows.dtype == np.int32
    assert rows[:, 0, 0].tolist() == [1, 2, 3, 4, 5]
    assert rows.shape == (5, LAYERS, TOP_K)


def test_routing_rows_padded_to_every_token() -> None:
    made = routed(episode())
    options = {"num_layers": LAYERS, "top_k": TOP_K}

    verl = get_exporter("verl", **options).export(made).row["routed_experts"]
    skyrl = get_exporter("skyrl", **options).export(made).row["rollout_expert_indices"]
    prime = get_exporter("prime_rl", env_name="toy", **options).export(made).row["routed_experts"]
    art = get_exporter("art", **options).export(made).row["tokenized_histories"][0]
    assert (verl.dtype, verl[:, 0, 0].tolist()) == (np.int16, [1, 2, 3, 4, 5, 0])
    assert skyrl == [verl.tolist()]
    assert (prime["shape"], prime["dtype"]) == ([6, LAYERS, TOP_K], "uint8")
    assert np.frombuffer(prime["data"], "uint8").reshape(6, LAYERS, TOP_K).tolist() == verl.tolist()
    assert [rows[0][0] for rows in art["routed_experts"]] == [1, 2, 3, 4, 5, -1]
    assert art["top_k"] == TOP_K


def test_routing_rows_of_each_message() -> None:
    (row,) = get_exporter("nemo_rl", top_k=TOP_K).export(routed(episode())).rows

    assert [[r[0][0] for r in message["routed_experts"]] for message in row["message_log"]] == [
        [1, 2],
        [3, 4],
        [5],
        [0],
    ]


def test_routing_that_was_asked_for_and_is_missing_is_an_error() -> None:
    with pytest.raises(RoutingError, match="no turn of this branch brought routed_experts"):
        get_exporter("slime", top_k=TOP_K).export(episode())


def test_routing_that_was_not_asked_for_is_counted() -> None:
    result = get_exporter("slime").export(routed(episode()))

    assert [loss.count for loss in result.losses if loss.field == "routed_experts"] == [2]
    assert "rollout_routed_experts" not in result.row


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("17", 17), ("-3", -3)])
def test_an_identity_that_is_a_number_is_that_number(text: str, number: int) -> None:
    assert number_of(text) == number


def test_other_identities_become_numbers_of_their_own() -> None:
    numbers = [number_of(text) for text in ("007", "7", "seven", "7.0", "", "9" * 40)]

    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 2**62 for number in numbers)

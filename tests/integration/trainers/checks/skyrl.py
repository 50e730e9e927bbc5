"""SkyRL validates our output, with and without step-wise training, and pads it into a training batch."""

from __future__ import annotations

import importlib
import typing
from importlib.metadata import version
from typing import Any

import typing_extensions

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group

# SkyRL uses typing.TypedDict in pydantic models, which pydantic refuses before Python 3.12.
typing.TypedDict = typing_extensions.TypedDict


class Tokenizer:
    """All that the batch needs of one."""

    pad_token_id = 0


def main() -> dict[str, Any]:
    base = importlib.import_module("skyrl.train.generators.base")
    validate = importlib.import_module("skyrl.train.utils.trainer_utils").validate_generator_output
    pad = importlib.import_module("skyrl.train.dataset.preprocess").convert_prompts_responses_to_batch_tensors

    def output(exported: dict[str, Any]) -> Any:
        ids = [base.TrajectoryID(**entry) for entry in exported["trajectory_ids"]]
        return base.GeneratorOutput(**{**exported, "trajectory_ids": ids})

    plain = output(get_exporter("skyrl").export(group()).row)
    validate(len(group()), plain)
    steps = output(get_exporter("skyrl", several="all").export([branched(), *group()]).row)
    validate(len(group()) + 1, steps, step_wise=True)
    scored = output(get_exporter("skyrl", token_rewards="score").export(group()).row)
    validate(len(group()), scored)
    batch = pad(
        Tokenizer(),
        scored["prompt_token_ids"],
        scored["response_ids"],
        scored["rewards"],
        scored["loss_masks"],
        scored["rollout_logprobs"],
    )
    sequences, rewards, masks = batch[0], batch[3], batch[4]
    return {
        "version": version("skyrl"),
        "mask sums agree": int(masks.sum()) == sum(map(sum, scored["loss_masks"])),
        "rewards sum to the turns'": float(rewards.sum()) == sum(map(sum, scored["rewards"])),
        "tokens arrive": all(
            row.tolist()[-len(prompt + ids) :] == prompt + ids
            for row, prompt, ids in zip(sequences, scored["prompt_token_ids"], scored["response_ids"], strict=True)
        ),
        "last steps": sum(steps["is_last_step"]) == len(group()) + 1,
    }

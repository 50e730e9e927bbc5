"""TRL's own trainer takes a step on our rows, and its asynchronous trainer's collator packs them."""

from __future__ import annotations

import importlib
import math
import tempfile
from pathlib import Path
from typing import Any

import strands_sglang
from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import branched, group


def main() -> dict[str, Any]:
    taken = step_of_the_trainer()
    packed = batch_of_the_asynchronous_trainer()
    return {"version": importlib.import_module("trl").__version__, **taken, **packed}


def step_of_the_trainer() -> dict[str, Any]:
    """Train one step of a tiny random model, and look at the tensors that the trainer made of the row."""
    trl, transformers, datasets = map(importlib.import_module, ("trl", "transformers", "datasets"))
    folder = Path(strands_sglang.__file__).parent / "engine" / "tiny_model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    row: dict[str, Any] = {}
    rewards: list[float] = []
    repeated: list[bool] = []
    inputs: dict[str, Any] = {}

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        repeated.append(prompts[0] == prompts[1] != prompts[2])
        row.update(get_exporter("trl").export(group(len(prompts))).row)
        return dict(row)

    def reward(episode_reward: list[float], **_: Any) -> list[float]:
        rewards.extend(episode_reward)
        return episode_reward

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc, name-defined]
        def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
            outputs = super()._generate_and_score_completions(*args, **kwargs)
            inputs.update(outputs)
            return outputs

    with tempfile.TemporaryDirectory() as scratch:
        settings = trl.GRPOConfig(
            output_dir=scratch,
            per_device_train_batch_size=4,
            num_generations=2,
            max_steps=1,
            logging_steps=1,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=transformers.Qwen2ForCausalLM(config),
            reward_funcs=reward,
            args=settings,
            train_dataset=datasets.Dataset.from_dict({"prompt": ["one", "two"]}),
            processing_class=tokenizer,
            rollout_func=rollout_func,
        )
        trainer.train()
    (log,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    mask = inputs["tool_mask"] * inputs["completion_mask"]
    return {
        "loss is finite": math.isfinite(log["loss"]),
        "a group's prompts come one after another": repeated == [True],
        "rewards arrive": rewards == row["episode_reward"],
        "tokens arrive": unpadded(inputs["completion_ids"], inputs["completion_mask"]) == row["completion_ids"],
        "prompts arrive": unpadded(inputs["prompt_ids"], inputs["prompt_mask"]) == row["prompt_ids"],
        "mask arrives": int(mask.sum()) == sum(map(sum, row["env_mask"])),
    }


def unpadded(ids: Any, mask: Any) -> list[list[int]]:
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]


def batch_of_the_asynchronous_trainer() -> dict[str, Any]:
    worker, trainer, packing = (
        importlib.import_module(f"trl.experimental.async_grpo.{name}")
        for name in ("async_rollout_worker", "async_grpo_trainer", "packing")
    )
    rows = get_exporter("trl_async", arrays="numpy").export([*group(), branched()]).rows
    packed = packing.TreeRow()
    torch = importlib.import_module("torch")
    samples = [worker.RolloutSample(**fields) for fields in rows]
    for sample in samples:
        columns = {
            name: torch.from_numpy(getattr(sample, name)) for name in ("input_ids", "completion_mask", "old_log_probs")
        }
        rest = {name: getattr(sample, name) for name in ("advantage", "group_id", "model_version", "metrics")}
        packed.add({**columns, **rest})
    batch = trainer.DataCollatorForRollout(pad_token_id=0)([[packed]])
    return {
        "every trainable token is packed": batch["token_index"].numel()
        == sum(int(row["completion_mask"].sum()) for row in rows)
    }

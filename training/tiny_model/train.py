"""Train the tiny model on a CPU, reproducibly.

Owns the recipe: how many steps, on which dialogues, at which rates.  Everything is a function of the seed and the
step, nothing of the clock.  Each batch is cut into two shards, each computed by one thread with one-threaded
operations, so the number of cores changes the speed and not the result.

Usage::

    python train.py                              # the shipped weights
    python train.py --check-determinism 30       # two short runs, compared byte by byte
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import data
import network
import torch
from muon import Muon
from tokenizer import PACKAGE_DATA, Encoder
from torch import Tensor

HERE = pathlib.Path(__file__).resolve().parent
SHARDS = 2
POOL = 600
HELD_OUT_SEED = 20_000_000
Example = tuple[list[int], list[bool]]
Batch = tuple[Tensor, Tensor]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the weights depend on, besides the code."""

    seed: int = 0
    steps: int = 2000
    tokens: int = 2560
    """Tokens in a batch, padding included."""
    matrix_rate: float = 5e-3
    """Muon's learning rate, for the matrices of the layers."""
    other_rate: float = 3e-3
    """AdamW's learning rate, for embeddings and norms."""
    decay: float = 0.1
    warmup: int = 60
    compact: float = 0.2
    """Until this share of the steps: one question, no system block.  Copying of digits is learned here."""
    single: float = 0.35
    """Until this share of the steps: one question in a dialogue."""

    def scale(self, step: int) -> float:
        """Scale both learning rates at a step: a linear warm-up, then a cosine down to 2 %."""
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return min(1.0, (step + 1) / self.warmup) * (0.02 + 0.98 * cosine)

    def options(self, step: int, seed: int) -> dict[str, Any]:
        """Choose the options of :func:`data.dialogue` for a step: short dialogues first, later a few very long ones."""
        if step < self.compact * self.steps:
            return {"turns": 1, "compact": True}
        if step < self.single * self.steps:
            return {"turns": 1}
        if seed % 120 == 0:
            return {"long_system": True}
        return {"turns": 5 + seed // 120 % 6} if seed % 60 == 0 else {}


# ------------------------------------------------------------------ batches
def group(examples: list[Example], tokens: int) -> list[list[Example]]:
    """Group examples of like length into batches of at most ``tokens`` tokens."""
    groups: list[list[Example]] = []
    for example in sorted(examples, key=_length):
        if groups and (len(groups[-1]) + 1) * len(example[0]) <= tokens:
            groups[-1].append(example)
        else:
            groups.append([example])
    return groups


def _length(example: Example) -> int:
    return len(example[0])


def pad(examples: list[Example]) -> Batch:
    """Make tensors, padded on the right: causal attention needs no mask for that."""
    width = -(-max(map(_length, examples)) // 32) * 32 + 1
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    mask = torch.zeros(len(examples), width, dtype=torch.bool)
    for row, (example_ids, example_mask) in enumerate(examples):
        ids[row, : len(example_ids)] = torch.tensor(example_ids)
        mask[row, : len(example_ids)] = torch.tensor(example_mask)
    return ids, mask


def batches(encoder: Encoder, recipe: Recipe) -> Iterator[Batch]:
    """Give the batch of each step."""
    order = random.Random(recipe.seed)
    seed, step = 100_000 * (recipe.seed + 1), 0
    while step < recipe.steps:
        seeds = range(seed, seed + POOL)
        examples = [encoder.example(data.dialogue(s, **recipe.options(step, s))) for s in seeds]
        groups = group([e for e in examples if len(e[0]) <= network.CONFIG["max_position_embeddings"]], recipe.tokens)
        order.shuffle(groups)
        for examples in groups[: recipe.steps - step]:
            yield pad(examples)
        seed, step = seed + POOL, step + len(groups)


def held_out_batch(encoder: Encoder) -> Batch:
    """Give a batch of 24 dialogues with held-out expressions."""
    seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + 24)
    return pad([encoder.example(data.dialogue(seed, held_out=True)) for seed in seeds])


# ------------------------------------------------------------------ training
class Trainer:
    """A model, its optimizers, and a thread for each shard of a batch."""

    def __init__(self, recipe: Recipe) -> None:
        """Draw the weights and start the threads.

        Args:
            recipe: The recipe.
        """
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.model = network.Model()
        self.shards = [self._shard() for _ in range(SHARDS)]
        self.pool = ThreadPoolExecutor(SHARDS, initializer=torch.set_num_threads, initargs=(1,))
        layers = list(self.model.layers.parameters())
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        embedding = {"params": [self.model.embed_tokens.weight], "weight_decay": recipe.decay}
        norms = {"params": vectors, "weight_decay": 0.0}
        self.adamw = torch.optim.AdamW([embedding, norms], betas=(0.9, 0.98), fused=True)
        self.muon = Muon([p for p in layers if p.dim() == 2], recipe.decay)

    def _shard(self) -> network.Model:
        """Make a model that shares the weights but has gradients of its own."""
        shard = network.Model()
        for parameter, shared in zip(shard.parameters(), self.model.parameters(), strict=True):
            parameter.data = shared.data
        return shard

    def step(self, step: int, batch: Batch) -> float:
        """Do one step.

        Args:
            step: Its number, from 0.
            batch: Ids and mask.

        Returns:
            The mean loss of the batch before the step.
        """
        loss = self._backward(batch)
        scale = self.recipe.scale(step)
        for parameters in self.adamw.param_groups:
            parameters["lr"] = self.recipe.other_rate * scale
        self.adamw.step()
        self.muon.step(self.recipe.matrix_rate * scale, self.pool.map)
        return loss

    def _backward(self, batch: Batch) -> float:
        """Put the gradients of the mean loss into the model's parameters."""
        ids, mask = batch
        count = int(mask[:, 1:].sum())

        def run(i: int) -> float:
            if len(ids) <= i:
                return 0.0
            loss = self.shards[i].loss(ids[i::SHARDS], mask[i::SHARDS]) / count
            loss.backward()
            return loss.item()

        loss = sum(self.pool.map(run, range(SHARDS)))
        for parameter, *parts in zip(self.model.parameters(), *(s.parameters() for s in self.shards), strict=True):
            parameter.grad = sum(part.grad for part in parts if part.grad is not None)
            for part in parts:
                part.grad = None
        return loss

    def evaluate(self, batch: Batch) -> float:
        """Compute the mean loss of a batch."""
        with torch.no_grad():
            return round(self.model.loss(*batch).item() / int(batch[1][:, 1:].sum()), 4)


def train(recipe: Recipe, out: pathlib.Path, tokenizer: pathlib.Path, log: pathlib.Path, every: int) -> pathlib.Path:
    """Train, and write weights, configurations and the log.

    Args:
        recipe: The recipe.
        out: Where weights and configurations go.
        tokenizer: Folder of the tokenizer.
        log: Where the log goes, one JSON object a line.
        every: Steps between checkpoints, which go next to the log; 0 for none.

    Returns:
        The file of the weights.
    """
    encoder, trainer = Encoder(tokenizer), Trainer(recipe)
    held_out, begin, tokens, losses = held_out_batch(encoder), time.monotonic(), 0, []
    with log.open("w", encoding="utf-8") as file:

        def write(row: dict[str, Any]) -> None:
            print(line := json.dumps(row), flush=True)
            file.write(line + "\n")

        write({"recipe": dataclasses.asdict(recipe), "torch": torch.__version__})
        for step, batch in enumerate(batches(encoder, recipe)):
            losses.append(trainer.step(step, batch))
            tokens += batch[0].numel()
            done = step + 1
            if done % 50 == 0 or done == recipe.steps:
                row = {"step": done, "seconds": round(time.monotonic() - begin), "tokens": tokens}
                write({**row, "train": round(sum(losses) / len(losses), 4), "held_out": trainer.evaluate(held_out)})
                losses.clear()
            if every and done % every == 0:
                folder = log.parent / f"step-{done}"
                network.save(trainer.model, folder, encoder.end, encoder.pad)
                shutil.copyfile(tokenizer / "tokenizer.json", folder / "tokenizer.json")
        weights = network.save(trainer.model, out, encoder.end, encoder.pad)
        write({"sha256": hashlib.sha256(weights.read_bytes()).hexdigest(), "seconds": round(time.monotonic() - begin)})
    return weights


def check_determinism(steps: int, tokenizer: pathlib.Path) -> bool:
    """Train twice for a few steps, each time in a new process, and compare the weights.

    Args:
        steps: Number of steps.
        tokenizer: Folder of the tokenizer.

    Returns:
        Whether the two files are equal.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in ("first", "second"):
            out = pathlib.Path(folder) / name
            out.mkdir()
            places = ["--out", out, "--log", out / "training.jsonl", "--tokenizer", tokenizer]
            command = [sys.executable, __file__, "--steps", str(steps), *map(str, places)]
            subprocess.run(command, check=True)
            files.append((out / "model.safetensors").read_bytes())
    equal = files[0] == files[1]
    print(f"{steps} steps, twice: the weights are {'equal byte by byte' if equal else 'different'}")
    return equal


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train the tiny model.")
    parser.add_argument("--out", type=pathlib.Path, default=PACKAGE_DATA, help="where weights and configurations go")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=PACKAGE_DATA, help="folder of tokenizer.json")
    parser.add_argument("--log", type=pathlib.Path, default=HERE / "training.jsonl")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    parser.add_argument("--checkpoints", type=int, default=0, metavar="STEPS", help="save one after so many steps")
    parser.add_argument("--check-determinism", type=int, default=0, metavar="STEPS", help="train twice and compare")
    a = parser.parse_args()
    if a.check_determinism:
        sys.exit(not check_determinism(a.check_determinism, a.tokenizer))
    train(Recipe(seed=a.seed, steps=a.steps), a.out, a.tokenizer, a.log, a.checkpoints)


if __name__ == "__main__":
    main()

"""Compare the library's engine with transformers: greedy ids and log-probabilities on held-out prompts.

Owns nothing that is shipped.  Needs PyTorch and transformers beside the library.

Usage::

    python compare.py [DIRECTORY] [--n 50]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import pathlib
from typing import Any

import data
import httpx
import torch
from evaluate import BARE, FIRST_SEED, SILENT, THINKING, mixed
from tokenizer import PACKAGE_DATA, Encoder, render
from transformers import AutoModelForCausalLM

from strands_sglang.engine import EngineTransport, TinyEngine

MAX_NEW_TOKENS = 160


def prompts(encoder: Encoder, count: int) -> list[list[int]]:
    """Encode held-out questions before drawn tools and system prompts, in all three modes."""
    modes = itertools.cycle((BARE, THINKING, SILENT))
    found = []
    for seed, switches in zip(range(FIRST_SEED, FIRST_SEED + count), modes, strict=False):
        draw = data.Generator(seed, held_out=True)
        system, (tools, _, _) = draw.system_prompt(), draw.tools()
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": mixed(draw).text})
        found.append(encoder.encode(render(messages, tools, True, **switches)))
    return found


def by_transformers(model: Any, prompt: list[int]) -> list[int]:
    """Generate greedily with transformers."""
    ids = torch.tensor([prompt])
    options = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_NEW_TOKENS, **options)
    return out[0, len(prompt) :].tolist()


def log_probabilities(model: Any, prompt: list[int], output: list[int]) -> list[float]:
    """Score an output with transformers, all positions at once."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(output)), torch.tensor(output)].tolist()


async def compare(folder: pathlib.Path, count: int) -> None:
    """Compare and print."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    same, tokens, largest = 0, 0, 0.0
    transport = EngineTransport(TinyEngine(folder))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=300) as client:
        for prompt in prompts(Encoder(folder), count):
            sampling = {"temperature": 0, "max_new_tokens": MAX_NEW_TOKENS}
            body = {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}
            answer = (await client.post("/generate", json=body)).raise_for_status().json()
            output = answer["output_ids"]
            same += output == by_transformers(model, prompt)
            tokens += len(output)
            engine = [triple[0] for triple in answer["meta_info"]["output_token_logprobs"]]
            other = log_probabilities(model, prompt, output)
            largest = max(largest, *(abs(a - b) for a, b in zip(engine, other, strict=True)))
    print(f"greedy ids equal: {same} of {count} prompts, {tokens} tokens; largest difference of a ", end="")
    print(f"log-probability: {largest:.1e}")


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description="Compare the library's engine with transformers.")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=PACKAGE_DATA, help="folder of the model")
    parser.add_argument("--n", type=int, default=50, help="number of prompts")
    a = parser.parse_args()
    asyncio.run(compare(a.folder, a.n))


if __name__ == "__main__":
    main()

"""A second opinion: the same checkpoint and the same ids in one forward pass of transformers, without SGLang.

Runs as a script in SGLang's environment, where torch is, and speaks JSON on standard input and output. `forward` runs
it from the tests. Nothing of this library is imported there.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What a forward pass says of one sequence.

    Attributes:
        logprobs: Of each token given those before it, at temperature 1; None for the first.
        experts: Chosen experts, `[tokens][layers][top_k]`; empty for a dense model.
        margins: For each token, by how much its routing was decided: the least difference between router logits of
            experts in a row, over all layers; empty for a dense model.
    """

    logprobs: list[float | None]
    experts: list[list[list[int]]]
    margins: list[float]


def forward(environment: Path, checkpoint: Path, sequences: Sequence[Sequence[int]]) -> list[Opinion]:
    """Return what the checkpoint says of each sequence.

    Args:
        environment: Where SGLang is installed.
        checkpoint: The folder of the weights.
        sequences: Token ids.
    """
    from .sglang_cpu.install import python_of, server_env

    done = subprocess.run(
        [str(python_of(environment)), "-W", "ignore", __file__, str(checkpoint)],
        input=json.dumps([list(ids) for ids in sequences]),
        capture_output=True,
        text=True,
        env={**os.environ, **server_env()},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the forward pass failed:\n{done.stderr[-4000:]}")
    return [Opinion(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Read sequences, run the model, write what it says."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    top_k = getattr(model.config, "num_experts_per_tok", 0)
    with torch.no_grad():
        opinions = [opinion(torch, model, ids, top_k) for ids in json.load(sys.stdin)]
    print(json.dumps(opinions))


def opinion(torch: Any, model: Any, ids: list[int], top_k: int) -> dict[str, Any]:
    """Return the fields of an `Opinion`."""
    given = torch.tensor([ids])
    out = model(given, **({"output_router_logits": True} if top_k else {}))
    scores = torch.log_softmax(out.logits[0].double(), dim=-1)
    chosen = scores[:-1].gather(1, given[0, 1:, None])[:, 0].tolist()
    if not top_k:
        return {"logprobs": [None, *chosen], "experts": [], "margins": []}
    routers = torch.stack([layer.reshape(len(ids), -1) for layer in out.router_logits], dim=1)
    best = routers.topk(top_k + 1, dim=-1)
    margins = (best.values[..., :-1] - best.values[..., 1:]).amin(dim=(1, 2))
    return {
        "logprobs": [None, *chosen],
        "experts": best.indices[..., :top_k].tolist(),
        "margins": margins.tolist(),
    }


if __name__ == "__main__":
    main()

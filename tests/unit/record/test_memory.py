"""What a record takes in memory."""

from __future__ import annotations

import gc
import random
import tracemalloc

from strands_sglang import Trajectory
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Turn

TURNS, PROMPT, SAMPLED = 32, 512, 512


def long_episode() -> Trajectory:
    """32k tokens, as a provider records them."""
    draw = random.Random(0)
    trajectory, parent = Trajectory(), None
    for index in range(TURNS):
        facts = {
            "finish_reason": "stop",
            "matched": 151645,
            "sampling_params": {"max_new_tokens": None, "temperature": 1.0},
            "temperature": 1.0,
            "logprob_kind": "tempered",
            "prompt_tokens": index * 1024 + PROMPT,
            "cached_tokens": index * 1024,
            "latency": draw.random(),
            "rid": f"{index:064d}",
            "calls": [{"name": "calculator", "id": f"call_{index}", "status": "ok", "token_span": [100, 500]}],
        }
        ids = [draw.randrange(150_000) for _ in range(PROMPT + SAMPLED)]
        parent = Turn(
            index=index,
            parent=parent,
            prompt=Segment.of(SegmentKind.PROMPT, ids[:PROMPT], facts={"messages": [2 * index, 2 * index + 1]}),
            sampled=Segment.of(
                SegmentKind.SAMPLED,
                ids[PROMPT:],
                [-draw.random() for _ in range(SAMPLED)],
                weight_spans=(("default", 0, SAMPLED),),
                message_index=2 * index + 1,
                facts=facts,
            ),
            conversation=0,
            lineage=Lineage.MAIN,
        )
        trajectory.add(parent)
    return trajectory


def test_a_rollout_of_32k_tokens_takes_at_most_16_bytes_a_token() -> None:
    saved = long_episode().to_json()
    for make in (long_episode, lambda: Trajectory.from_json(saved)):
        make()
        gc.collect()
        tracemalloc.start()
        try:
            trajectory = make()
            branch = trajectory.branches[0]
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert len(branch) == TURNS * (PROMPT + SAMPLED)
        assert taken / len(branch) < 16

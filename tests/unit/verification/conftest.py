"""An episode that the shipped model sampled, and ways to damage it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

# The matrices are too small for a second BLAS thread to pay, and it spins. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from strands_sglang import SGLangClient, Trajectory
from strands_sglang.engine import EngineTransport, TinyEngine
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage, Turn
from strands_sglang.wire import GenerateRequest

VOCABULARY = 1024

Record = Callable[..., Awaitable[Trajectory]]


class CountingTransport(EngineTransport):
    """Counts the generations that were asked for."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.generations = 0

    async def handle_async_request(self, request: Any) -> Any:
        self.generations += request.url.path == "/generate"
        return await super().handle_async_request(request)


def add_turn(trajectory: Trajectory, parent: Turn | None, prompt: Segment, sampled: Segment) -> Turn:
    turn = Turn(
        index=len(trajectory.turns),
        parent=parent,
        prompt=prompt,
        sampled=sampled,
        conversation=0,
        lineage=Lineage.MAIN,
    )
    trajectory.add(turn)
    return turn


async def sample(
    client: SGLangClient, trajectory: Trajectory, parent: Turn | None, prompt: list[int], replaces: int, **params: Any
) -> Turn:
    """Let the model sample a turn, and record it as the library does."""
    context = parent.rollout().token_ids if parent else []
    ids = context[: len(context) - replaces] + prompt
    sampling = {"max_new_tokens": 9, "ignore_eos": True, **params}
    reply = await client.send(GenerateRequest(input_ids=ids, sampling_params=sampling))
    sampled = Segment.of(
        SegmentKind.SAMPLED,
        reply.output_ids,
        reply.output_logprobs,
        weight_spans=tuple((span.version, span.start, span.end) for span in reply.weight_versions),
        facts={"sampling_params": sampling},
    )
    return add_turn(trajectory, parent, Segment.of(SegmentKind.PROMPT, prompt, replaces=replaces), sampled)


@pytest.fixture(scope="session")
def engine() -> Iterator[TinyEngine]:
    engine = TinyEngine(seed=0, weight_version="v0")
    yield engine
    engine.abort_all()


@pytest.fixture
def transport(engine: TinyEngine) -> CountingTransport:
    return CountingTransport(engine)


@pytest.fixture
def client(transport: CountingTransport) -> SGLangClient:
    return SGLangClient("http://engine", transport=transport, vocab_size=VOCABULARY, max_retries=0)


@pytest.fixture(scope="session")
def record(engine: TinyEngine) -> Record:
    """`await record(**sampling)`: a root, two turns after it, and one that replaces a stop token."""
    made: dict[tuple[Any, ...], Trajectory] = {}

    async def play(params: dict[str, Any]) -> Trajectory:
        client = SGLangClient("http://engine", transport=EngineTransport(engine))
        trajectory = Trajectory(id="sampled")
        root = await sample(client, trajectory, None, [1016, 872, 198, 21, 22], 0, **params)
        await sample(client, trajectory, root, [30, 31], 0, **params)
        other = await sample(client, trajectory, root, [40, 41, 42], 0, **params)
        await sample(client, trajectory, other, [50, 51], 1, **params)
        return trajectory

    async def build(**params: Any) -> Trajectory:
        key = tuple(sorted(params.items()))
        if key not in made:
            made[key] = await play(params)
        return copy_of(made[key])

    return build


def copy_of(trajectory: Trajectory) -> Trajectory:
    """Turns of one's own; the segments are shared, and never changed."""
    twins: dict[int, Turn] = {}
    for turn in trajectory.turns:
        parent = twins[turn.parent.index] if turn.parent else None
        twins[turn.index] = replace(turn, parent=parent)
    return Trajectory(id=trajectory.id, turns=list(twins.values()))


def change(turn: Turn, **fields: Any) -> None:
    """Put something else into the place of a field of what was sampled."""
    turn.sampled = replace(turn.sampled, **fields)


def with_logprob(turn: Turn, offset: int, value: float | None) -> None:
    """Put another log-probability into the record."""
    values = turn.sampled.logprob_list()
    values[offset] = value
    change(turn, logprobs=Segment.of(SegmentKind.SAMPLED, turn.sampled.ids, values).logprobs)

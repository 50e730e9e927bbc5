"""Fifty episodes over a weight update: every exported log-probability is that of the weights that sampled it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from httpx_aiohttp import AiohttpTransport
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager

from strands_sglang import LoopLimiter, SGLangClient, SGLangModel, Trajectory
from strands_sglang.records import RecordWriter, read_records
from strands_sglang.replay import Replay
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.trajectory import Lineage, Turn, TurnFate
from strands_sglang.verification import Verdict, VerificationReport, verify
from strands_sglang.wire import GenerateRequest

from .conftest import StartServer
from .episodes import CUT_SHORT, TOLERANCE, calculator
from .forward_pass import Opinion, forward
from .sglang_cpu.checkpoints import perturbed
from .sglang_cpu.install import default_environment
from .watching import load_of, until_load

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EPISODES = 50
QUESTIONS = ("What is 25 * 17?", "What is 81 / 9?", "What is 12 + 30?")
VOCABULARY = 1024
SAMPLED: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": 60}


class Faulty(httpx.AsyncBaseTransport):
    """The library's own transport; every seventh generation is refused as by a server that is full."""

    def __init__(self) -> None:
        self._inner = AiohttpTransport()
        self._generations = 0
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/generate":
            self._generations += 1
            if self._generations % 7 == 0:
                self.refused += 1
                return httpx.Response(503, json={"object": "error", "message": "The request queue is full."})
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Stage:
    """A server with named weights, and what was played on it."""

    def __init__(self, url: str, tokenizer: PreTrainedTokenizerBase, weights: dict[str, Path]) -> None:
        self.url, self.tokenizer, self.weights = url, tokenizer, weights

    @asynccontextmanager
    async def client(self) -> AsyncIterator[SGLangClient]:
        """A client that has to retry now and then."""
        async with Faulty() as transport, SGLangClient(self.url, transport=transport, retry_delay=0.01) as client:
            yield client

    async def play(self, client: SGLangClient) -> Trajectory:
        """Play one episode."""
        model = model_of(client, self.tokenizer)
        await ask(model)
        return model.trajectory

    async def verified(self, client: SGLangClient, trajectories: list[Trajectory]) -> list[VerificationReport]:
        """Verify episodes against the weights in place."""
        return [await verify(trajectory, client, tokenizer=self.tokenizer) for trajectory in trajectories]


def model_of(client: SGLangClient, tokenizer: PreTrainedTokenizerBase, **sampling: Any) -> SGLangModel:
    return SGLangModel(
        client=client,
        tokenizer=tokenizer,
        tool_parser=get_tool_parser("hermes"),
        sampling_params={**SAMPLED, **sampling},
    )


async def ask(model: SGLangModel) -> None:
    """The agent's code: questions with a tool, over a history that is cut to its newest messages."""
    agent = Agent(
        model=model,
        tools=[calculator],
        hooks=[LoopLimiter(max_tool_iters=3, on_limit="stop")],
        conversation_manager=SlidingWindowConversationManager(window_size=4),
        callback_handler=None,
    )
    for question in QUESTIONS:
        with suppress(*CUT_SHORT):
            await agent.invoke_async(question)


@pytest.fixture(scope="module")
def stage(start_server: StartServer, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(tiny_model))
    other = perturbed(tiny_model, tmp_path_factory.mktemp("weights") / "v1")
    with start_server("--weight-version", "v0") as url:
        yield Stage(url, tokenizer, {"v0": tiny_model, "v1": other})


async def test_every_exported_logprob_is_that_of_the_weights_that_sampled_it(
    stage: Stage, tmp_path: Path, measure: Callable[[str, str], None]
) -> None:
    third = EPISODES // 3
    async with stage.client() as client, httpx.AsyncClient(base_url=stage.url) as watcher:
        before = await asyncio.gather(*(stage.play(client) for _ in range(third)))
        reports_before = await stage.verified(client, before)
        # The weights change in the middle of these.
        tasks = [asyncio.create_task(stage.play(client)) for _ in range(third)]
        await until_load(lambda: load_of(watcher), lambda load: load.running > 0)
        await client.pause_generation("abort")
        await client.update_weights_from_disk(str(stage.weights["v1"]), weight_version="v1", flush_cache=True)
        await client.continue_generation()
        during = await asyncio.gather(*tasks)
        after = await asyncio.gather(*(stage.play(client) for _ in range(EPISODES - 2 * third)))
        played = [*before, *during, *after]
        with RecordWriter(tmp_path / "episodes.jsonl") as writer:
            for trajectory in played:
                writer.write(trajectory)
        saved = list(read_records(tmp_path / "episodes.jsonl"))
        reports = await stage.verified(client, saved)

    # By the server: the weights in place explain what they did not sample, and nothing else differs.
    assert all(report.complete for report in reports_before), "\n".join(map(str, reports_before))
    assert all(report.ok for report in reports), "\n".join(str(report) for report in reports if not report.ok)
    assert all(report.complete for report in reports[2 * third :])
    for report in reports:
        for turn in report.with_verdict(Verdict.OTHER_WEIGHTS):
            assert "v0" in turn.weight_versions
    # By another implementation: each exported token under the weights that are recorded for it.
    largest, tokens = largest_difference(saved, await opinions(stage, saved))
    assert largest < TOLERANCE
    # All of this happened.
    assert len(saved) == EPISODES
    assert sum(len(trajectory.leaves) for trajectory in saved) > EPISODES, "no history was cut"
    turns = [turn for trajectory in saved for turn in trajectory.turns]
    assert sum(turn.sampled.facts.get("retries") or 0 for turn in turns) > 0, "nothing was retried"
    assert {version for turn in turns for version, _, _ in turn.sampled.weight_spans} == {"v0", "v1"}
    await assert_all_replay(saved, stage.tokenizer)
    measure(
        f"largest logprob difference to transformers, {tokens} tokens of {EPISODES} episodes under two weights",
        f"{largest:.1e}",
    )
    scored = max(report.totals["largest"] for report in [*reports_before, *reports[2 * third :]])
    measure("largest logprob difference that verify found in them", f"{scored:.1e}")


async def opinions(stage: Stage, trajectories: list[Trajectory]) -> dict[str, list[Opinion]]:
    """Return what each of the weights says of every sample."""
    sequences = [sample.rollout.token_ids for trajectory in trajectories for sample in trajectory.samples()]

    async def of(path: Path) -> list[Opinion]:
        return await asyncio.to_thread(forward, default_environment(), path, sequences)

    found = await asyncio.gather(*map(of, stage.weights.values()))
    return dict(zip(stage.weights, found, strict=True))


def largest_difference(trajectories: list[Trajectory], said: dict[str, list[Opinion]]) -> tuple[float, int]:
    """Return by how much exported values differ at most from those of their weights, and how many there are."""
    samples = [sample for trajectory in trajectories for sample in trajectory.samples()]
    differences: list[float] = []
    for number, sample in enumerate(samples):
        rollout = sample.rollout
        columns = zip(sample.loss_mask, rollout.logprobs, rollout.weight_versions, strict=True)
        for at, (mask, recorded, version) in enumerate(columns):
            if mask:
                assert recorded is not None
                assert version is not None
                expected = said[version][number].logprobs[at]
                assert expected is not None
                differences.append(abs(recorded - expected))
    assert len(differences) == sum(len(turn.sampled) for one in trajectories for turn in exported(one))
    return max(differences), len(differences)


def exported(trajectory: Trajectory) -> list[Turn]:
    """The turns that samples hold by default."""
    return [turn for turn in trajectory.turns if turn.fate is not TurnFate.DISCARDED]


async def assert_all_replay(trajectories: list[Trajectory], tokenizer: PreTrainedTokenizerBase) -> None:
    """Run the agent's code again on the recorded answers, without the server."""
    for trajectory in trajectories:
        replay = Replay(trajectory, tokenizer=tokenizer)
        model = model_of(replay.client(), tokenizer)
        await ask(model)
        assert replay.unplayed == []
        assert [branch.token_ids for branch in model.trajectory.branches] == [
            branch.token_ids for branch in trajectory.branches
        ]
        assert [branch.logprobs for branch in model.trajectory.branches] == [
            branch.logprobs for branch in trajectory.branches
        ]


@pytest.mark.parametrize("temperature", [0.6, 1.4])
async def test_turns_of_another_temperature_are_compared_through_the_likeliest_tokens(
    stage: Stage, temperature: float, measure: Callable[[str, str], None]
) -> None:
    async with stage.client() as client:
        model = model_of(client, stage.tokenizer, temperature=temperature)
        await ask(model)
        # With all tokens told nothing is left to bound; with a few the rest is bounded, and never a failure.
        exactly = await verify(model.trajectory, client, top_logprobs=VOCABULARY, vocab_size=VOCABULARY)
        roughly = await verify(model.trajectory, client)

    assert exactly.complete, str(exactly)
    assert roughly.ok, str(roughly)
    measure(f"largest logprob difference at temperature {temperature}", f"{exactly.totals['largest']:.1e}")
    share = roughly.totals["compared"] / roughly.totals["tokens"]
    measure(f"tokens compared at temperature {temperature} by the 20 likeliest tokens", f"{share:.0%}")


async def test_an_answer_under_a_grammar_is_not_comparable_and_the_rest_is_compared(stage: Stage) -> None:
    async with stage.client() as client:
        model = model_of(client, stage.tokenizer, regex="[0-9]{4}")
        await Agent(model=model, callback_handler=None).invoke_async("Which year?")
        model.update_config(sampling_params=SAMPLED)
        await Agent(model=model, callback_handler=None).invoke_async("What is 81 / 9?")
        report = await verify(model.trajectory, client)

    assert [turn.verdict for turn in report.turns] == [Verdict.NOT_COMPARABLE, Verdict.AGREES], str(report)


async def test_the_last_id_of_the_vocabulary_is_scored_too(stage: Stage) -> None:
    trajectory = Trajectory()
    async with stage.client() as client:
        prompt = [10, VOCABULARY - 1, 20]
        reply = await client.send(GenerateRequest(input_ids=prompt, sampling_params={"max_new_tokens": 4}))
        sampled = Segment.of(SegmentKind.SAMPLED, reply.output_ids, reply.output_logprobs)
        asked = Segment.of(SegmentKind.PROMPT, prompt)
        trajectory.add(Turn(index=0, parent=None, prompt=asked, sampled=sampled, conversation=0, lineage=Lineage.MAIN))
        forced = {"max_new_tokens": 2, "ignore_eos": True, "logit_bias": {str(VOCABULARY - 1): 100.0}}
        last = await client.send(GenerateRequest(input_ids=prompt, sampling_params=forced, logprob_start_len=0))
        report = await verify(trajectory, client)

    assert last.output_ids == [VOCABULARY - 1] * 2
    assert last.input_logprobs is not None
    assert report.complete, str(report)

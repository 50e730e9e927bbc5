"""Episodes whose every token is planned, the engine that plays them, and what must be true of their record.

The engine samples the planned ids whatever happens on the way, but each attempt has log-probabilities of its own and
the weights change all the time. So a record can be checked twice: its ids and mask must be those of the same episode
without any fault, and each sampled token must carry the log-probability and the version of the attempt that sampled it.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from strands import Agent, ModelRetryStrategy, tool

from strands_sglang import Rollout, SGLangClient, SGLangClientError, SGLangModel, get_tokenizer
from strands_sglang.engine import EngineServer, EngineTransport, Refusal, ScriptedEngine, Step, Turn
from strands_sglang.retry import RetryPolicy

from .proxy import ChaosProxy

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

END = "<|im_end|>"
HEADER = "<|im_start|>assistant\n"
IMPATIENT = RetryPolicy(base_delay=0.001, max_delay=0.01, max_retries=8, max_costly=3)
EPISODE_SECONDS = 600.0
_WORDS = ("the tool says that a value of one or two more", "17", "25", "425", "is not", "what = + was, so", "next:")


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    return f"value of {expression} is {sum(map(ord, expression))}"


def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer of the shipped model."""
    return get_tokenizer(str(files("strands_sglang.engine") / "tiny_model"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine had to say to one attempt, as far as it came."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: str


@dataclass(slots=True)
class Log:
    """The engine's own log, by prompt, and the requests that no plan explains."""

    answers: dict[tuple[int, ...], list[Answer]] = field(default_factory=lambda: defaultdict(list))
    strange: list[str] = field(default_factory=list)


class Planned:
    """The planned turns of every episode, as a script of the engine."""

    def __init__(self, *, seed: int, calm: bool = False) -> None:
        """Plan nothing yet; a calm engine aborts nothing and never changes its weights."""
        self.tokenizer = tiny_tokenizer()
        self.log = Log()
        self._seed, self._calm = seed, calm
        self._turns: dict[int, list[list[int]]] = {}
        self._header = self.encode(HEADER)
        self._asked = 0

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def turns(self, number: int) -> list[list[int]]:
        """Return the ids of every turn of an episode; they are seldom the canonical encoding of their text."""
        if number not in self._turns:
            rng = random.Random(f"{self._seed}:{number}")
            last = rng.randint(0, 5)
            self._turns[number] = [self._turn(rng, calls=turn < last) for turn in range(last + 1)]
        return self._turns[number]

    def _turn(self, rng: random.Random, *, calls: bool) -> list[int]:
        text = " ".join(rng.choices(_WORDS, k=rng.randint(1, 6)))
        cut = rng.randrange(len(text))
        ids = self.encode(text[:cut]) + self.encode(text[cut:])
        for _ in range(rng.randint(1, 2) if calls else 0):
            call = f'{{"name": "calculator", "arguments": {{"expression": "{rng.randint(0, 99)}"}}}}'
            ids += self.encode(f"\n<tool_call>\n{call}\n</tool_call>")
        return ids + self.encode(END)

    async def step(self, body: dict[str, Any]) -> Step:
        """Answer one request; `ScriptedEngine` calls this."""
        prompt: list[int] = body["input_ids"]
        episode = re.findall(r"episode (\d+)", str(self.tokenizer.decode(prompt)))
        begins = [at for at in range(len(prompt)) if prompt[at : at + len(self._header)] == self._header]
        if not episode or not begins or len(begins) > len(self.turns(int(episode[0]))):
            return self._stranger(body, "belongs to no turn")
        planned = self.turns(int(episode[0]))[len(begins) - 1]
        sampled = prompt[begins[-1] + len(self._header) :]
        if planned[: len(sampled)] != sampled or len(sampled) == len(planned):
            return self._stranger(body, "goes on from tokens that were never sampled")
        return self._answer(prompt, planned[len(sampled) :], body["rid"])

    def _answer(self, prompt: list[int], rest: list[int], rid: str) -> Turn:
        rng = random.Random(rid)
        self._asked += 1
        version = "v0" if self._calm else f"v{self._asked // 50}"
        logprobs = [-rng.random() for _ in rest]
        self.log.answers[tuple(prompt)].append(Answer(tuple(prompt), tuple(rest), tuple(logprobs), version))
        common: dict[str, Any] = {"weight_version": version}
        drawn = 1.0 if self._calm else rng.random()
        if drawn < 0.04:
            return Turn(ids=[], finish={"type": "abort", "message": "Abort in waiting queue"}, **common)
        if drawn < 0.12:
            end = rng.randrange(len(rest))
            return Turn(ids=rest[:end], logprobs=logprobs[:end], finish="abort", **common)
        slow = 0.0002 if drawn < 0.2 else 0.0
        return Turn(ids=rest, logprobs=logprobs, token_delay=slow, **common)

    def _stranger(self, body: dict[str, Any], what: str) -> Refusal:
        text = self.tokenizer.decode(body["input_ids"])
        self.log.strange.append(f"a prompt {what}: ...{text[-300:]!r}")
        return Refusal(status=400, body={"error": {"message": what}})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one episode ended: its record, and the error that ended it early, if any."""

    number: int
    rollout: Rollout
    error: BaseException | None


async def play(number: int, client: SGLangClient, *, stream: bool) -> Outcome:
    """Run one episode; whatever ends it is part of the outcome."""
    model = SGLangModel(
        client=client, tokenizer=tiny_tokenizer(), stream=stream, sampling_params={"max_new_tokens": 999}
    )
    agent = Agent(
        model=model,
        tools=[calculator],
        callback_handler=None,
        retry_strategy=ModelRetryStrategy(max_attempts=1),
    )
    try:
        async with asyncio.timeout(EPISODE_SECONDS):
            await agent.invoke_async(f"This is episode {number}.")
    except Exception as error:
        return Outcome(number, model.rollout, error)
    return Outcome(number, model.rollout, None)


async def calm_rollout(number: int, *, seed: int) -> Rollout:
    """The record of an episode when nothing goes wrong."""
    engine = ScriptedEngine(Planned(seed=seed, calm=True).step, tokenizer=tiny_tokenizer())
    async with SGLangClient("http://calm", transport=EngineTransport(engine)) as client:
        outcome = await play(number, client, stream=False)
    if outcome.error is not None:
        raise outcome.error
    return outcome.rollout


def faults(outcome: Outcome, calm: Rollout, log: Log) -> list[str]:
    """Return what is wrong with an outcome; nothing, if the guarantees hold."""
    rollout = outcome.rollout
    found: list[str] = []
    if outcome.error is not None and not is_typed(outcome.error):
        found.append(f"it ended with {outcome.error!r}, which is no error of this library")
    length = len(rollout)
    if not length:  # the first turn failed, and left nothing
        return found if outcome.error is not None else [*found, "it finished without a record"]
    if not length == len(rollout.token_ids) == len(rollout.loss_mask) == len(rollout.logprobs):
        found.append("G5: the lists have different lengths")
    if rollout.token_ids != calm.token_ids[:length] or rollout.loss_mask != calm.loss_mask[:length]:
        found.append("G1, G3, G4: ids or mask are not those of the episode without faults")
    if outcome.error is None and length != len(calm):
        found.append(f"it finished with {length} tokens of {len(calm)}")
    if length not in _sampled_ends(calm):
        found.append("G8: the record does not end at a turn")
    return found + _untrue_segments(rollout, log)


def _sampled_ends(rollout: Rollout) -> list[int]:
    ends, at = [], 0
    for segment in rollout.segments:
        at += len(segment)
        if segment.is_sampled:
            ends.append(at)
    return ends


def _untrue_segments(rollout: Rollout, log: Log) -> list[str]:
    """Each sampled segment must be made of parts of answers, each to the prompt recorded before it (G1, G2)."""
    found, at = [], 0
    for segment in rollout.segments:
        if segment.is_sampled:
            told = list(zip(segment.ids, segment.logprob_list(), segment.version_list(), strict=True))
            if not _is_told(tuple(rollout.token_ids[:at]), told, log):
                found.append(f"G1, G2, G5: the segment at {at} is not what the engine answered to the prompt before it")
        at += len(segment)
    return found


def _is_told(prompt: tuple[int, ...], told: Sequence[tuple[int, float | None, str | None]], log: Log) -> bool:
    if not told:
        return True
    for answer in log.answers.get(prompt, ()):
        said = list(zip(answer.ids, answer.logprobs, [answer.version] * len(answer.ids), strict=True))
        common = next(
            (n for n, (a, b) in enumerate(zip(said, told, strict=False)) if a != b), min(len(said), len(told))
        )
        if common and _is_told(prompt + answer.ids[:common], told[common:], log):
            return True
    return False


def is_typed(error: BaseException | None) -> bool:
    """Whether an error of this library is the error, or what the host wrapped."""
    while error is not None:
        if isinstance(error, SGLangClientError):
            return True
        error = error.__cause__ or error.__context__
    return False


@dataclass(frozen=True, slots=True)
class Report:
    """What a run gave."""

    episodes: int
    finished: int
    wrong: list[str]
    struck: dict[str, int]
    errors: dict[str, int]


async def run(episodes: int, *, seed: int, at_once: int = 32) -> Report:
    """Play episodes through the proxy and check every one."""
    planned = Planned(seed=seed)
    engine = ScriptedEngine(planned.step, tokenizer=planned.tokenizer)
    slots = asyncio.Semaphore(at_once)
    wrong: list[str] = []
    finished = 0
    errors: dict[str, int] = defaultdict(int)

    async def one(number: int) -> None:
        nonlocal finished
        async with slots:
            outcome = await play(number, client, stream=number % 4 == 0)
        finished += outcome.error is None
        if outcome.error is not None:
            errors[_name(outcome.error)] += 1
        calm = await calm_rollout(number, seed=seed)
        wrong.extend(f"episode {number}: {fault}" for fault in faults(outcome, calm, planned.log))

    async with (
        EngineServer(engine, port=0, grace=0.5) as server,
        ChaosProxy(server.url, seed=seed) as proxy,
        SGLangClient(proxy.url, retry=IMPATIENT, max_resumptions=8) as client,
    ):
        await asyncio.gather(*map(one, range(episodes)))
    return Report(episodes, finished, wrong + planned.log.strange, dict(proxy.struck), dict(errors))


def _name(error: BaseException) -> str:
    chain = error
    while not isinstance(chain, SGLangClientError) and (chain.__cause__ or chain.__context__) is not None:
        chain = chain.__cause__ or chain.__context__  # type: ignore[assignment]
    return type(chain).__name__

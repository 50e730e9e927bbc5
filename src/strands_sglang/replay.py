"""A saved episode as an engine: the same agent code runs again, offline, and gets the recorded answers.

Owns which recorded turn answers which request. Invariant: a turn is played once, to a request of exactly the ids that
it was sampled after; any other request is an error that names the first differing token.
What a turn went through when it was recorded (retries, aborts, waiting) is not played again, and nothing is made up: a
value that was not recorded is null. Sampling parameters are not compared: the answers are what they are.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from .client import SGLangClient
from .engine import EngineTransport, ScriptedEngine
from .engine import Turn as Played
from .errors import ReplayMismatchError
from .rollout.values import identity, optional, whole
from .trajectory import Trajectory, Turn

# Tokens shown before and after the first that differs.
_BEFORE, _AFTER = 12, 16


def replay_engine(trajectory: Trajectory, *, tokenizer: Any = None) -> ScriptedEngine:
    """Return an engine that answers as the recorded one did; `Replay(...).engine`.

    Args:
        trajectory: The episode.
        tokenizer: Decodes the text in errors; None for ids only.
    """
    return Replay(trajectory, tokenizer=tokenizer).engine


class Replay:
    """A recorded episode that can be run again.

    Example:
        replay = Replay(trajectory, tokenizer=tokenizer)
        model = SGLangModel(client=replay.client(), tokenizer=tokenizer)
        await Agent(model=model, tools=[calculator]).invoke_async("What is 25 * 17?")
        assert not replay.unplayed

    Attributes:
        engine: Answers as the recorded one did, for an `EngineTransport` of your own.
        mismatches: Every error that was raised, also where an agent inside a tool swallowed it.
    """

    def __init__(self, trajectory: Trajectory, *, tokenizer: Any = None) -> None:
        """Prepare the answers; the trajectory is not changed.

        Args:
            trajectory: The episode.
            tokenizer: Decodes the text in errors; None for ids only.
        """
        self.mismatches: list[ReplayMismatchError] = []
        self._tokenizer = tokenizer
        self._turns = list(trajectory.turns)
        self._played: set[int] = set()
        self._waiting: dict[bytes, deque[Turn]] = {}
        for turn in self._turns:
            self._waiting.setdefault(_key(_prompt_of(turn)), deque()).append(turn)
        images = any(turn.images for turn in self._turns)
        self.engine = ScriptedEngine(self._answer, tokenizer=tokenizer, model_info={"has_image_understanding": images})

    def client(self, **options: Any) -> SGLangClient:
        """Return a client of the engine.

        Args:
            **options: Arguments of `SGLangClient`.
        """
        return SGLangClient("http://replay", transport=EngineTransport(self.engine), **{"max_retries": 0, **options})

    @property
    def unplayed(self) -> list[Turn]:
        """The recorded turns that nobody asked for yet, in order; empty after a complete replay."""
        return [turn for turn in self._turns if id(turn) not in self._played]

    def _answer(self, body: dict[str, Any]) -> Played:
        """Return the recorded answer to a request."""
        prompt = list(body.get("input_ids") or ())
        waiting = self._waiting.get(_key(prompt))
        if not waiting:
            raise self._failed(self._mismatch(prompt, asked_before=waiting is not None))
        turn = waiting[0]
        try:
            answer = _played(turn, body)
        except ReplayMismatchError as error:
            raise self._failed(error) from None
        waiting.popleft()
        self._played.add(id(turn))
        return answer

    def _failed(self, error: ReplayMismatchError) -> ReplayMismatchError:
        self.mismatches.append(error)
        return error

    def _mismatch(self, prompt: Sequence[int], *, asked_before: bool) -> ReplayMismatchError:
        """Return the error for a request that no turn is left for."""
        if asked_before:
            turn = next(turn for turn in self._turns if _prompt_of(turn) == list(prompt))
            return ReplayMismatchError(
                f"turn {turn.index} is asked for once more than it was recorded: its prompt of {len(prompt)} tokens "
                "has no further answer",
                turn=turn.index,
            )
        if not (left := self.unplayed):
            return ReplayMismatchError(
                f"all {len(self._turns)} recorded turns were played, and a prompt of {len(prompt)} tokens is asked "
                f"that was never recorded{self._shown(prompt, max(0, len(prompt) - _AFTER), len(prompt))}"
            )
        turn = max(left, key=lambda one: _common(_prompt_of(one), prompt))
        recorded = _prompt_of(turn)
        at = _common(recorded, prompt)
        return ReplayMismatchError(
            f"the request for turn {turn.index} is not the recorded one: they differ at token {at}, of "
            f"{len(recorded)} recorded and {len(prompt)} asked\n"
            f"  both:    {self._shown(prompt, max(0, at - _BEFORE), at)}\n"
            f"  recorded:{self._shown(recorded, at, at + _AFTER)}\n"
            f"  asked:   {self._shown(prompt, at, at + _AFTER)}",
            turn=turn.index,
            position=at,
        )

    def _shown(self, ids: Sequence[int], begin: int, end: int) -> str:
        """Return some of the ids, and their text where there is a tokenizer."""
        part = list(ids[begin:end])
        if not part:
            return " (ends here)"
        text = "" if self._tokenizer is None else f" {self._tokenizer.decode(part, skip_special_tokens=False)!r}"
        return f" {part}{text}"


def _key(ids: Sequence[int]) -> bytes:
    return array("q", ids).tobytes()


def _prompt_of(turn: Turn) -> list[int]:
    """Return the ids that a turn was sampled after."""
    ids = turn.rollout().token_ids
    return ids[: len(ids) - len(turn.sampled)]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two prompts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _played(turn: Turn, body: dict[str, Any]) -> Played:
    """Return a recorded turn as a step of the script."""
    sampled, facts = turn.sampled, turn.sampled.facts
    meta: dict[str, Any] = {
        name: _fact(turn, name, read)
        for name, read in (("prompt_tokens", whole), ("cached_tokens", whole), ("indexer_topk", identity))
        if name in facts
    }
    if "retractions" in facts:  # without it the routing rows would be taken for those of the weights that sampled
        meta["num_retractions"] = _fact(turn, "retractions", whole)
    start = body.get("logprob_start_len", -1)
    if body.get("return_logprob") and isinstance(start, int) and start >= 0:
        meta["input_token_logprobs"] = _prompt_logprobs(turn, start)
    if (support := sampled.support) is not None:
        meta["output_token_sampling_mask"] = list(support)
        meta["output_token_sampling_logprobs"] = support.logprob_list()
    spans = sampled.weight_spans
    # One version for the whole answer, taken for every token of it, is told as it was then.
    widened = len(spans) == 1 and bool(facts.get("weights_widened"))
    unnamed = ("weight_versions",) if widened else () if spans else ("weight_versions", "weight_version")
    return Played(
        ids=list(sampled.ids),
        logprobs=sampled.logprob_list(),
        finish=_finish(turn),
        weight_version=spans[-1][0] if spans else None,
        weight_versions=[{"version": name, "start": start, "end": end} for name, start, end in spans],
        routed_experts=_routed_experts(turn, body),
        meta=meta,
        without=unnamed,
    )


def _finish(turn: Turn) -> dict[str, Any]:
    """Return why a turn ended; a record that does not say is taken for one that stopped by itself."""
    facts = turn.sampled.facts
    if facts.get("finish_reason") == "length":
        return {"type": "length", "length": len(turn.sampled)}
    read = identity if isinstance(facts.get("matched"), str) else whole
    return {"type": "stop", "matched": _fact(turn, "matched", read)}


def _fact(turn: Turn, name: str, read: Callable[[Any, str], Any]) -> Any:
    """Return a fact that goes into an answer, which has to be of the kind that a server gives; None where it is null.

    Raises:
        RecordError: If it is of another kind: a record that something else wrote.
    """
    return optional(read)(turn.sampled.facts.get(name), f"turns[{turn.index}].sampled.facts.{name}")


def _prompt_logprobs(turn: Turn, start: int) -> list[tuple[float | None, int, None]]:
    """Return the recorded values of the prompt's tokens; as on the wire, the first of the span has none."""
    rollout = turn.rollout()
    ids, known = _prompt_of(turn), rollout.logprobs
    new = len(ids) - len(turn.prompt)
    return [(known[at] if at > start and at >= new else None, ids[at], None) for at in range(start, len(ids))]


def _routed_experts(turn: Turn, body: dict[str, Any]) -> str | None:
    """Return the recorded rows, where they are asked for as they were."""
    if not body.get("return_routed_experts"):
        return None
    rows: str | None = _fact(turn, "routed_experts", identity)
    recorded, asked = turn.sampled.facts.get("routed_experts_start_len"), body.get("routed_experts_start_len", 0)
    if rows is None or recorded != asked:
        what = "none are recorded" if rows is None else f"those recorded begin at {recorded}"
        raise ReplayMismatchError(
            f"turn {turn.index} is asked for routed experts from position {asked} on, but {what}", turn=turn.index
        )
    return rows

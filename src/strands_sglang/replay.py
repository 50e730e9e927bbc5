"""A saved episode as an engine: the same agent code runs again, offline, and gets the recorded answers.

Owns which recorded turn answers which request. Invariant: a turn is played once, to a request of exactly the ids and
images that it was sampled after; any other request is an error that names the first difference.
What a turn went through when it was recorded (retries, aborts, waiting) is not played again, but for aborts without
which an answer could not tell what the record does: `_cuts`. Nothing is made up: a value that was not recorded is null.
Sampling parameters are not compared: the answers are what they are.
"""

from __future__ import annotations

import base64
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from .client import SGLangClient
from .engine import EngineTransport, ScriptedEngine
from .engine import Turn as Played
from .errors import RecordError, ReplayMismatchError
from .rollout.values import identity, optional, shown, whole
from .trajectory import Trajectory, Turn
from .wire.columns import row_bytes

# Tokens shown before and after the first that differs.
_BEFORE, _AFTER = 12, 16
_EXACT = ("exact", "exact")
# Facts of rows that a later prefill brought.
_REFED = ("routed_experts_refed", "indexer_topk_refed")


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
        self._waiting: dict[_Key, deque[_Step]] = {}
        for turn in self._turns:
            self._waiting.setdefault(_key(_prompt_of(turn), _images_of(turn)), deque()).append(
                _Step(turn=turn, begin=0)
            )
        images = any(turn.images for turn in self._turns)
        self.engine = ScriptedEngine(self._answer, tokenizer=tokenizer, model_info={"has_image_understanding": images})

    def client(self, **options: Any) -> SGLangClient:
        """Return a client of the engine.

        Args:
            **options: Arguments of `SGLangClient`.
        """
        given = {"max_retries": 0, "max_resumptions": max([16, *map(len, map(_cuts_or_none, self._turns))]), **options}
        return SGLangClient("http://replay", transport=EngineTransport(self.engine), **given)

    @property
    def unplayed(self) -> list[Turn]:
        """The recorded turns that nobody asked for yet, in order; empty after a complete replay."""
        return [turn for turn in self._turns if id(turn) not in self._played]

    def _answer(self, body: dict[str, Any]) -> Played:
        """Return the recorded answer to a request."""
        prompt, images = list(body.get("input_ids") or ()), _asked_images(body)
        waiting = self._waiting.get(_key(prompt, images))
        if not waiting:
            raise self._failed(self._mismatch(prompt, images))
        step = waiting[0]
        try:
            answer = _played(step, body)
        except ReplayMismatchError as error:
            raise self._failed(error) from None
        waiting.popleft()
        self._played.add(id(step.turn))
        if not step.is_last:  # it goes on from these ids, before anything else does
            rest = _Step(turn=step.turn, begin=step.end)
            key = _key([*prompt, *step.turn.sampled.ids[step.begin : step.end]], images)
            self._waiting.setdefault(key, deque()).appendleft(rest)
        return answer

    def _failed(self, error: ReplayMismatchError) -> ReplayMismatchError:
        self.mismatches.append(error)
        return error

    def _mismatch(self, prompt: Sequence[int], images: Sequence[str]) -> ReplayMismatchError:
        """Return the error for a request that no turn is left for."""
        alike = [turn for turn in self._turns if _prompt_of(turn) == list(prompt)]
        for turn in alike:
            if id(turn) not in self._played:
                return ReplayMismatchError(
                    f"the request for turn {turn.index} is not the recorded one: it has the same tokens, but "
                    f"{_other_images(_images_of(turn), images)}",
                    turn=turn.index,
                )
        if alike:
            return ReplayMismatchError(
                f"turn {alike[0].index} is asked for once more than it was recorded: its prompt of {len(prompt)} "
                "tokens has no further answer",
                turn=alike[0].index,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What one request is answered with: a turn, or a part of it.

    Attributes:
        turn: The turn.
        begin: The first of its sampled ids that are played.
    """

    turn: Turn
    begin: int

    @property
    def end(self) -> int:
        """One past the last id."""
        return next((cut for cut in _cuts(self.turn) if cut > self.begin), len(self.turn.sampled))

    @property
    def is_last(self) -> bool:
        """Whether the turn ends with it."""
        return self.end == len(self.turn.sampled)

    @property
    def position(self) -> int:
        """How many ids stand in the context before it."""
        return len(_prompt_of(self.turn)) + self.begin


_Key = tuple[bytes, tuple[str, ...]]


def _key(ids: Sequence[int], images: Sequence[str]) -> _Key:
    return array("q", ids).tobytes(), tuple(images)


def _images_of(turn: Turn) -> list[str]:
    """Return the images of the ids that a turn was sampled after."""
    return [image for one in turn.path() for image in one.images]


def _asked_images(body: dict[str, Any]) -> list[str]:
    asked = body.get("image_data") or []
    return [
        image if isinstance(image, str) else repr(image) for image in ([asked] if isinstance(asked, str) else asked)
    ]


def _other_images(recorded: Sequence[str], asked: Sequence[str]) -> str:
    at = _common(recorded, asked)
    where = f"image {at} is another one" if at < min(len(recorded), len(asked)) else "not as many images"
    return f"{where}: {len(recorded)} recorded and {len(asked)} asked"


def _prompt_of(turn: Turn) -> list[int]:
    """Return the ids that a turn was sampled after."""
    ids = turn.rollout().token_ids
    return ids[: len(ids) - len(turn.sampled)]


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many ids, or images, two prompts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cuts(turn: Turn) -> list[int]:
    """Return where a turn's ids are played in parts: an answer is aborted there, and the client carries it on.

    One answer tells one version for all of its tokens, or versions without gaps, or none. A turn that was carried on
    may have some of each; and the rows that its last part brought of the tokens before are those of another prefill.
    """
    cuts = {begin for (_, _, before), (begin, _, kind) in pairwise(_stretches(turn)) if (before, kind) != _EXACT}
    retracted = bool(turn.sampled.facts.get("retractions")) and not cuts
    if not retracted:  # else one answer says so
        prompt = len(_prompt_of(turn))
        refed = [end + 1 - prompt for name in _REFED for _, end in _pairs(turn, name)]
        cuts |= {cut for cut in refed if 0 < cut < len(turn.sampled)}
    return sorted(cuts)


def _cuts_or_none(turn: Turn) -> list[int]:
    """Return the cuts; none of a turn that cannot be played, which is told when it is asked for."""
    try:
        return _cuts(turn)
    except RecordError:
        return []


def _stretches(turn: Turn) -> Iterator[tuple[int, int, str]]:
    """Yield the stretches of a turn's ids, each with what is known of its weights."""
    widened, reached = _pairs(turn, "weights_widened"), 0
    for _, start, end in turn.sampled.weight_spans:
        if reached < start:
            yield reached, start, "unknown"
        is_widened = any(begin < end and start < to for begin, to in widened)
        yield start, end, "widened" if is_widened else "exact"
        reached = end
    if reached < len(turn.sampled):
        yield reached, len(turn.sampled), "unknown"


def _pairs(turn: Turn, name: str) -> list[tuple[int, int]]:
    """Return a fact that is a list of [start, end]; empty where it is not there."""
    fact, place = turn.sampled.facts.get(name), f"turns[{turn.index}].sampled.facts.{name}"
    if not isinstance(fact, list | tuple | None) or any(
        not isinstance(pair, list | tuple) or len(pair) != 2 for pair in fact or ()
    ):
        raise RecordError(f"{place} is {shown(fact)}, not a list of [start, end]")
    return [(whole(pair[0], place), whole(pair[1], place)) for pair in fact or ()]


def _played(step: _Step, body: dict[str, Any]) -> Played:
    """Return a recorded turn, or a part of it, as a step of the script."""
    turn, begin, end = step.turn, step.begin, step.end
    budget = (body.get("sampling_params") or {}).get("max_new_tokens")
    if not step.is_last and isinstance(budget, int) and budget <= end - begin:
        raise ReplayMismatchError(
            f"turn {turn.index} has {len(turn.sampled)} tokens, but only {begin + budget} are asked for",
            turn=turn.index,
        )
    spans = [
        (name, max(start, begin) - begin, min(to, end) - begin)
        for name, start, to in turn.sampled.weight_spans
        if start < end and begin < to
    ]
    known = next((kind for start, to, kind in _stretches(turn) if start <= begin < to), "unknown")
    unnamed = {"exact": [], "widened": ["weight_versions"]}.get(known, ["weight_versions", "weight_version"])
    return Played(
        ids=list(turn.sampled.ids[begin:end]),
        logprobs=turn.sampled.logprob_list()[begin:end],
        finish=_finish(turn) if step.is_last else "abort",
        weight_version=spans[-1][0] if spans else None,
        weight_versions=[{"version": name, "start": start, "end": to} for name, start, to in spans],
        routed_experts=_routed_experts(step, body),
        meta=_meta(step, body),
        # What the engine would say by itself, and the record does not.
        without=[*unnamed, *(["cached_tokens"] if begin or "cached_tokens" not in turn.sampled.facts else [])],
    )


def _meta(step: _Step, body: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer tells beside its tokens and weights."""
    turn, facts = step.turn, step.turn.sampled.facts
    meta: dict[str, Any] = {
        name: _fact(turn, name, read)
        for name, read in (("prompt_tokens", whole), ("cached_tokens", whole), ("indexer_topk", identity))
        if name in facts
    }
    if step.begin and meta.get("prompt_tokens") is not None:
        meta["prompt_tokens"] += step.begin
    if meta.get("indexer_topk") is not None:
        meta["indexer_topk"] = _rows(step, "indexer_topk", recorded=0, asked=0)
    if "retractions" in facts and step.is_last:  # without it the rows would be taken for those of the sampling weights
        meta["num_retractions"] = _fact(turn, "retractions", whole)
    start = body.get("logprob_start_len", -1)
    if body.get("return_logprob") and isinstance(start, int) and start >= 0:
        meta["input_token_logprobs"] = _prompt_logprobs(turn, start)
    if (support := turn.sampled.support) is not None:
        meta["output_token_sampling_mask"] = list(support)[step.begin : step.end]
        meta["output_token_sampling_logprobs"] = support.logprob_list()[step.begin : step.end]
    return meta


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


def _routed_experts(step: _Step, body: dict[str, Any]) -> str | None:
    """Return the recorded rows, where they are asked for as they were."""
    if not body.get("return_routed_experts"):
        return None
    turn = step.turn
    rows: str | None = _fact(turn, "routed_experts", identity)
    recorded, asked = turn.sampled.facts.get("routed_experts_start_len"), body.get("routed_experts_start_len", 0)
    if rows is None or (recorded != asked and not step.begin):
        what = "none are recorded" if rows is None else f"those recorded begin at {recorded}"
        raise ReplayMismatchError(
            f"turn {turn.index} is asked for routed experts from position {asked} on, but {what}", turn=turn.index
        )
    return _rows(step, "routed_experts", recorded=recorded, asked=asked)


def _rows(step: _Step, name: str, *, recorded: Any, asked: int) -> str | None:
    """Return the rows that a step brings; None where what carries it on brought them all.

    Args:
        step: The step.
        name: The fact that holds the rows of the turn.
        recorded: Position of their first one.
        asked: Position from which the step is asked for them.
    """
    turn = step.turn
    rows: str = _fact(turn, name, identity)
    if not step.begin and step.is_last:
        return rows
    if not step.is_last and f"{name}_refed" in turn.sampled.facts:
        return None
    count = len(_prompt_of(turn)) + len(turn.sampled) - 1 - whole(recorded, f"turns[{turn.index}].{name}_start_len")
    width = row_bytes(rows, count)
    try:
        payload = base64.b64decode(rows, validate=True)
    except ValueError:
        width = None
    if not width:
        raise RecordError(f"turns[{turn.index}].sampled.facts.{name} is not base64 of {count} rows of int32")
    last = step.position + step.end - step.begin - 1
    return base64.b64encode(payload[(asked - recorded) * width : (last - recorded) * width]).decode()

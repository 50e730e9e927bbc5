"""The short form of the chaos test, and that its checks see what they are for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from strands_sglang import Rollout, SGLangClient
from strands_sglang.engine import EngineTransport, ScriptedEngine
from strands_sglang.errors import SGLangThrottledError
from strands_sglang.rollout import Segment
from tests.chaos.episodes import Log, Outcome, Planned, calm_rollout, faults, play, run

SEED = 3
EPISODE = 4  # one with several turns


async def test_episodes_survive_a_connection_that_fails_in_every_way(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    report = await run(25, seed=SEED)
    assert report.wrong == []
    assert report.finished > 15
    assert len(report.struck) > 8


async def recorded() -> tuple[Rollout, Rollout, Log]:
    """An episode that was aborted now and then, the same in peace, and the engine's log."""
    planned = Planned(seed=SEED)
    engine = ScriptedEngine(planned.step, tokenizer=planned.tokenizer)
    async with SGLangClient("http://engine", transport=EngineTransport(engine)) as client:
        outcome = await play(EPISODE, client, stream=False)
    return outcome.rollout, await calm_rollout(EPISODE, seed=SEED), planned.log


def changed(rollout: Rollout, change: Callable[[dict[str, Any]], None]) -> Rollout:
    """The rollout with its last sampled segment changed."""
    *others, last = rollout.segments
    fields: dict[str, Any] = {
        "ids": list(last.ids),
        "logprobs": last.logprob_list(),
        "weight_spans": last.weight_spans,
        "message_index": last.message_index,
        "facts": last.facts,
    }
    change(fields)
    return Rollout([*others, Segment.of(last.kind, fields.pop("ids"), fields.pop("logprobs"), **fields)])


def swap_two_logprobs(fields: dict[str, Any]) -> None:
    fields["logprobs"][:2] = fields["logprobs"][1::-1]


def lose_a_token(fields: dict[str, Any]) -> None:
    for values in (fields["ids"], fields["logprobs"]):
        del values[-1]
    kept = len(fields["ids"])  # a span beyond the ids would be refused by the record itself
    fields["weight_spans"] = [(version, start, min(end, kept)) for version, start, end in fields["weight_spans"]]


def name_other_weights(fields: dict[str, Any]) -> None:
    fields["weight_spans"] = [("v999", 0, len(fields["ids"]))]


def sample_another_id(fields: dict[str, Any]) -> None:
    fields["ids"][0] += 1


async def test_an_untouched_record_has_no_fault() -> None:
    rollout, calm, log = await recorded()

    assert faults(Outcome(EPISODE, rollout, None), calm, log) == []


@pytest.mark.parametrize("change", [swap_two_logprobs, lose_a_token, name_other_weights, sample_another_id])
async def test_a_record_that_was_tampered_with_is_noticed(change: Callable[[dict[str, Any]], None]) -> None:
    rollout, calm, log = await recorded()

    assert faults(Outcome(EPISODE, changed(rollout, change), None), calm, log)


async def test_a_record_that_ends_early_or_with_a_strange_error_is_noticed() -> None:
    rollout, calm, log = await recorded()
    busy = SGLangThrottledError("busy", status=503)
    cut = Rollout(rollout.segments[:-1])
    whole_turns = Rollout(rollout.segments[:-2])

    assert faults(Outcome(EPISODE, whole_turns, None), calm, log)
    assert faults(Outcome(EPISODE, whole_turns, busy), calm, log) == []
    assert faults(Outcome(EPISODE, cut, busy), calm, log)
    assert faults(Outcome(EPISODE, rollout, KeyError("meta_info")), calm, log)

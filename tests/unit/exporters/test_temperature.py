"""At which temperature logprobs are: prime-rl divides by it, the others are told in the losses."""

from __future__ import annotations

from typing import Any

import pytest

from strands_sglang.errors import ExportError
from strands_sglang.exporters import get_exporter
from strands_sglang.trajectory import Trajectory

from .readers import READERS
from .test_choices import losses, made
from .trees import prompt, sampled, turn_of

TEMPERED, UNTEMPERED = {"logprob_kind": "tempered"}, {"logprob_kind": "untempered"}


def at(sent: float | None, **facts: Any) -> Trajectory:
    """One turn, sampled at a temperature."""
    episode = Trajectory(id="e", reward=1.0)
    params = {} if sent is None else {"temperature": sent}
    facts = {"sampling_params": params, **facts}
    turn_of(episode, None, prompt([1]), sampled([1000, 1001], facts=facts), credit={"advantage": 1.0})
    return episode


def temperatures(episode: Trajectory, **options: Any) -> list[float]:
    row = get_exporter("prime_rl", env_name="toy", **options).export(episode).row
    found = row["temperatures"]
    assert isinstance(found, list)
    return found[1:]


@pytest.mark.parametrize(
    ("episode", "options", "value"),
    [
        (at(0.7), {}, 0.7),
        (at(0.7, **TEMPERED), {"temperature": 1.0}, 0.7),
        (at(0.6, top_k=1, **TEMPERED), {}, 0.6),
        (at(1.0, **UNTEMPERED), {}, 1.0),
        (at(1.0, sampling_params={"temperature": 1.0, "top_k": 1}, temperature=1.0), {}, 1.0),
        (at(0.6, sampling_params={"temperature": 0.6, "top_k": 1}), {"temperature": 1.0}, 1.0),
        (at(0.7, **UNTEMPERED), {"temperature": 1.0}, 1.0),
        (at(0.0, **UNTEMPERED), {"temperature": 1.0}, 1.0),
        (at(None, temperature=0.7, **TEMPERED), {}, 0.7),
        (at(None), {"temperature": 0.9}, 0.9),
    ],
)
def test_a_tokens_temperature_is_that_of_its_logprob(
    episode: Trajectory, options: dict[str, Any], value: float
) -> None:
    assert temperatures(episode, **options) == [value, value]


@pytest.mark.parametrize(
    ("episode", "options", "words"),
    [
        (at(0.7, **UNTEMPERED), {}, "temperature 0.7, and its logprobs are those of temperature 1"),
        (at(0.7, **UNTEMPERED), {"temperature": 0.7}, "temperature 0.7, and its logprobs are those of temperature 1"),
        (at(1e-9, **UNTEMPERED), {}, "temperature 1e-09, and its logprobs are those of temperature 1"),
        (at(0.6, sampling_params={"temperature": 0.6, "top_k": 1}), {}, "temperature 0.6, and its logprobs are"),
        (at(1e-9), {"temperature": 1.0}, "temperature 1e-09"),
        (at(0.0, **TEMPERED), {}, "temperature 0.0"),
        (at(-1.0), {}, "temperature -1.0"),
        (at(None, **UNTEMPERED), {}, "a temperature that the record does not tell"),
    ],
)
def test_a_temperature_that_is_not_that_of_the_logprobs_is_refused(
    episode: Trajectory, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ExportError, match=f"turn 0 was sampled at {words}"):
        temperatures(episode, **options)


@pytest.mark.parametrize("name", sorted(set(READERS) - {"prime_rl", "jsonl", "parquet"}))
def test_other_exporters_say_of_which_temperature_the_logprobs_are(name: str) -> None:
    fields = {"temperature", "logprob_kind"}

    def listed(episode: Trajectory) -> set[str]:
        return fields.intersection(losses(made(name).export(episode)))

    assert listed(at(0.7, **TEMPERED)) == listed(at(None, temperature=0.7)) == {"temperature"}
    assert listed(at(0.7, **UNTEMPERED)) == (set() if name == "art" else {"logprob_kind"})
    assert listed(at(1.0, **TEMPERED)) == listed(at(1.0, **UNTEMPERED)) == set()

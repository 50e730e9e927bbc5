"""Whether the log-probabilities of a turn can be compared with those of a second pass, and at which temperature.

A second pass gives log-softmax of the bare logits. What was sampled at another temperature, under a grammar, a bias or
a penalty has a log-probability of another distribution, which is no fault of the record.
Never compares anything, and never takes "cannot be compared" for a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strands_sglang.rollout import LogprobKind
from strands_sglang.rollout.values import shown
from strands_sglang.trajectory import Turn

_GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")
# Parameters that change logits, each with the value at which it does not.
_NEUTRAL = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_new_tokens": 0,
}
_GREEDY_BELOW = 1e-6  # where SGLang takes the likeliest token, and reports it as at temperature 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a turn was sampled, as far as it bears on its log-probabilities.

    Attributes:
        temperature: The temperature of the recorded values; 1.0 where the turn was greedy.
        obstacle: Why they cannot be compared, or None.
    """

    temperature: float = 1.0
    obstacle: str | None = None


def conditions_of(turn: Turn, *, defaults: Mapping[str, Any]) -> Conditions:
    """Say how a turn was sampled.

    Args:
        turn: The turn; its facts hold the sampling parameters that were sent.
        defaults: What the server takes for parameters that were not sent.
    """
    sent = turn.sampled.facts.get("sampling_params") or {}
    if not isinstance(sent, Mapping):
        return Conditions(obstacle="the record's sampling_params are no object")
    given = {name: value for name, value in sent.items() if value is not None}
    params = {**defaults, **given}
    if grammar := next((name for name in _GRAMMARS if params.get(name)), None):
        return Conditions(obstacle=f"sampled under a grammar ({grammar})")
    for name in ("logit_bias", "custom_params"):
        if params.get(name):
            return Conditions(obstacle=f"sampled with {name}")
    for name, neutral in _NEUTRAL.items():
        if params.get(name, neutral) not in (neutral, None):
            return Conditions(obstacle=f"sampled with {name} {shown(params[name])}")
    temperature = params.get("temperature", 1.0)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not abs(temperature) < 2**63:
        return Conditions(obstacle=f"the record names no temperature but {shown(temperature)}")
    if temperature < _GREEDY_BELOW or turn.sampled.facts.get("logprob_kind") == LogprobKind.UNTEMPERED:
        return Conditions()
    if temperature != 1 and params.get("top_k") == 1:
        # Beside other greedy requests the server leaves the temperature out, beside others not.
        return Conditions(obstacle=f"sampled with top_k 1 at temperature {temperature}")
    return Conditions(temperature=float(temperature))

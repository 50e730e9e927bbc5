"""What the SDK asks of every provider: it is a `Model`, and structured output is forced, both ways."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel
from strands import Agent
from strands.models import Model

from .scene import Mode, Scene, build, calm


class Weather(BaseModel):
    """Time and weather."""

    time: str
    weather: str


class UserProfile(BaseModel):
    """Basic user profile model."""

    name: str
    age: int
    occupation: str


def schema(on: Scene, request: int) -> str:
    """The grammar of a request, as text."""
    params = on.engine.requests[request]["sampling_params"]
    return str(params.get("json_schema") or params.get("structural_tag"))


def test_the_provider_is_a_model() -> None:
    model: Model = build().model

    assert isinstance(model, Model)
    assert not model.stateful
    assert Agent(model=model).model is model


@calm
def test_legacy_structured_output_is_forced(mode: Mode) -> None:
    answer = {"time": "noon", "weather": "rain"}
    on = build(json.dumps(answer), mode=mode)

    with pytest.warns(DeprecationWarning, match="structured_output"):
        weather = Agent(model=on.model).structured_output(Weather, "How are you?")

    assert weather == Weather(time="noon", weather="rain")
    assert '"weather"' in schema(on, 0)
    on.check()


@calm
def test_structured_output_of_an_invocation_is_forced(mode: Mode) -> None:
    answer = {"name": "John", "age": 25, "occupation": "dentist"}
    on = build("John is a dentist.", json.dumps(answer), mode=mode)

    result = on.agent()("Create a profile for John who is a 25 year old dentist", structured_output_model=UserProfile)

    assert result.structured_output == UserProfile(name="John", age=25, occupation="dentist")
    assert '"occupation"' in schema(on, 1)
    on.check()

"""Structured output and forced calls: what is asked of the server's grammar, and what is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from strands_sglang.errors import SGLangGenerationError
from strands_sglang.tool_parsers import ToolParser, ToolParseResult
from strands_sglang.trajectory import Lineage

from .conftest import END, Stage, call
from .test_episode import Build, check_record


class Verdict(BaseModel):
    """A verdict."""

    right: bool
    words: str = ""


JSON = '{"right": true, "words": "<tool_call>"}'


async def test_a_forced_output_is_constrained_and_recorded_on_the_same_branch(stage: Build) -> None:
    on = stage("It is right." + END, JSON + END)

    result = await on.agent().invoke_async("Judge.", structured_output_model=Verdict)

    assert result.structured_output == Verdict(right=True, words="<tool_call>")
    assert "json_schema" not in on.engine.requests[0]["sampling_params"]
    schema = json.loads(on.engine.requests[1]["sampling_params"]["json_schema"])
    assert schema["title"] == "Verdict"
    check_record(on)
    assert len(on.model.trajectory.branches) == 1


async def test_with_reasoning_open_the_grammar_lets_it_end_first(stage: Build) -> None:
    on = stage("Hm.\n</think>\n\nRight." + END, "Hm.\n</think>\n\n" + JSON + END, enable_thinking=True)

    result = await on.agent().invoke_async("Judge.", structured_output_model=Verdict)

    assert result.structured_output == Verdict(right=True, words="<tool_call>")
    tag = json.loads(on.engine.requests[1]["sampling_params"]["structural_tag"])
    assert [element["type"] for element in tag["format"]["elements"]] == ["tag", "const_string", "json_schema"]
    assert tag["format"]["elements"][0]["end"] == "</think>"


async def test_an_output_by_its_tool_needs_no_constraint(stage: Build) -> None:
    on = stage(call("Verdict", '{"right": false}') + END)

    result = await on.agent().invoke_async("Judge.", structured_output_model=Verdict)

    assert result.structured_output == Verdict(right=False)
    assert len(on.engine.requests) == 1


async def test_the_legacy_method_is_a_side_call(stage: Build) -> None:
    on = stage("Hello." + END, JSON + END)
    agent = on.agent()
    await agent.invoke_async("Hi")

    with pytest.warns(DeprecationWarning, match="structured_output"):
        verdict = await agent.structured_output_async(Verdict, "Judge.")

    assert verdict.right
    assert [turn.lineage for turn in on.model.trajectory.turns] == [Lineage.MAIN, Lineage.SIDE_CALL]
    assert len(on.model.trajectory.samples()) == 1


async def test_an_answer_that_is_no_instance_is_an_error(stage: Build) -> None:
    on = stage("Hello." + END, '{"right": "perhaps"}' + END)
    agent = on.agent()
    await agent.invoke_async("Hi")

    deprecated = pytest.warns(DeprecationWarning, match="structured_output")
    with deprecated, pytest.raises(SGLangGenerationError, match="no Verdict"):
        await agent.structured_output_async(Verdict, "Judge.")


async def chosen(on: Stage, choice: dict[str, Any]) -> dict[str, Any]:
    """Ask the model directly, with a tool choice."""
    specs = [{"name": name, "description": name, "inputSchema": {"json": {"type": "object"}}} for name in ("f", "g")]
    messages = [{"role": "user", "content": [{"text": "Go"}]}]
    async for _ in on.model.stream(messages, specs, tool_choice=choice):  # type: ignore[arg-type]
        pass
    params: dict[str, Any] = on.engine.requests[-1]["sampling_params"]
    return params


async def test_a_forced_tool_is_a_grammar_of_its_call(stage: Build) -> None:
    on = stage(call("g", "{}") + END)

    params = await chosen(on, {"tool": {"name": "g"}})

    tag = json.loads(params["structural_tag"])["format"]
    assert tag["begin"] == '<tool_call>\n{"name": "g", "arguments": '
    assert tag["content"] == {"type": "json_schema", "json_schema": {"type": "object"}}


async def test_any_tool_is_a_choice_of_grammars(stage: Build) -> None:
    on = stage(call("g", "{}") + END)

    params = await chosen(on, {"any": {}})

    assert len(json.loads(params["structural_tag"])["format"]["elements"]) == 2


async def test_a_choice_that_no_grammar_expresses_warns(stage: Build) -> None:
    class Other(ToolParser):
        def parse(self, text: str, **_: Any) -> list[ToolParseResult]:
            return []

    on = stage("Hello." + END)
    on.model.tool_parser = Other()

    with pytest.warns(UserWarning, match="ToolChoice"):
        params = await chosen(on, {"any": {}})

    assert "structural_tag" not in params

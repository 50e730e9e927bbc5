"""Images in user messages and tool results, with real tokenizers and templates that have a place for them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from strands import Agent, tool
from strands.types.exceptions import EventLoopException

from strands_sglang import Rollout, SGLangClient, SGLangModel, UnsupportedContentError
from strands_sglang.engine import EngineTransport, ScriptedEngine, Turn
from strands_sglang.tool_parsers import get_tool_parser
from tests.real_tokenizers import real_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PICTURES = [b"\x89PNG first", b"\x89PNG second", b"\x89PNG third", b"\x89PNG fourth"]
URLS = [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in PICTURES]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One model's ways.

    Attributes:
        placeholder: The token that stands for an image.
        end: What ends an answer.
        call: A call of `camera`.
        parser: The name of its parser.
    """

    placeholder: str
    end: str
    call: str
    parser: str


KINDS = {
    "qwen3.5": Kind(
        placeholder="<|image_pad|>",
        end="<|im_end|>",
        call="</think>\n\n<tool_call>\n<function=camera>\n</function>\n</tool_call>",
        parser="qwen_xml",
    ),
    "glm-4.5v": Kind(placeholder="<|image|>", end="<|user|>", call="\n<tool_call>camera\n</tool_call>", parser="glm"),
}


def image(number: int) -> Any:
    return {"image": {"format": "png", "source": {"bytes": PICTURES[number]}}}


@tool
def camera() -> dict[str, Any]:
    """Take two pictures."""
    content = [{"text": "Before."}, image(2), {"text": "Between."}, image(3), {"text": "After."}]
    return {"status": "success", "content": content}


def agent_of(name: str, *answers: str, tools: list[Any], takes_images: bool = True) -> tuple[Agent, ScriptedEngine]:
    tokenizer = real_tokenizer(name)
    engine = ScriptedEngine(
        [Turn(text=answer) for answer in answers],
        tokenizer=tokenizer,
        model_info={"has_image_understanding": takes_images},
    )
    model = SGLangModel(
        client=SGLangClient("http://engine", transport=EngineTransport(engine)),
        tokenizer=tokenizer,
        tool_parser=get_tool_parser(KINDS[name].parser),
        check_template=False,  # tests/unit/tokenization does, at length
    )
    return Agent(model=model, tools=tools, callback_handler=None), engine


def check(engine: ScriptedEngine, rollout: Rollout, tokenizer: PreTrainedTokenizerFast, placeholder: str) -> None:
    """Each prompt begins with the prompt and answer before it (G2), with one image for each placeholder (G1)."""
    token = tokenizer.convert_tokens_to_ids(placeholder)
    assert isinstance(token, int)
    assert token != tokenizer.unk_token_id
    for number, request in enumerate(engine.requests):
        prompt, images = request["input_ids"], request.get("image_data", [])
        assert prompt.count(token) == len(images)
        assert images == URLS[: len(images)]
        assert rollout.token_ids[: len(prompt)] == prompt, f"the prompt of turn {number} is not in the record"
    assert rollout.token_ids.count(token) == len(rollout.image_data)
    assert not any(mask for mask, read in zip(rollout.loss_mask, rollout.token_ids, strict=True) if read == token)
    assert Rollout.from_json(rollout.to_json()) == rollout


@pytest.mark.parametrize("name", KINDS)
async def test_images_of_several_user_messages_stand_in_their_places_and_are_sent_in_order(name: str) -> None:
    kind, tokenizer = KINDS[name], real_tokenizer(name)
    agent, engine = agent_of(name, *[f"I see.{kind.end}"] * 3, tools=[])

    await agent.invoke_async([{"text": "Alpha"}, image(0), {"text": "Beta"}])
    await agent.invoke_async("Gamma")
    await agent.invoke_async([image(1), {"text": "Delta"}])

    model = agent.model
    assert isinstance(model, SGLangModel)
    assert [len(request.get("image_data", [])) for request in engine.requests] == [1, 1, 2]
    check(engine, model.rollout, tokenizer, kind.placeholder)
    text = str(tokenizer.decode(model.rollout.token_ids))
    order = [text.index(mark) for mark in ("Alpha", kind.placeholder, "Beta", "Gamma")]
    assert order == sorted(order)
    assert text.index("Gamma") < text.rindex(kind.placeholder) < text.index("Delta")
    assert model.rollout.image_data == URLS[:2]


async def test_images_of_a_tool_result_stand_in_their_places_and_are_sent_in_order() -> None:
    kind, tokenizer = KINDS["qwen3.5"], real_tokenizer("qwen3.5")
    answers = [f"Two.{kind.end}", f"{kind.call}{kind.end}", f"Four.{kind.end}"]
    agent, engine = agent_of("qwen3.5", *answers, tools=[camera])

    await agent.invoke_async([image(0), {"text": "Alpha"}, image(1)])
    await agent.invoke_async("Look around")

    model = agent.model
    assert isinstance(model, SGLangModel)
    assert [len(request.get("image_data", [])) for request in engine.requests] == [2, 2, 4]
    check(engine, model.rollout, tokenizer, kind.placeholder)
    _, _, told = str(tokenizer.decode(engine.requests[2]["input_ids"])).partition("Look around")
    order = [told.index("Before."), told.index(kind.placeholder), told.index("Between.")]
    order += [told.rindex(kind.placeholder), told.index("After.")]
    assert order == sorted(set(order))
    assert model.rollout.image_data == URLS


async def test_images_of_a_tool_result_are_refused_where_the_template_has_no_place_for_them() -> None:
    kind = KINDS["glm-4.5v"]
    agent, engine = agent_of("glm-4.5v", f"{kind.call}{kind.end}", tools=[camera])

    with pytest.raises(EventLoopException, match="message 2 \\(tool\\) holds blocks of image"):
        await agent.invoke_async([image(0), {"text": "Look around"}])

    model = agent.model
    assert isinstance(model, SGLangModel)
    assert len(engine.requests) == len(model.trajectory.turns) == 1
    assert model.rollout.image_data == URLS[:1]


@pytest.mark.parametrize("name", KINDS)
async def test_the_text_of_a_placeholder_is_no_place_for_an_image(name: str) -> None:
    kind, tokenizer = KINDS[name], real_tokenizer(name)
    agent, engine = agent_of(name, f"I see.{kind.end}", tools=[])

    await agent.invoke_async([{"text": f"What does {kind.placeholder} mean?"}, image(0)])

    model = agent.model
    assert isinstance(model, SGLangModel)
    check(engine, model.rollout, tokenizer, kind.placeholder)
    assert tokenizer.decode(model.rollout.token_ids).count(kind.placeholder) == 2


async def test_a_branch_has_the_images_of_its_own_path() -> None:
    kind = KINDS["qwen3.5"]
    agent, engine = agent_of("qwen3.5", *[f"I see.{kind.end}"] * 3, tools=[])
    await agent.invoke_async([image(0), {"text": "Alpha"}])
    await agent.invoke_async([image(1), {"text": "Beta"}])

    del agent.messages[2:]
    await agent.invoke_async([image(2), {"text": "Gamma"}])

    model = agent.model
    assert isinstance(model, SGLangModel)
    assert [branch.image_data for branch in model.trajectory.branches] == [URLS[:2], [URLS[0], URLS[2]]]
    assert engine.requests[2]["image_data"] == [URLS[0], URLS[2]]


async def test_images_for_a_server_that_takes_none_are_refused_before_anything_is_sent() -> None:
    agent, engine = agent_of("qwen3.5", tools=[], takes_images=False)

    with pytest.raises(UnsupportedContentError, match="takes text only"):
        await agent.invoke_async([image(0), {"text": "Alpha"}])

    assert engine.requests == []

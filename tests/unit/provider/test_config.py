from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strands_sglang import SGLangClient, SGLangModel, get_tokenizer
from strands_sglang.engine import TINY_MODEL
from strands_sglang.errors import ChatTemplateMissingError, SGLangConfigError, TemplateNotExactError
from strands_sglang.tool_parsers import HermesToolParser

from .conftest import END
from .test_episode import Build


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"samplng_params": {}},
            "unknown option 'samplng_params', did you mean 'sampling_params'.*takes: chat_template",
        ),
        ({"on_divergence": "ignore"}, "on_divergence must be one of branch, raise"),
        ({"control_tokens": None}, "control_tokens must be one of"),
        ({"return_logprob": "yes"}, "return_logprob must be True, False or None"),
        ({"sampling_params": [1]}, "sampling_params must be a mapping"),
        ({"chat_template_kwargs": {"x": object()}}, "chat_template_kwargs must hold JSON values"),
        ({"context_window_limit": 0}, "context_window_limit must be a positive integer"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(stage: Build, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SGLangConfigError, match=words):
        stage(**options)
    with pytest.raises(SGLangConfigError, match=words):
        stage().model.update_config(**options)


@pytest.mark.parametrize("client", [None, "http://localhost:1"])
def test_what_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(SGLangConfigError, match="client must be an SGLangClient"):
        SGLangModel(client=client, tokenizer=get_tokenizer(TINY_MODEL))


@pytest.mark.parametrize("parser", ["hermes", HermesToolParser, 3])
def test_what_is_no_parser_is_refused(parser: Any) -> None:
    with pytest.raises(SGLangConfigError, match="tool_parser must be a parser"):
        SGLangModel(client=SGLangClient("http://localhost:1"), tokenizer=get_tokenizer(TINY_MODEL), tool_parser=parser)


async def test_an_update_takes_effect_with_the_next_call(stage: Build) -> None:
    on = stage("One." + END)
    on.model.update_config(enable_thinking=True, sampling_params={"temperature": 0.5})

    await on.agent().invoke_async("Go")

    assert on.text(on.prompts[0]).endswith("<think>\n")
    assert on.engine.requests[0]["sampling_params"] == {"max_new_tokens": None, "temperature": 0.5}


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    tokenizer = get_tokenizer.__wrapped__(TINY_MODEL)
    tokenizer.chat_template = None

    with pytest.raises(ChatTemplateMissingError, match="no chat template"):
        SGLangModel(client=SGLangClient("http://localhost:1"), tokenizer=tokenizer)


def test_a_tokenizer_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SGLangConfigError, match="nowhere"):
        get_tokenizer(str(tmp_path / "nowhere"))


def test_a_directory_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(SGLangConfigError, match=r"no tokenizer can be loaded"):
        get_tokenizer(str(tmp_path))


DRIFTS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}"
    "{{ '\n' if m.content | length > 8 }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_a_template_that_drifts_is_refused_with_the_way_to_override() -> None:
    """What it writes after an answer depends on the answer's length, which no stand-in can know."""
    tokenizer = get_tokenizer.__wrapped__(TINY_MODEL)
    tokenizer.chat_template = DRIFTS
    client = SGLangClient("http://localhost:1")

    with pytest.raises(TemplateNotExactError) as raised:
        SGLangModel(client=client, tokenizer=tokenizer)

    assert "check_template=False" in str(raised.value.hint)
    assert len(SGLangModel(client=client, tokenizer=tokenizer, check_template=False).rollout) == 0

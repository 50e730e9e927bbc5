"""`get_tool_parser("auto", tokenizer=...)` finds the format from the template, or refuses."""

from __future__ import annotations

from typing import Any

import pytest

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tool_parsers import get_tool_parser
from strands_sglang.tool_parsers.auto import detect_format
from tests.real_tokenizers import FAST, chat_template, real_tokenizer, tokenizer_dir

FAMILIES = {
    "qwen2.5": "hermes",
    "qwen3": "hermes",
    "qwq": "hermes",
    "hermes": "hermes",
    "qwen3-coder": "qwen_xml",
    "qwen3.5": "qwen_xml",
    "qwen3.6": "qwen_xml",
    "glm": "glm",
    "deepseek-v3": "deepseek_v3",
    "deepseek-r1": "deepseek_v3",
    "deepseek-v3.1": "deepseek_v31",
    "deepseek-v3.2": "deepseek_v32",
    "deepseek-v4": "deepseek_v4",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3",
}
TEMPLATES = {
    "CohereLabs-command-a-plus-05-2026-w4a4": "cohere",
    "ByteDance-Seed-OSS": "seed_oss",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "Kimi-K2-Thinking": "kimi_k2",
    "LFM2-8B-A1B": "lfm2",
    "LFM2.5-8B-A1B": "lfm2",
    "MiniMaxAI-MiniMax-M1-80k": "minimax_m1",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_v2",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen_xml",
    "Salesforce-Llama-xLAM-2-8b-fc-r": "xlam",
    "XiaomiMiMo-MiMo-V2.5": "mimo",
    "ai21labs-Jamba-tiny-dev": "hunyuan_a13b",
    "allenai-Olmo-3-7B-Instruct": "olmo3",
    "google-gemma-4-E4B-it": "gemma4",
    "ibm-granite-granite-3.3-2B-Instruct": "granite",
    "ibm-granite-granite-4.1": "hermes",
    "internlm-Intern-S1-mini": "internlm2",
    "meituan-longcat-LongCat-2.0": "longcat_v2",
    "meituan-longcat-LongCat-Flash-Chat": "longcat",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3_json",
    "mistralai-Mistral-7B-Instruct-v0.3": "mistral_v3",
    "mistralai-Mistral-Small-4-119B-2603": "mistral_v11",
    "moonshotai-Kimi-K2.5": "kimi_k2",
    "openai-gpt-oss-120b": "gpt_oss",
    "openbmb-MiniCPM5-1B": "minicpm5",
    "poolside-Laguna-XS.2": "glm",
    "stepfun-ai-Step-3.7-Flash": "qwen_xml",
    "stepfun-ai-step3": "step3",
    "swiss-ai-Apertus-8B-Instruct-2509": "apertus",
    "tencent-Hy3": "hy_v3",
    "unsloth-functiongemma-270m-it": "functiongemma",
}


def family(name: str) -> str:
    """Return the format that a tokenizer's family uses."""
    return FAMILIES[max((prefix for prefix in FAMILIES if name.startswith(prefix)), key=len)]


@pytest.mark.parametrize("name", FAST)
def test_the_format_of_every_real_tokenizer_is_found(name: str) -> None:
    # One tokenizer renders them all: loading each takes longer than everything else here.
    template = (tokenizer_dir(name) / "chat_template.jinja").read_text()

    assert detect_format(real_tokenizer("qwen3"), template) == family(name)


@pytest.mark.parametrize(("name", "wanted"), TEMPLATES.items())
def test_the_format_of_a_template_is_found(name: str, wanted: str) -> None:
    assert detect_format(real_tokenizer("qwen3"), chat_template(name)) == wanted


@pytest.mark.parametrize("name", ["kerzgrr-Monostich-2-base", "penfever-grug-67b-a2b-sft-s2-thinking-step630"])
def test_a_template_that_prints_calls_of_no_known_format_is_refused_whatever_marks_it_has(name: str) -> None:
    # Both have Granite's mark, and other calls behind it.
    with pytest.raises(SGLangConfigError, match="renders no tool call that a parser reads"):
        detect_format(real_tokenizer("qwen3"), chat_template(name))


def test_auto_makes_the_parser() -> None:
    parser = get_tool_parser("auto", tokenizer=real_tokenizer("qwen3"))

    assert type(parser) is type(get_tool_parser("hermes"))


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
        "{{ raise_exception('no') }}",
        "{% for m in messages %}{% for c in m.tool_calls or [] %}[[{{ c.function.name }}]]{% endfor %}{% endfor %}",
    ],
)
def test_a_template_that_does_not_tell_is_refused_with_candidates(template: str) -> None:
    with pytest.raises(SGLangConfigError, match=r"candidates: .*hermes.*qwen_xml"):
        detect_format(real_tokenizer("qwen3"), template)


def test_auto_needs_a_tokenizer_with_a_template() -> None:
    with pytest.raises(SGLangConfigError, match="needs tokenizer="):
        get_tool_parser("auto")

    class Bare:
        chat_template = None

        def get_added_vocab(self) -> dict[str, int]:
            return {}

    bare: Any = Bare()
    with pytest.raises(SGLangConfigError, match="no chat template"):
        get_tool_parser("auto", tokenizer=bare)
